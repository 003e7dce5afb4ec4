/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out how much host memory is left before it is touched: Linux grants more
 * address space than it has memory, and kills the process that uses too much. */
#include "penta/base/alloc.h"
#include "penta/ops/device.h"
#include "penta/base/text.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { PATH_SIZE = 4096, LINE_SIZE = 4352 };

/* Reserved for MPI, HDF5, BLAS and page tables: a part of the host, and bytes per
 * process. */
static const double kept_for_others = 0.05;
enum { KEPT_BYTES = 64 << 20, MIB = 1 << 20 };

/* Reads the first number after `key` at the start of a line. The key "" finds the first
 * number of the file. */
static bool host_read_number(const char *path, const char *key, int64_t *out)
{
    char line[LINE_SIZE];
    bool found = false;
    FILE *file = fopen(path, "re");

    while (file && !found && fgets(line, sizeof line, file)) {
        long long number;
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%lld", &number) == 1;
        if (found)
            *out = number;
    }
    if (file)
        fclose(file);
    return found;
}

typedef struct group_files {
    const char *root, *limit, *usage, *cache;
} group_files_t;

static const group_files_t version2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                       "inactive_file "};
static const group_files_t version1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                       "memory.usage_in_bytes", "total_inactive_file "};

/* Memory that one control group may still allocate. Cache that the kernel can drop
 * counts as free. */
static int64_t host_group_available(const group_files_t *files, const char *group)
{
    char path[2 * PATH_SIZE];
    int64_t limit, usage, cache = 0;

    snprintf(path, sizeof path, "%s%s/%s", files->root, group, files->limit);
    if (!host_read_number(path, "", &limit)) /* "max" is not a number: no limit */
        return INT64_MAX;
    snprintf(path, sizeof path, "%s%s/%s", files->root, group, files->usage);
    if (!host_read_number(path, "", &usage))
        return INT64_MAX;
    snprintf(path, sizeof path, "%s%s/memory.stat", files->root, group);
    (void)host_read_number(path, files->cache, &cache);
    usage = cache < usage ? usage - cache : 0;
    return limit > usage ? limit - usage : 0;
}

/* The minimum over the group and all its parents. Inside a container only the root is
 * visible. */
static int64_t host_groups_available(const group_files_t *files, char *group)
{
    int64_t fewest = INT64_MAX;

    for (;;) {
        char *slash = strrchr(group, '/');
        int64_t available;
        if (slash && slash[1] == '\0')
            *slash = '\0';
        available = host_group_available(files, group);
        fewest = available < fewest ? available : fewest;
        slash = strrchr(group, '/');
        if (!slash)
            return fewest;
        *slash = '\0';
    }
}

/* /proc/self/cgroup has lines such as "0::/path" and "7:memory:/path". */
static int64_t host_control_groups_available(void)
{
    char line[LINE_SIZE];
    int64_t fewest = INT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");

    while (file && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        int64_t available = INT64_MAX;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (names[1] == '\0')
            available = host_groups_available(&version2, group);
        else if (strstr(names, "memory"))
            available = host_groups_available(&version1, group);
        fewest = available < fewest ? available : fewest;
    }
    if (file)
        fclose(file);
    return fewest;
}

static int64_t host_memory_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bytes from a file of /proc that states KiB; INT64_MAX if it lacks the key. */
static int64_t host_read_kib(const char *path, const char *key)
{
    int64_t kib;

    return host_read_number(path, key, &kib) && kib < INT64_MAX / 1024 ? kib * 1024
                                                                       : INT64_MAX;
}

/* Bytes that can still be mapped under strict overcommit; INT64_MAX without it. */
static int64_t host_unpromised(void)
{
    int64_t mode, promised;

    if (!host_read_number("/proc/sys/vm/overcommit_memory", "", &mode) || mode != 2)
        return INT64_MAX;
    promised = host_read_kib("/proc/meminfo", "Committed_AS:");
    mode = host_read_kib("/proc/meminfo", "CommitLimit:");
    return mode > promised ? mode - promised : 0;
}

int64_t pt_host_memory_available(void)
{
    return host_memory_least(
        host_read_kib("/proc/meminfo", "MemAvailable:"),
        host_memory_least(host_control_groups_available(), host_unpromised()));
}

/* ---- limits of the process ------------------------------------------------------- */

typedef struct limit {
    int resource;
    const char *flag, *used; /* flag of ulimit; line of /proc/self/status */
} limit_t;

static const limit_t limits[] = {{RLIMIT_AS, "-v", "VmSize:"},
                                 {RLIMIT_DATA, "-d", "VmData:"}};
enum { LIMITS = sizeof limits / sizeof limits[0] };

/* The limit that leaves the least memory; NULL if no limit is set. */
static const limit_t *host_tightest(int64_t *used, int64_t *left)
{
    const limit_t *found = NULL;

    *left = INT64_MAX;
    for (int i = 0; i < LIMITS; i++) {
        struct rlimit value;
        int64_t taken = host_read_kib("/proc/self/status", limits[i].used), rest;
        if (getrlimit(limits[i].resource, &value) != 0 ||
            value.rlim_cur >= (rlim_t)INT64_MAX || taken == INT64_MAX)
            continue;
        rest = (int64_t)value.rlim_cur > taken ? (int64_t)value.rlim_cur - taken : 0;
        if (rest < *left) {
            found = &limits[i];
            *used = taken;
            *left = rest;
        }
    }
    return found;
}

/* Rounds `wanted` up to the units of ulimit. */
static void host_memory_advise(const limit_t *limit, int64_t wanted, char *out,
                               size_t size)
{
    snprintf(out, size,
             "raise the limit: ulimit %s %lld or more, or unlimited (Slurm copies it "
             "from the shell that submitted the job: sbatch --propagate=NONE)",
             limit->flag, (long long)((wanted / MIB + 1) * (MIB / 1024)));
}

pt_status_t pt_process_memory_check(int64_t bytes, const char *what)
{
    char need[32], rest[32], remedy[160];
    int64_t used, left;
    const limit_t *limit = host_tightest(&used, &left);

    if (!limit || bytes <= left)
        return PT_OK;
    host_memory_advise(limit, pt_bytes_add(used, bytes), remedy, sizeof remedy);
    return PT_FAIL(PT_MEMORY,
                   "no memory for %s: %s, where ulimit %s leaves a process %s; %s",
                   what, pt_text_bytes(bytes, need, sizeof need), limit->flag,
                   pt_text_bytes(left, rest, sizeof rest), remedy);
}

int64_t pt_thread_stack_bytes(void)
{
    pthread_attr_t attributes;
    size_t bytes = 8 * MIB;

    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return (int64_t)bytes;
}

/* Blocks until the creator unlocks the gate. */
static void *host_memory_wait_for(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Starts all threads at the same time. Returns 0, or the error of the one that
 * failed. */
static int host_begin_threads(pthread_t *threads, int count)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int begun = 0, error = 0;

    pthread_mutex_lock(&gate);
    while (begun < count && error == 0) {
        error = pthread_create(&threads[begun], NULL, host_memory_wait_for, &gate);
        begun += error == 0;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < begun; i++)
        pthread_join(threads[i], NULL);
    return error;
}

pt_status_t pt_process_threads_check(int count, const char *advice)
{
    pthread_t *threads = NULL;

    PT_TRY(PT_NEW("threads", (size_t)count + 1, &threads));
    int error = host_begin_threads(threads, count);
    pt_free(threads);
    PT_CHECK_OS(
        error == 0, PT_MEMORY, error,
        "a process cannot begin %d thread%s: %m; %sraise the limit on processes "
        "and threads (ulimit -u, pids.max of the control group)",
        count, count == 1 ? "" : "s", advice);
    return PT_OK;
}

bool pt_host_memory_fits(int64_t bytes, int processes, int threads,
                         pt_memory_share_t *out)
{
    char text[32];
    int64_t used, left, available = pt_host_memory_available();
    int64_t kept = KEPT_BYTES + (threads - 1) * pt_thread_stack_bytes();
    const limit_t *limit = host_tightest(&used, &left);

    *out = (pt_memory_share_t){.bytes = INT64_MAX};
    if (available != INT64_MAX)
        out->bytes = (int64_t)((1 - kept_for_others) * (double)available) / processes;
    bool host_has_it = bytes <= out->bytes; /* else the limit is the smaller obstacle */
    bool limited = limit && left - kept < out->bytes;
    if (limited)
        out->bytes = left > kept ? left - kept : 0;
    if (limited && host_has_it) {
        snprintf(out->reason, sizeof out->reason, "and ulimit %s leaves a process %s",
                 limit->flag, pt_text_bytes(out->bytes, text, sizeof text));
        host_memory_advise(limit, pt_bytes_add(pt_bytes_add(used, kept), bytes),
                           out->remedy, sizeof out->remedy);
    } else {
        snprintf(out->reason, sizeof out->reason,
                 "%d of them on this host, where %s are available", processes,
                 pt_text_bytes(available, text, sizeof text));
        snprintf(out->remedy, sizeof out->remedy, "take a host with more memory");
    }
    return bytes <= out->bytes;
}
