/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of the places so far, layer by layer: what a new token looks back at.
 * Queries of one sequence are one op, because sequences are of different lengths; no
 * bit of attention depends on that. */
#include "src/model/block.h"

/* Columns of the keys of a place: those of this rank's heads. */
static int64_t cache_columns(const pt_model_t *model)
{
    int qkv = pt_param_find(model->table, PT_ROLE_QKV, 0);
    int out = pt_param_find(model->table, PT_ROLE_ATTENTION_OUT, 0);

    return (pt_units_local_shape(model->units, qkv).shape[0] -
            pt_units_local_shape(model->units, out).shape[1]) /
           2;
}

pt_status_t pt_cache_layout(pt_model_t *model, pt_arena_t *activations)
{
    const pt_arch_t *arch = model->arch;
    const pt_model_options_t *options = &model->options;
    int64_t shape[4] = {arch->layers, options->cache_sequences, options->cache_length,
                        cache_columns(model)};

    if (options->cache_sequences == 0)
        return PT_OK;
    PT_TRY(pt_arena_tensor(activations, "keys kept", arch->dtype, 4, shape,
                           &model->key_cache));
    PT_TRY(pt_arena_tensor(activations, "values kept", arch->dtype, 4, shape,
                           &model->value_cache));
    return pt_arena_tensor(activations, "places kept", PT_I32, 1, &shape[2],
                           &model->cache_place);
}

pt_status_t pt_cache_prepare(pt_model_t *model, pt_stream_t *stream)
{
    pt_device_t *device = model->device;
    pt_tensor_t place = model->cache_place;
    int64_t bytes;
    void *staging;
    pt_status_t status;

    if (place.ndim == 0 || device->dry)
        return PT_OK;
    bytes = pt_tensor_bytes(&place);
    PT_TRY(pt_device_alloc(device, PT_MEMORY_HOST, "places staging", bytes, &staging));
    for (int64_t i = 0; i < place.shape[0]; i++)
        ((int32_t *)staging)[i] = (int32_t)i;
    PT_TRY_GOTO(done, device->ops->copy(device, stream, place.data, place.memory,
                                        staging, PT_MEMORY_HOST, bytes));
    PT_TRY_GOTO(done, device->ops->stream_sync(device, stream));
done:
    pt_device_free(device, PT_MEMORY_HOST, staging, bytes);
    return status;
}

/* Places [first, first + count) of a cached sequence in the call's layer: [count, K, D]. */
static pt_tensor_t cache_places(const pt_call_t *call, pt_tensor_t cache, int64_t slot,
                                int64_t first, int64_t count)
{
    int64_t width = call->model->arch->head_dim;
    pt_tensor_t x = pt_tensor_slice(cache, 0, call->block->layer, 1);

    x = pt_tensor_slice(pt_tensor_slice(x, 1, slot, 1), 2, first, count);
    return pt_tensor_3d(x.data, x.dtype, x.memory, count, x.shape[3] / width, width);
}

static pt_tensor_t cache_flat(pt_tensor_t x)
{
    x.ndim = 2;
    x.shape[1] *= x.shape[2];
    x.stride[1] = 1;
    return x;
}

/* Strided: q, k and v share rows. Dropout of nothing is the op that copies. */
static pt_status_t cache_copy_rows(const pt_call_t *call, pt_tensor_t from,
                                   pt_tensor_t to)
{
    return pt_op_dropout(call->model->device, call->stream,
                         &(pt_op_dropout_t){.x = cache_flat(from), .y = cache_flat(to)});
}

static pt_status_t cache_attend_one(const pt_call_t *call,
                                    const pt_op_attention_fwd_t *rows, int64_t i)
{
    const pt_model_t *model = call->model;
    int64_t count = call->rows / call->batch->sequences, start = i * count;
    int64_t slot = call->decode->slot[i], first = call->decode->first[i];
    pt_op_attention_fwd_t one = *rows;

    PT_TRY(cache_copy_rows(call, pt_tensor_slice(rows->k, 0, start, count),
                           cache_places(call, model->key_cache, slot, first, count)));
    PT_TRY(cache_copy_rows(call, pt_tensor_slice(rows->v, 0, start, count),
                           cache_places(call, model->value_cache, slot, first, count)));
    one.q = pt_tensor_slice(rows->q, 0, start, count);
    one.k = cache_places(call, model->key_cache, slot, 0, first + count);
    one.v = cache_places(call, model->value_cache, slot, 0, first + count);
    one.o = pt_tensor_slice(rows->o, 0, start, count);
    one.lse = pt_tensor_slice(rows->lse, 0, start, count);
    one.shape.sequences = 1;
    one.shape.q_position = pt_tensor_slice(rows->shape.q_position, 0, start, count);
    one.shape.k_position = pt_tensor_slice(model->cache_place, 0, 0, first + count);
    return pt_op_attention_fwd(model->device, call->stream, &one);
}

pt_status_t pt_cache_attend(const pt_call_t *call, const pt_op_attention_fwd_t *rows)
{
    for (int64_t i = 0; i < call->batch->sequences; i++)
        PT_TRY(cache_attend_one(call, rows, i));
    return PT_OK;
}
