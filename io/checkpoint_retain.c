/* SPDX-License-Identifier: Apache-2.0 */
/* Removes old published files, and sets aside files that are not the run's own. */
#include "io/checkpoint_file.h"
#include "io/file.h"
#include "penta/base/alloc.h"
#include "penta/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_NAMES = 10000 };

/* ---- set aside ------------------------------------------------------------------- */

/* Finds PATH.kept-K with the first free K. */
static pt_status_t checkpoint_free_name(const char *path, char *out, size_t size)
{
    struct stat info;

    for (int k = 1; k <= KEPT_NAMES; k++) {
        int length = snprintf(out, size, "%s.kept-%d", path, k);
        PT_CHECK(length < (int)size, PT_IO, "%s.kept-%d: this path is too long", path,
                 k);
        if (lstat(out, &info) != 0 && errno == ENOENT)
            return PT_OK;
    }
    return PT_FAIL(PT_IO, "%s: in the way, and so are all names up to %s: move it away",
                   path, out);
}

static pt_status_t checkpoint_set_aside(const char *path, const char *why)
{
    char kept[sizeof((pt_checkpoint_entry_t *)0)->path + 16];
    struct stat info;

    if (lstat(path, &info) != 0 || !(S_ISREG(info.st_mode) || S_ISLNK(info.st_mode)))
        return PT_OK; /* gone, or creating the file will report it */
    PT_TRY(checkpoint_free_name(path, kept, sizeof kept));
    PT_TRY(pt_file_rename(path, kept));
    pt_log_all(PT_LOG_WARN, "%s: %s; kept as %s, which no run uses or removes", path,
               why, kept);
    return PT_OK;
}

pt_status_t pt_checkpoint_set_aside(const char *directory, int64_t last, int64_t step)
{
    pt_checkpoint_entry_t *list = NULL;
    int count = 0;
    pt_status_t status = PT_OK;

    PT_TRY(pt_checkpoint_scan(directory, ".h5", &list, &count));
    for (int i = 0; i < count && status == PT_OK; i++)
        if (list[i].step > last && list[i].step <= step)
            status = checkpoint_set_aside(list[i].path,
                                          "this run neither read nor wrote it");
    pt_free(list);
    return status;
}

/* ---- retain ---------------------------------------------------------------------- */

static void checkpoint_remove_file(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return;
    (void)PT_FAIL_OS(PT_IO, errno, "%s: cannot be removed: %m", path);
    pt_error_warn_seldom("an old checkpoint stays");
}

typedef struct retained {
    int64_t data_tokens; /* of the file just published; -1: unknown */
    uint64_t data_hash;
} retained_t;

static retained_t checkpoint_own_data(const char *directory, int64_t step)
{
    char path[sizeof((pt_checkpoint_entry_t *)0)->path];
    pt_checkpoint_content_t content;
    retained_t own = {.data_tokens = -1};

    if (pt_checkpoint_parse(pt_checkpoint_path(directory, step, path, sizeof path),
                            &content) == PT_OK)
        own = (retained_t){content.header.data_tokens, content.header.data_hash};
    else
        pt_error_clear();
    pt_checkpoint_content_free(&content);
    return own;
}

/* Whether the file is the run's own. why: [out] the reason if not, else "". */
static void checkpoint_retain_judge(const pt_checkpoint_entry_t *entry,
                                    const pt_checkpoint_content_t *is,
                                    const retained_t *own, char *why, size_t size)
{
    bool other = own->data_tokens >= 0 && (is->header.data_tokens != own->data_tokens ||
                                           is->header.data_hash != own->data_hash);

    why[0] = '\0';
    if (is->header.step != entry->step)
        snprintf(why, size, "holds step %lld, not the one of its name",
                 (long long)is->header.step);
    else if (other)
        snprintf(why, size, "of a run with other data");
}

/* The error text without the name of the file. */
static const char *checkpoint_defect_of(const char *path)
{
    const char *text = pt_error_last()->text;
    size_t length = strlen(path);

    return strncmp(text, path, length) == 0 && strncmp(text + length, ": ", 2) == 0
               ? text + length + 2
               : text;
}

/* Whether the file is the run's own. Others are set aside, unless they cannot be
 * read. */
static bool checkpoint_counts(const pt_checkpoint_entry_t *entry, const retained_t *own)
{
    pt_checkpoint_content_t content;
    char why[PT_ERROR_TEXT + 16] = "";
    pt_status_t status = pt_checkpoint_parse(entry->path, &content);

    if (status == PT_OK)
        checkpoint_retain_judge(entry, &content, own, why, sizeof why);
    else if (status == PT_DAMAGED)
        snprintf(why, sizeof why, "damaged (%s)", checkpoint_defect_of(entry->path));
    pt_checkpoint_content_free(&content);
    pt_error_clear();
    if (why[0] && checkpoint_set_aside(entry->path, why) != PT_OK)
        pt_error_warn_seldom("a checkpoint that is not this run's stays");
    return status == PT_OK && !why[0];
}

/* The list is ordered by falling step, so the files to keep come first. No file is
 * opened unless there are too many. Once `keep` files are kept, multiples of keep_every
 * are not opened either. */
static void retain(const pt_checkpoint_entry_t *list, int count, const retained_t *own,
                   int64_t step, int64_t keep, int64_t keep_every)
{
    int64_t kept = 0, all = 0;

    for (int i = 0; i < count; i++)
        all += list[i].step <= step;
    for (int i = 0; i < count && all > keep; i++) {
        bool spared = keep_every > 0 && list[i].step % keep_every == 0;
        if (list[i].step > step || (kept >= keep && spared))
            continue;
        if (list[i].step != step && !checkpoint_counts(&list[i], own))
            continue;
        if (++kept > keep && !spared)
            checkpoint_remove_file(list[i].path);
    }
}

void pt_checkpoint_retain(const char *directory, int64_t step, int64_t keep,
                          int64_t keep_every)
{
    pt_checkpoint_entry_t *partial = NULL, *published = NULL;
    int partials = 0, count = 0;

    if (pt_checkpoint_scan(directory, ".h5.partial", &partial, &partials) != PT_OK ||
        pt_checkpoint_list(directory, &published, &count) != PT_OK)
        pt_error_warn_seldom("old checkpoints stay");
    for (int i = 0; i < partials; i++)
        checkpoint_remove_file(partial[i].path);
    retained_t own =
        count > keep ? checkpoint_own_data(directory, step) : (retained_t){-1, 0};
    retain(published, count, &own, step, keep, keep_every);
    pt_free(published);
    pt_free(partial);
}
