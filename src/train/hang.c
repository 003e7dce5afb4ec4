/* SPDX-License-Identifier: Apache-2.0 */
/* What a run that hangs leaves behind: status.json and hang.txt, written by the
 * watching thread. */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/comm/watch.h"
#include "src/train/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A mutable global: the thread outlives the run. The atomic members are written by the
 * run while it reads. */
static struct {
    char directory[PT_CONFIG_TEXT];
    int64_t steps;
    double started;
    _Atomic int64_t step, checkpoint_step;
    atomic_bool opened, ended;
} facts;

/* Before rank 0 has it, the directory may be that of another run. */
static bool hang_may_write(pt_rundir_t **dir)
{
    if (atomic_load(&facts.ended))
        return false;
    return atomic_load(&facts.opened) ||
           pt_rundir_open_at_once(facts.directory, dir) == PT_OK;
}

static void hang_tell(void *self, const pt_watch_report_t *report)
{
    char path[PT_CONFIG_TEXT + 16];
    pt_rundir_t *dir = NULL;
    pt_error_t error = {.status = report->status, .where = report->where};
    pt_run_status_t what = {.status = report->status,
                            .message = report->text,
                            .step = atomic_load(&facts.step),
                            .steps = facts.steps,
                            .checkpoint_step = atomic_load(&facts.checkpoint_step),
                            .ranks = pt_log_size(),
                            .started = facts.started};

    (void)self;
    pt_alloc_break_seal(); /* the step under way will not end */
    if (!hang_may_write(&dir))
        return;
    snprintf(error.text, sizeof error.text, "%s", report->text);
    pt_error_set(&error);
    (void)pt_status_write(facts.directory, &what);
    snprintf(path, sizeof path, "%s/hang.txt", facts.directory);
    (void)pt_file_write(path, report->table);
    pt_rundir_close(dir);
}

/* From hosts.txt, which this run wrote at its start. */
static void hang_find_host(void *self, int rank, char *host, size_t size)
{
    char path[PT_CONFIG_TEXT + 16], line[512], name[256];
    int number;

    (void)self;
    host[0] = '\0';
    snprintf(path, sizeof path, "%s/hosts.txt", facts.directory);
    FILE *file = atomic_load(&facts.opened) ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%d %255s", &number, name) == 2 && number == rank)
            snprintf(host, size, "%s", name);
    if (file)
        (void)fclose(file);
}

pt_status_t hang_remove_old(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 300];
    struct dirent *entry;

    snprintf(path, sizeof path, "%s/hang.txt", run->config->run.dir);
    PT_CHECK_OS(unlink(path) == 0 || errno == ENOENT, PT_IO, errno,
                "%s: cannot be removed: %m", path);
    snprintf(path, sizeof path, "%s/hang", run->config->run.dir);
    DIR *posts = opendir(path);
    while (posts && (entry = readdir(posts)))
        (void)unlinkat(dirfd(posts), entry->d_name, 0);
    if (posts)
        closedir(posts);
    (void)rmdir(path);
    return PT_OK;
}

void hang_watch(const run_t *run)
{
    const pt_watch_options_t options = {.timeout_sec =
                                            (double)run->config->run.hang_timeout,
                                        .directory = run->config->run.dir,
                                        .tell = hang_tell,
                                        .find_host = hang_find_host};

    pt_watch_start(
        &(pt_watch_options_t){.directory = ""}); /* facts are about to change */
    snprintf(facts.directory, sizeof facts.directory, "%s", run->config->run.dir);
    facts.steps = run->config->train.steps;
    facts.started = run->start_wall;
    atomic_store(&facts.ended, false);
    hang_note(run);
    pt_watch_be_patient(true);
    pt_watch_start(&options);
}

void hang_note(const run_t *run)
{
    pt_run_status_t status = run_status(run);

    atomic_store(&facts.step, status.step);
    atomic_store(&facts.checkpoint_step, status.checkpoint_step);
    atomic_store(&facts.opened, run->opened);
}

void hang_end(void)
{
    atomic_store(&facts.ended, true);
}
