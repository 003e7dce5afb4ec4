#include "penta/alloc.h"
#include "src/train/private.h"

#include <stdio.h>
#include <string.h>

/* Rank 0's view of the directory, so that all ranks try the same files in the same order. */
static pt_status_t list_everywhere(pt_trainer_t *t, const char *directory,
                                   pt_checkpoint_entry_t **list, int *count)
{
    pt_comm_t *world = t->mesh.world;
    int64_t found = 0;
    pt_status_t status = PT_OK;
    *list = NULL;
    *count = 0;
    if (pt_comm_rank(world) == 0) {
        status = pt_checkpoint_list(directory, list, count);
        found = *count;
    }
    PT_TRY(pt_comm_agree(world, status, false));
    PT_TRY(pt_comm_broadcast_bytes(world, 0, &found, sizeof found));
    if (pt_comm_rank(world) != 0)
        status = PT_NEW("checkpoint list", found, list);
    PT_TRY(pt_comm_agree(world, status, false));
    *count = (int)found;
    return pt_comm_broadcast_bytes(world, 0, *list, found * (int64_t)sizeof **list);
}

/* A damaged file is named and skipped; a file that belongs to another configuration is not. */
static pt_status_t load_newest(pt_trainer_t *t, const pt_checkpoint_entry_t *list,
                               int count, const char *directory, pt_resumed_t *out)
{
    for (int i = 0; i < count; i++) {
        pt_status_t status = pt_train_load(t, list[i].path, &out->loss);
        if (status == PT_OK)
            snprintf(out->path, sizeof out->path, "%s", list[i].path);
        if (status != PT_IO)
            return status;
        pt_error_warn("skipped a damaged checkpoint");
    }
    PT_CHECK_COMMON(
        count == 0, PT_IO,
        "%s: none of its %d checkpoints can be read (see the warnings above); repair "
        "or "
        "remove them, or start afresh with checkpoint.resume=none and another run.dir",
        directory, count);
    return PT_OK;
}

/* The next start would go on from a later file, and so undo this run. */
static pt_status_t check_newest(const pt_trainer_t *t,
                                const pt_checkpoint_entry_t *list, int count)
{
    PT_CHECK_COMMON(
        count == 0 || list[0].step <= t->step, PT_CONFIG,
        "%s is later than step %lld, where checkpoint.resume=%s begins: go "
        "on from it with checkpoint.resume=auto, move the later files away, "
        "or choose another run.dir",
        list[0].path, (long long)t->step, t->config->checkpoint.resume);
    return PT_OK;
}

pt_status_t pt_train_resume(pt_trainer_t *t, const char *directory, pt_resumed_t *out)
{
    const char *resume = t->config->checkpoint.resume;
    bool newest = strcmp(resume, "auto") == 0;
    pt_checkpoint_entry_t *list = NULL;
    int count = 0;
    *out = (pt_resumed_t){.loss = 0};
    if (!newest && strcmp(resume, "none") != 0) {
        PT_TRY(pt_train_load(t, resume, &out->loss));
        snprintf(out->path, sizeof out->path, "%s", resume);
    }
    pt_status_t status = list_everywhere(t, directory, &list, &count);
    if (status == PT_OK)
        status = newest ? load_newest(t, list, count, directory, out)
                        : check_newest(t, list, count);
    pt_free(list);
    return status;
}
