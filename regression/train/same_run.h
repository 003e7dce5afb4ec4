/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of STEPS steps that may be stopped in between, and whether two of them were the
 * same: metrics, and every bit of weights and moments at the end. */
#ifndef PT_REGRESSION_SAME_RUN_H
#define PT_REGRESSION_SAME_RUN_H

#include "regression/train/train_test.h"

enum { STEPS = 6 };

/* Rank 0: all tensors of two checkpoints are equal in every bit, and their digests. */
static bool same_file(const char *one, const char *other)
{
    const char *path[2] = {one, other};
    pt_engine_t *engine;
    pt_checkpoint_reader_t *reader[2];
    bool same;

    MUST(pt_engine_create(tt.serial, &(pt_engine_options_t){.device = NULL}, &engine));
    for (int f = 0; f < 2; f++)
        MUST(pt_checkpoint_open(pt_engine_world(engine), path[f], &reader[f]));
    same = pt_checkpoint_tensors(reader[0]) == pt_checkpoint_tensors(reader[1]) &&
           pt_checkpoint_header(reader[0])->digest ==
               pt_checkpoint_header(reader[1])->digest &&
           pt_checkpoint_tensors(reader[0]) % PT_STATE_KINDS == 0;
    for (int i = 0; same && i < pt_checkpoint_tensors(reader[0]); i++) {
        const pt_checkpoint_tensor_t *x = pt_checkpoint_tensor(reader[0], i);
        pt_hyperslab_t all = pt_hyperslab_whole(x->ndim, x->shape);
        int64_t count = pt_hyperslab_elements(&all);
        void *data[2];

        for (int f = 0; f < 2; f++) {
            MUST(pt_alloc("tensor", (size_t)count, pt_dtype_size(x->dtype), &data[f]));
            MUST(pt_checkpoint_read(
                reader[f], pt_checkpoint_find_tensor(reader[f], x->group, x->name),
                x->dtype, &all, true, data[f]));
        }
        same = memcmp(data[0], data[1], (size_t)count * pt_dtype_size(x->dtype)) == 0 &&
               pt_checkpoint_tensor_digest(reader[0], i) ==
                   pt_checkpoint_tensor_digest(reader[1], i);
        pt_free(data[0]);
        pt_free(data[1]);
    }
    pt_checkpoint_close(reader[0]);
    pt_checkpoint_close(reader[1]);
    pt_engine_destroy(engine);
    return same;
}

/* Goes on with the run in `directory` up to `stop` (0: to its end). */
static pt_train_result_t go_on(const char *model, const char *directory, int stop)
{
    char more[256];
    pt_train_result_t result;
    pt_status_t status;

    snprintf(more, sizeof more, "run.eval_every=3 run.dir=%s run.stop_step=%d",
             directory, stop);
    pt_config_t *config = tt_config(model, more);
    status = tt_run(config, tt.transport, &result);
    if (status != (stop ? PT_STOPPED : PT_OK))
        MUST(status == PT_OK ? PT_FAIL(PT_INTERNAL, "the run did not stop") : status);
    pt_free(config);
    return result;
}

static bool same_run(const char *one, const char *other, const pt_train_result_t *a,
                     const pt_train_result_t *b)
{
    tt_record_t x, y;
    char path[2][256];
    bool same = a->digest == b->digest && a->step == STEPS && b->step == STEPS &&
                memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 &&
                memcmp(&a->validation_loss, &b->validation_loss, sizeof(double)) == 0;

    if (tt.rank != 0 || !same)
        return same;
    snprintf(path[0], sizeof path[0], "%s/checkpoints/step_%08d.h5", one, STEPS);
    snprintf(path[1], sizeof path[1], "%s/checkpoints/step_%08d.h5", other, STEPS);
    return tt_metrics(one, &x) && tt_metrics(other, &y) && x.steps == STEPS &&
           tt_same_steps(&x, &y) && same_file(path[0], path[1]);
}

#endif
