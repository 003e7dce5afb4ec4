/* When a run saves, and what a save that failed means for it. */
#include "penta/clock.h"
#include "penta/log.h"
#include "src/train/run.h"

#include <stdio.h>

pt_status_t save_now(run_t *run)
{
    char path[PT_CONFIG_TEXT + 64], directory[PT_CONFIG_TEXT + 16];
    const pt_config_t *c = run->config;
    pt_trainer_t *t = &run->trainer;
    if (run->saved_step == t->step)
        return PT_OK;
    pt_status_t ours = run->root ? pt_rundir_check_owner(run->dir) : PT_OK;
    if (ours == PT_OK && run->root)
        ours = pt_rundir_restore(run->dir);
    PT_TRY(pt_comm_agree(t->mesh.world, ours, false));
    PT_TRY(pt_train_check_weights(t));
    double start = pt_clock_sec();
    t->where.phase = PT_PHASE_SAVE;
    run_beat(run);
    snprintf(directory, sizeof directory, "%s/checkpoints", c->run.dir);
    pt_checkpoint_path(directory, t->step, path, sizeof path);
    PT_TRY(pt_train_save(t, path, run->loss, &run->digest));
    run->saved_step = t->step;
    double sec = pt_clock_sec() - start;
    save_time_add(run, sec);
    if (run->root)
        pt_checkpoint_retain(directory, t->step, c->checkpoint.keep,
                             c->checkpoint.keep_every);
    report_saved(run, path, sec);
    return PT_OK;
}

bool is_due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* A failed periodic save costs safety, not the run: the last published file stands. */
pt_status_t save_if_due(run_t *run)
{
    if (!is_due(run->config->checkpoint.every, run->trainer.step))
        return PT_OK;
    pt_status_t status = save_now(run);
    if (status != PT_IO)
        return status;
    pt_error_warn("checkpoint failed, training goes on");
    return PT_OK;
}
