/* SPDX-License-Identifier: Apache-2.0 */
/* What an earlier start published, and a purge may have taken away since. */
#include "penta/base/log.h"
#include "src/train/run.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

const char *published_path(const run_t *run, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s/published.json", run->config->run.dir);
    return buffer;
}

/* Of the record, or of what else tells of one: a directory of an older version has
 * none, a full disk may have had no room for it. */
static int64_t published_newest_known(const run_t *run, const char *path)
{
    int64_t recorded = pt_published_read(path);
    int64_t told = pt_status_checkpoint_step(run->config->run.dir);
    int64_t known = recorded > told ? recorded : told;
    known = known > run->found_step ? known : run->found_step;
    if (known > recorded && pt_published_write(path, known) != PT_OK)
        pt_error_warn("what was published is not on record");
    return known;
}

pt_status_t published_check(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 16];
    const char *dir = run->config->run.dir;
    int64_t found = run->found_step;
    int64_t known = published_newest_known(run, published_path(run, path, sizeof path));
    if (found >= known || pt_config_start(run->config) != PT_START_NEWEST)
        return PT_OK;
    PT_CHECK(
        found >= 0, PT_IO,
        "%s/checkpoints holds no checkpoint, but this run published step %lld (%s), "
        "and others before it: a purge may "
        "have removed them. Bring them back, go on from a copy with "
        "checkpoint.resume=FILE, or begin again at step 1 with checkpoint.resume=none",
        dir, (long long)known, path);
    pt_log_root(
        PT_LOG_WARN,
        "%s/checkpoints: that of step %lld, published last (%s), is gone; the run "
        "goes on from step %lld, the newest that is there",
        dir, (long long)known, path, (long long)found);
    return PT_OK;
}

pt_status_t published_begin(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 16];
    bool afresh = pt_config_start(run->config) == PT_START_AFRESH;
    PT_CHECK_OS(!afresh || unlink(published_path(run, path, sizeof path)) == 0 ||
                    errno == ENOENT,
                PT_IO, errno, "%s: cannot be removed: %m", path);
    return PT_OK;
}
