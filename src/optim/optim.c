/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/optim/optim.h"
#include "penta/base/alloc.h"

typedef struct moments {
    pt_tensor_t master; /* data NULL: the weights are their own master weights */
    pt_tensor_t exp_avg, exp_avg_sq;
} moments_t;

struct pt_optim {
    const pt_param_table_t *table;
    pt_units_t *units;
    pt_device_t *device;
    const pt_config_t *config;
    int buckets;
    moments_t *moments;
};

pt_status_t pt_optim_create(const pt_param_table_t *table, pt_units_t *units,
                            pt_device_t *device, const pt_config_t *config,
                            pt_optim_t **out)
{
    pt_status_t status;
    pt_optim_t *optim = NULL;
    *out = NULL;
    PT_TRY(PT_NEW("optimizer", 1, &optim));
    *optim = (pt_optim_t){
        .table = table, .units = units, .device = device, .config = config};
    optim->buckets = pt_units_buckets(units);
    PT_TRY_GOTO(fail, PT_NEW("moments", optim->buckets, &optim->moments));
    *out = optim;
    return PT_OK;
fail:
    pt_optim_destroy(optim);
    return status;
}

void pt_optim_destroy(pt_optim_t *optim)
{
    if (optim == NULL)
        return;
    pt_free(optim->moments);
    pt_free(optim);
}

pt_status_t pt_optim_layout(pt_optim_t *optim, pt_arena_t *optimizer)
{
    bool narrow = optim->config->train.moments_dtype == PT_NARROW_BF16;
    for (int b = 0; b < optim->buckets; b++) {
        moments_t *m = &optim->moments[b];
        int64_t count = pt_bucket_updated(optim->units, b).count;
        pt_dtype_t storage = pt_bucket_weights(optim->units, b).dtype;
        pt_dtype_t master = pt_dtype_accumulator(storage);
        pt_dtype_t moment = narrow ? PT_BF16 : master;
        if (master != storage)
            PT_TRY(pt_arena_tensor(optimizer, "master weights", master, 1, &count,
                                   &m->master));
        PT_TRY(pt_arena_tensor(optimizer, "exp_avg", moment, 1, &count, &m->exp_avg));
        PT_TRY(pt_arena_tensor(optimizer, "exp_avg_sq", moment, 1, &count,
                               &m->exp_avg_sq));
    }
    return PT_OK;
}

static pt_tensor_t optim_updated(const pt_optim_t *optim, int bucket, pt_tensor_t whole)
{
    pt_bucket_range_t range = pt_bucket_updated(optim->units, bucket);
    return pt_tensor_slice(whole, 0, range.first, range.count);
}

pt_tensor_t pt_optim_state(const pt_optim_t *optim, pt_state_kind_t kind, int bucket)
{
    const moments_t *m = &optim->moments[bucket];
    if (kind == PT_STATE_EXP_AVG)
        return m->exp_avg;
    if (kind == PT_STATE_EXP_AVG_SQ)
        return m->exp_avg_sq;
    return m->master.data
               ? m->master
               : optim_updated(optim, bucket, pt_bucket_weights(optim->units, bucket));
}

pt_status_t pt_optim_reset(pt_optim_t *optim, pt_stream_t *stream)
{
    for (int b = 0; b < optim->buckets; b++) {
        moments_t *m = &optim->moments[b];
        PT_TRY(pt_op_fill(optim->device, stream, &(pt_op_fill_t){.x = m->exp_avg}));
        PT_TRY(pt_op_fill(optim->device, stream, &(pt_op_fill_t){.x = m->exp_avg_sq}));
        if (m->master.data)
            PT_TRY(pt_op_fill(optim->device, stream, &(pt_op_fill_t){.x = m->master}));
    }
    return PT_OK;
}

pt_status_t pt_optim_loaded(pt_optim_t *optim, pt_stream_t *stream)
{
    for (int b = 0; b < optim->buckets; b++) {
        moments_t *m = &optim->moments[b];
        if (m->master.data) {
            pt_tensor_t weights =
                optim_updated(optim, b, pt_bucket_weights(optim->units, b));
            pt_op_cast_t cast = {.x = m->master, .y = weights};
            PT_TRY(pt_op_cast(optim->device, stream, &cast));
        }
        PT_TRY(pt_bucket_was_updated(optim->units, b, stream));
    }
    return PT_OK;
}

static pt_status_t optim_add_squares(pt_optim_t *optim, int bucket,
                                     pt_bucket_range_t range, pt_tensor_t accumulator,
                                     pt_stream_t *stream)
{
    pt_bucket_range_t mine =
        pt_bucket_common(range, pt_bucket_shard(optim->units, bucket));
    pt_op_sum_squares_t sum = {.accumulator = accumulator};
    int64_t first = pt_bucket_updated(optim->units, bucket).first;
    if (mine.count == 0)
        return PT_OK;
    sum.x = pt_tensor_slice(pt_bucket_grads(optim->units, bucket), 0,
                            mine.first - first, mine.count);
    return pt_op_sum_squares(optim->device, stream, &sum);
}

pt_status_t pt_optim_square_sum(pt_optim_t *optim, pt_tensor_t accumulator,
                                pt_stream_t *stream)
{
    for (int p = 0; p < optim->table->count; p++) {
        pt_bucket_range_t owned[PT_MAX_PARTS];
        int count = pt_units_owned(optim->units, p, owned);
        for (int i = 0; i < count; i++)
            PT_TRY(optim_add_squares(optim, pt_units_bucket_of(optim->units, p),
                                     owned[i], accumulator, stream));
    }
    return PT_OK;
}

static pt_status_t optim_update_param(pt_optim_t *optim, int param, pt_op_adamw_t adamw,
                                      pt_stream_t *stream)
{
    int bucket = pt_units_bucket_of(optim->units, param);
    const moments_t *m = &optim->moments[bucket];
    pt_bucket_range_t whole = pt_bucket_updated(optim->units, bucket);
    pt_tensor_t local = pt_units_local_shape(optim->units, param);
    pt_bucket_range_t mine = pt_bucket_common(
        whole, (pt_bucket_range_t){pt_units_offset(optim->units, param),
                                   pt_tensor_count(&local)});
    if (mine.count == 0)
        return PT_OK;
    int64_t at = mine.first - whole.first;
    pt_tensor_t weights = pt_bucket_weights(optim->units, bucket);
    adamw.weight = pt_tensor_slice(pt_optim_state(optim, PT_STATE_WEIGHT, bucket), 0,
                                   at, mine.count);
    adamw.exp_avg = pt_tensor_slice(m->exp_avg, 0, at, mine.count);
    adamw.exp_avg_sq = pt_tensor_slice(m->exp_avg_sq, 0, at, mine.count);
    adamw.grad =
        pt_tensor_slice(pt_bucket_grads(optim->units, bucket), 0, at, mine.count);
    if (m->master.data)
        adamw.compute = pt_tensor_slice(weights, 0, mine.first, mine.count);
    adamw.weight_decay *= optim->table->params[param].weight_decay;
    return pt_op_adamw(optim->device, stream, &adamw);
}

pt_status_t pt_optim_update(pt_optim_t *optim, int64_t t, double lr, double grad_scale,
                            pt_stream_t *stream)
{
    const pt_config_t *c = optim->config;
    pt_op_adamw_t adamw = {.lr = lr,
                           .beta1 = c->train.beta1,
                           .beta2 = c->train.beta2,
                           .eps = c->train.eps,
                           .weight_decay = c->train.weight_decay,
                           .grad_scale = grad_scale,
                           .t = t};
    int p = 0;
    for (int b = 0; b < optim->buckets; b++) {
        /* Parameters are in ascending order of bucket; those of other stages (bucket
         * -1) are at the beginning and the end. */
        for (; p < optim->table->count && pt_units_bucket_of(optim->units, p) <= b; p++)
            if (pt_units_bucket_of(optim->units, p) == b)
                PT_TRY(optim_update_param(optim, p, adamw, stream));
        PT_TRY(pt_bucket_was_updated(optim->units, b, stream));
    }
    return PT_OK;
}
