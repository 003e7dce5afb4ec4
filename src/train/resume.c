/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/private.h"

#include <stdio.h>

typedef struct loading {
    pt_trainer_t *trainer;
    double *loss;
} loading_t;

/* A file that belongs to another configuration is not damaged: CONFIG. */
static pt_status_t resume_load(const char *path, void *self)
{
    const loading_t *loading = self;
    return pt_train_load(loading->trainer, path, loading->loss);
}

/* The next start would go on from a later file, and so undo this run. */
static pt_status_t resume_check_newest(const pt_trainer_t *t,
                                       const pt_checkpoint_entry_t *newest)
{
    PT_CHECK_COMMON(
        newest->path[0] == '\0' || newest->step <= t->step, PT_CONFIG,
        "%s is later than step %lld, where checkpoint.resume=%s begins: go "
        "on from it with checkpoint.resume=auto, move the later files away, "
        "or choose another run.dir",
        newest->path, (long long)t->step, t->config->checkpoint.resume);
    return PT_OK;
}

pt_status_t pt_train_resume(pt_trainer_t *t, const char *directory, pt_resumed_t *out)
{
    const char *resume = t->config->checkpoint.resume;
    pt_start_t start = pt_config_start(t->config);
    bool newest = start == PT_START_NEWEST;
    loading_t loading = {t, &out->loss};
    pt_checkpoint_entry_t found;
    *out = (pt_resumed_t){.loss = 0};
    if (start == PT_START_FILE) {
        PT_TRY(pt_train_load(t, resume, &out->loss));
        snprintf(out->path, sizeof out->path, "%s", resume);
    }
    PT_TRY(pt_checkpoint_newest(t->session.mesh->world, directory,
                                "repair or remove them, or start afresh with "
                                "checkpoint.resume=none and another run.dir",
                                newest ? resume_load : NULL, &loading, &found));
    if (!newest)
        return resume_check_newest(t, &found);
    snprintf(out->path, sizeof out->path, "%s", found.path);
    return PT_OK;
}
