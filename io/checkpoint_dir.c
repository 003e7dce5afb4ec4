/* SPDX-License-Identifier: Apache-2.0 */
#include "io/checkpoint_file.h"
#include "penta/base/alloc.h"
#include "penta/io/checkpoint.h"
#include "penta/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEP_DIGITS = 8, MAX_DIGITS = 18, LIST_TRIES = 100, SCANS = 3 };

const char *pt_checkpoint_directory(const char *run_dir, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s/checkpoints", run_dir);
    return buffer;
}

const char *pt_checkpoint_path(const char *directory, int64_t step, char *buffer,
                               size_t size)
{
    snprintf(buffer, size, "%s/step_%0*" PRId64 ".h5", directory, STEP_DIGITS, step);
    return buffer;
}

/* Whether `name` is step_DIGITS, as written by pt_checkpoint_path, followed by
 * `suffix`. */
static bool checkpoint_parse_name(const char *name, const char *suffix, int64_t *step)
{
    size_t digits;

    if (strncmp(name, "step_", 5) != 0)
        return false;
    name += 5;
    digits = strspn(name, "0123456789");
    if (digits < STEP_DIGITS || digits > MAX_DIGITS ||
        (digits > STEP_DIGITS && name[0] == '0') || strcmp(name + digits, suffix) != 0)
        return false;
    *step = strtoll(name, NULL, 10);
    return true;
}

typedef struct entries {
    pt_checkpoint_entry_t *items;
    int count, room;
} entries_t;

static pt_status_t checkpoint_add_entry(entries_t *entries, const char *directory,
                                        const char *name, int64_t step)
{
    if (entries->count == entries->room) {
        int room = entries->room == 0 ? 16 : 2 * entries->room;
        PT_TRY(pt_realloc("checkpoint list", (size_t)entries->room, (size_t)room,
                          sizeof *entries->items, (void **)&entries->items));
        entries->room = room;
    }
    pt_checkpoint_entry_t *entry = &entries->items[entries->count];
    int length = snprintf(entry->path, sizeof entry->path, "%s/%s", directory, name);
    PT_CHECK(length < (int)sizeof entry->path, PT_IO, "%s/%s: this path is too long",
             directory, name);
    entry->step = step;
    entries->count++;
    return PT_OK;
}

static pt_status_t checkpoint_scan(const char *directory, const char *suffix,
                                   entries_t *out)
{
    DIR *stream = opendir(directory);
    const struct dirent *file;
    pt_status_t status = PT_OK;
    int64_t step;

    if (!stream && errno == ENOENT)
        return PT_OK;
    PT_CHECK_OS(stream, PT_IO, errno, "%s: cannot be listed: %m", directory);
    errno = 0;
    while (status == PT_OK && (file = readdir(stream)) != NULL) {
        if (checkpoint_parse_name(file->d_name, suffix, &step))
            status = checkpoint_add_entry(out, directory, file->d_name, step);
        errno = 0;
    }
    if (status == PT_OK && errno != 0)
        status = PT_FAIL_OS(PT_IO, errno, "%s: cannot be listed: %m", directory);
    closedir(stream);
    return status;
}

static int checkpoint_newest_first(const void *a, const void *b)
{
    int64_t x = ((const pt_checkpoint_entry_t *)a)->step;
    int64_t y = ((const pt_checkpoint_entry_t *)b)->step;

    return (x < y) - (x > y);
}

pt_status_t pt_checkpoint_scan(const char *directory, const char *suffix,
                               pt_checkpoint_entry_t **out, int *count)
{
    entries_t entries = {0};
    pt_status_t status = checkpoint_scan(directory, suffix, &entries);

    *out = NULL;
    *count = 0;
    if (status != PT_OK) {
        pt_free(entries.items);
        return status;
    }
    if (entries.count > 0)
        qsort(entries.items, (size_t)entries.count, sizeof *entries.items,
              checkpoint_newest_first);
    *out = entries.items;
    *count = entries.count;
    return PT_OK;
}

pt_status_t pt_checkpoint_list(const char *directory, pt_checkpoint_entry_t **out,
                               int *count)
{
    *out = NULL;
    *count = 0;
    /* While a run is active, a scan may miss a file being added and also those being
     * removed. */
    for (int i = 0; i < SCANS && *count == 0; i++)
        PT_TRY(pt_checkpoint_scan(directory, ".h5", out, count));
    return PT_OK;
}

pt_status_t pt_checkpoint_look(const char *path, void *unused)
{
    pt_checkpoint_content_t content;

    (void)unused;
    pt_status_t status = pt_checkpoint_parse(path, &content);
    pt_checkpoint_content_free(&content);
    return status;
}

typedef struct search {
    pt_checkpoint_try_fn attempt;
    void *self;
    const char *advice;
} search_t;

/* Rank 0 lists the files, so that all ranks try the same files in the same order. */
static pt_status_t checkpoint_list_everywhere(pt_comm_t *comm, const char *directory,
                                              pt_checkpoint_entry_t **list, int *count)
{
    int64_t found = 0;
    pt_status_t status = PT_OK;

    *list = NULL;
    *count = 0;
    if (!comm)
        return pt_checkpoint_list(directory, list, count);
    if (pt_comm_rank(comm) == 0) {
        status = pt_checkpoint_list(directory, list, count);
        found = *count;
    }
    PT_TRY(pt_comm_agree(comm, status, false));
    PT_TRY(pt_comm_broadcast_bytes(comm, 0, &found, sizeof found));
    if (pt_comm_rank(comm) != 0)
        status = PT_NEW("checkpoint list", found, list);
    PT_TRY(pt_comm_agree(comm, status, false));
    *count = (int)found;
    return pt_comm_broadcast_bytes(comm, 0, *list, found * (int64_t)sizeof **list);
}

/* Result for one file. */
typedef enum outcome {
    TAKEN,   /* taken, or a failure that ends the search */
    SKIPPED, /* damaged, or of another step than in its name */
    GONE     /* removed since it was listed */
} outcome_t;

/* Whether name and header have different steps. A copy with a later step in its name
 * would otherwise be the newest file for ever. A file that cannot be read is left to
 * `attempt`. Rank 0. */
static bool checkpoint_is_misnamed(const pt_checkpoint_entry_t *entry,
                                   const char *advice)
{
    int64_t step = entry->step;

    if (pt_checkpoint_peek(entry->path, &step) != PT_OK)
        pt_error_clear();
    else if (step != entry->step && advice)
        pt_log_all(PT_LOG_WARN,
                   "%s: skipped: it holds step %" PRId64
                   ", not the one of its name; rename it if it is to be used",
                   entry->path, step);
    return step != entry->step;
}

/* A dangling link still exists. */
static bool checkpoint_is_gone(const char *path)
{
    struct stat info;

    return lstat(path, &info) != 0 && errno == ENOENT;
}

/* Broadcasts the answer of rank 0. */
static pt_status_t checkpoint_share_answer(pt_comm_t *comm, bool *answer)
{
    return comm ? pt_comm_broadcast_bytes(comm, 0, answer, sizeof *answer) : PT_OK;
}

static pt_status_t checkpoint_try_entry(pt_comm_t *comm,
                                        const pt_checkpoint_entry_t *entry,
                                        const search_t *search, outcome_t *outcome)
{
    bool first = !comm || pt_comm_rank(comm) == 0;
    bool is_other = first && checkpoint_is_misnamed(entry, search->advice);

    *outcome = SKIPPED;
    PT_TRY(checkpoint_share_answer(comm, &is_other));
    if (is_other)
        return PT_OK;
    pt_status_t status =
        search->attempt ? search->attempt(entry->path, search->self) : PT_OK;
    *outcome = TAKEN;
    if (status != PT_IO && status != PT_DAMAGED)
        return status;
    bool gone = first && checkpoint_is_gone(entry->path);
    pt_error_t error = *pt_error_last();
    pt_error_clear();
    PT_TRY(checkpoint_share_answer(comm, &gone));
    if (gone) {
        *outcome = GONE;
        return PT_OK;
    }
    pt_error_set(&error);
    if (status == PT_IO)
        return status;
    *outcome = SKIPPED;
    if (search->advice)
        pt_error_warn("skipped a damaged checkpoint");
    else
        pt_error_clear();
    return PT_OK;
}

/* Tries the files of one listing. *outcome GONE: list the directory again. */
static pt_status_t checkpoint_try_listed(pt_comm_t *comm, const char *directory,
                                         const search_t *search,
                                         pt_checkpoint_entry_t *found,
                                         outcome_t *outcome, int *count)
{
    pt_checkpoint_entry_t *list = NULL;
    int i = 0;
    pt_status_t status;

    *outcome = SKIPPED;
    PT_TRY_GOTO(release, checkpoint_list_everywhere(comm, directory, &list, count));
    for (; i < *count && status == PT_OK && *outcome == SKIPPED; i++)
        status = checkpoint_try_entry(comm, &list[i], search, outcome);
    if (status == PT_OK && *outcome == TAKEN)
        *found = list[i - 1];
release:
    pt_free(list);
    return status;
}

pt_status_t pt_checkpoint_newest(pt_comm_t *comm, const char *directory,
                                 const char *advice, pt_checkpoint_try_fn attempt,
                                 void *self, pt_checkpoint_entry_t *found)
{
    const search_t search = {attempt, self, advice};
    outcome_t outcome = GONE;
    int count = 0;

    found->path[0] = '\0';
    for (int tries = 0; tries < LIST_TRIES && outcome == GONE; tries++)
        PT_TRY(checkpoint_try_listed(comm, directory, &search, found, &outcome, &count));
    PT_CHECK_COMMON(outcome != GONE, PT_IO,
                    "%s: each of its checkpoints was removed before it could be read, "
                    "%d times in a row: is checkpoint.keep of that run too small?",
                    directory, LIST_TRIES);
    PT_CHECK_COMMON(outcome == TAKEN || count == 0, PT_IO,
                    "%s: none of its %d checkpoints can be used%s%s", directory, count,
                    advice ? " (see the warnings above); "
                           : ": they are damaged, or hold another step than their "
                             "names say",
                    advice ? advice : "");
    return PT_OK;
}
