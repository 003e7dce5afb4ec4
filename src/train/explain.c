#include "src/train/private.h"

#include <math.h>

static pt_status_t is_finite(pt_trainer_t *t, pt_tensor_t x, bool *finite)
{
    pt_tensor_t host = pt_tensor_slice(t->host_sums, 0, 1, 1);
    pt_op_sum_t sum = {.x = x, .accumulator = t->norm_sum};
    PT_TRY(pt_op_fill(t->device, t->stream, &(pt_op_fill_t){.x = t->norm_sum}));
    PT_TRY(pt_op_sum(t->device, t->stream, &sum));
    PT_TRY(pt_device_copy(t->device, t->stream, &host, &t->norm_sum));
    PT_TRY(pt_comm_wait_stream(t->engine, t->stream));
    *finite = pt_sum_nonfinite(host.data) == 0;
    return PT_OK;
}

/* First parameter in table order whose gradient is not finite on this rank, -1 if none. */
static pt_status_t find(pt_trainer_t *t, int *param)
{
    *param = -1;
    for (int p = 0; p < t->table.count && *param < 0; p++) {
        int bucket = pt_units_bucket_of(t->units, p);
        pt_tensor_t local = pt_units_local_shape(t->units, p);
        bool finite = true;
        if (bucket >= 0) {
            pt_tensor_t grad =
                pt_tensor_slice(pt_bucket_grads(t->units, bucket), 0,
                                pt_units_offset(t->units, p), pt_tensor_count(&local));
            PT_TRY(is_finite(t, grad, &finite));
        }
        if (!finite)
            *param = p;
    }
    return PT_OK;
}

/* The first of all ranks: the sum of a gradient is whole only where its shard is owned. */
static pt_status_t find_everywhere(pt_trainer_t *t, int *param)
{
    pt_status_t status = find(t, param);
    int64_t first = *param >= 0 ? -(int64_t)*param : -INT64_MAX;
    PT_TRY(pt_comm_agree(t->mesh.world, status, false));
    PT_TRY(pt_comm_max_int64(t->mesh.world, &first, 1));
    *param = first == -INT64_MAX ? -1 : (int)-first;
    return PT_OK;
}

pt_status_t pt_train_explain_nonfinite(pt_trainer_t *t, double loss, double norm)
{
    int param = -1;
    PT_TRY(find_everywhere(t, &param));
    const pt_param_t *p = param >= 0 ? &t->table.params[param] : NULL;
    return PT_FAIL_COMMON(
        PT_NUMERIC,
        "step %lld: loss %g, gradient norm %g; first gradient that is not finite: "
        "%s. The weights are those before this step. Lower train.lr, lengthen "
        "train.warmup, or look at the data of this step",
        (long long)t->step + 1, loss, norm, p ? p->part[0].name : "none");
}
