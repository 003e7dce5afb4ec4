/* SPDX-License-Identifier: Apache-2.0 */
/* When a run saves, and what a save that failed means for it. */
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "src/train/run.h"

#include <stdio.h>

static const char *save_directory_of(const run_t *run, char *buffer, size_t size)
{
    return pt_checkpoint_directory(run->config->run.dir, buffer, size);
}

pt_status_t tell_unsaved(const run_t *run, pt_status_t status)
{
    char newest[64] = "no checkpoint was ever saved";
    int64_t done = run->trainer.step, saved = run_resumable_step(run);
    int64_t first = 1 + (run->saved_step >= 0 ? run->saved_step : run->first_step);
    if (status == PT_OK || first > done)
        return status;
    pt_error_t cause = *pt_error_last();
    pt_error_clear();
    if (saved >= 0)
        snprintf(newest, sizeof newest, "the newest checkpoint is that of step %lld",
                 (long long)saved);
    return PT_FAIL(status, "%.1700s; steps %lld to %lld are not saved, %s", cause.text,
                   (long long)first, (long long)done, newest);
}

/* Checks that the directory still belongs to this run and that no file will be
 * replaced. Rank 0. */
static pt_status_t save_make_way(run_t *run)
{
    char directory[PT_CONFIG_TEXT + 16];
    int64_t step = run->trainer.step;
    PT_TRY(tell_unsaved(run, pt_rundir_check_owner(run->dir)));
    PT_TRY(pt_rundir_restore(run->dir));
    if (run->tried_step < step) /* what a save that failed after all left is ours */
        PT_TRY(pt_checkpoint_set_aside(
            save_directory_of(run, directory, sizeof directory), run->tried_step, step));
    run->tried_step = step;
    return PT_OK;
}

/* Publishes without retiring older files. */
static pt_status_t save_publish(run_t *run)
{
    char path[PT_CONFIG_TEXT + 64], directory[PT_CONFIG_TEXT + 16];
    char record[PT_CONFIG_TEXT + 16];
    pt_trainer_t *t = &run->trainer;
    pt_status_t ready = run->root ? save_make_way(run) : PT_OK;
    PT_TRY(pt_comm_agree(t->session.mesh->world, ready, true)); /* the save reports it */
    PT_TRY(pt_train_check_weights(t));
    double start = pt_clock_sec();
    t->where.phase = PT_PHASE_SAVE;
    run_beat(run);
    pt_checkpoint_path(save_directory_of(run, directory, sizeof directory), t->step,
                       path, sizeof path);
    PT_TRY(pt_train_save(t, path, published_path(run, record, sizeof record), run->loss,
                         &run->digest));
    run->saved_step = t->step;
    hang_note(run);
    if (run->failures > 0)
        pt_log_root(PT_LOG_INFO,
                    "checkpoints can be saved again, after %lld that failed",
                    (long long)run->failures);
    run->failures = 0;
    double sec = pt_clock_sec() - start;
    save_time_add(run, sec);
    report_saved(run, path, sec);
    return PT_OK;
}

pt_status_t save_now(run_t *run)
{
    char directory[PT_CONFIG_TEXT + 16];
    const pt_config_t *c = run->config;
    int64_t step = run->trainer.step;
    if (run->saved_step == step)
        return PT_OK;
    PT_TRY(save_publish(run));
    if (run->root)
        pt_checkpoint_retain(save_directory_of(run, directory, sizeof directory), step,
                             c->checkpoint.keep, c->checkpoint.keep_every);
    return PT_OK;
}

/* Is the state whole on all ranks, and worth a file? What only this rank knows of, a
 * defect of the program, and a user who wants out are no such failures. */
static bool save_is_worth_saving(const run_t *run, pt_status_t status)
{
    int64_t step = run->trainer.step;
    bool common = status == PT_CONFIG || status == PT_MEMORY || status == PT_IO ||
                  status == PT_NUMERIC;
    return common && !pt_error_is_fatal() && step > run->first_step &&
           step != run->saved_step;
}

pt_status_t save_if_failed(run_t *run, pt_status_t status)
{
    char prefix[64];
    if (status == PT_OK || !save_is_worth_saving(run, status))
        return status;
    pt_error_print(); /* the cause comes first */
    pt_error_t cause = *pt_error_last();
    pt_error_clear();
    int64_t step = run->trainer.step;
    if (save_publish(run) == PT_OK) {
        pt_log_root(PT_LOG_INFO,
                    "saved step %lld before the end: the next start goes on from it",
                    (long long)step);
    } else {
        /* After some failures of a file the ranks cannot end together. */
        cause.scope = pt_error_is_fatal() ? PT_SCOPE_LOCAL : cause.scope;
        snprintf(prefix, sizeof prefix, "step %lld could not be saved either",
                 (long long)step);
        pt_error_warn(prefix);
    }
    pt_error_set(&cause);
    return status;
}

bool is_due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

bool save_is_wanted(const run_t *run)
{
    double every = (double)run->config->checkpoint.every_time;
    return run->root && every > 0 && pt_clock_sec() - run->save_clock >= every;
}

/* A failed periodic save costs safety, not the run: the last published file stands. */
pt_status_t save_if_due(run_t *run, bool wanted)
{
    char prefix[160];
    int64_t most = run->config->checkpoint.max_failures;
    if (!wanted && !is_due(run->config->checkpoint.every, run->trainer.step))
        return PT_OK;
    pt_status_t status = save_now(run);
    run->save_clock = pt_clock_sec();
    if (status != PT_IO || pt_error_is_fatal())
        return status;
    run->failures++;
    if (most > 0 && run->failures >= most)
        return save_or_give_up(run);
    snprintf(prefix, sizeof prefix,
             "checkpoint failed, training goes on (%lld in a row)",
             (long long)run->failures);
    if (pt_log_is_due(run->failures))
        pt_error_warn(prefix);
    else
        pt_error_clear();
    return PT_OK;
}
