/* TEST np=1,3 backend=cpu,shadow timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Before a save: a weight that is not finite, on any rank, is found and named. */
#include "regression/train/train_test.h"
#include "src/train/private.h"

static void set(pt_trainer_t *t, int param, int64_t index, float value)
{
    pt_tensor_t weight = pt_units_weight(t->session.units, param);
    pt_tensor_t flat = pt_tensor_1d(weight.data, weight.dtype, weight.memory,
                                    pt_tensor_count(&weight));
    pt_tensor_t one = pt_tensor_slice(flat, 0, index, 1);
    pt_tensor_t host = pt_tensor_1d(&value, PT_F32, PT_MEMORY_HOST, 1);

    MUST(pt_device_copy(t->session.device, t->session.stream, &one, &host));
    MUST(t->session.device->ops->stream_sync(t->session.device, t->session.stream));
}

/* The first in the table is named, whichever rank has it. */
static void test_weight(pt_trainer_t *t, int param, int rank, float value)
{
    pt_tensor_t weight = pt_units_weight(t->session.units, param);
    int64_t last = pt_tensor_count(&weight) - 1;
    const char *name = t->session.table.params[param].part[0].name;

    if (tt.rank == rank)
        set(t, param, last, value);
    if (tt.rank == 0)
        set(t, t->session.table.count - 1, 0, INFINITY);
    pt_status_t status = pt_train_check_weights(t);
    tap_all(status == PT_NUMERIC && pt_error_last()->scope == PT_SCOPE_COMMON &&
                strstr(pt_error_last()->text, name),
            "%g in %s of rank %d", (double)value, name, rank);
    pt_error_clear();
    if (tt.rank == rank)
        set(t, param, last, 1);
    if (tt.rank == 0)
        set(t, t->session.table.count - 1, 0, 1);
    tap_all(pt_train_check_weights(t) == PT_OK, "and none when it is gone");
}

int main(int argc, char **argv)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    pt_config_t *config;
    pt_trainer_t trainer;

    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 5000);
    config = tt_config(TT_LLAMA, "train.precision=fp32");
    MUST(pt_trainer_create(config, tt.transport, &trainer));
    tap_all(pt_train_check_weights(&trainer) == PT_OK, "initial weights are finite");
    for (int i = 0; i < 3; i++)
        test_weight(&trainer, i * trainer.session.table.count / 4, i % tt.size,
                    values[i]);
    pt_trainer_destroy(&trainer);
    pt_free(config);
    return tt_finish();
}
