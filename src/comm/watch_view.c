/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the records, and what the system knows of a process. */
#include "src/comm/watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *watch_map(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

void watch_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

/* Of a file such as /proc/1/stat: the fields after the name, which may hold
 * anything. */
static bool watch_read_stat(const char *path, char *state, uint64_t *start_ticks)
{
    enum { FIELDS_TO_START = 19 };
    char text[1024], *field;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    field = strrchr(text, ')');
    if (!field || field[1] != ' ')
        return false;
    *state = field[2];
    field += 2;
    for (int i = 0; i < FIELDS_TO_START && field; i++)
        field = strchr(field + 1, ' ');
    *start_ticks = field ? strtoull(field, NULL, 10) : 0;
    return true;
}

uint64_t watch_process(int pid, char *process, char *thread)
{
    char path[64];
    uint64_t start_ticks = 0, unused;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    *process = *thread = 'X';
    if (!watch_read_stat(path, process, &start_ticks))
        return 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    if (!watch_read_stat(path, thread, &unused))
        *thread = '?';
    return start_ticks;
}

/* A record that was being written while it was copied is none. */
static void watch_look_at_record(const watch_word_t *words, watch_record_t *out)
{
    uint64_t number = atomic_load_explicit(words, memory_order_acquire);

    watch_load(words, out, WATCH_RECORD_WORDS);
    atomic_thread_fence(memory_order_acquire);
    if (out->number != number || watch_get(words) != number)
        out->number = 0;
}

void watch_look(const watch_area_t *area, watch_view_t *out)
{
    *out = (watch_view_t){.rank = (int32_t)watch_get(&area->rank1) - 1,
                          .pid = (int32_t)watch_get(&area->pid),
                          .start_ticks = watch_get(&area->start_ticks),
                          .patient = watch_get(&area->patient) != 0,
                          .differs = watch_get(&area->differs) != 0};
    (void)gethostname(out->host, sizeof out->host - 1);
    watch_load(area->doing, out->doing, WATCH_DOING_WORDS);
    watch_load(area->where, &out->where, WATCH_WHERE_WORDS);
    watch_look_at_record(area->wait, &out->wait);
    for (int i = 0; i < WATCH_COMMS; i++)
        watch_load(area->comms[i], &out->comms[i], WATCH_COMM_WORDS);
    for (int i = 0; i < WATCH_RECORDS; i++)
        watch_look_at_record(area->records[i], &out->records[i]);
    if (watch_process(out->pid, &out->process, &out->thread) != out->start_ticks)
        out->process = out->thread = 'X'; /* another process has its number now */
}
