/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights: an element is a function of (seed, part, place in the part), so
 * every layout makes the same model. */
#include "src/model/block.h"

/* A box of a part, dense in the bucket. */
static pt_status_t fill_box(pt_model_t *model, const pt_param_t *param,
                            const pt_part_t *part, const pt_slab_t *slab,
                            pt_op_normal_t draw, pt_stream_t *stream)
{
    bool flat = part->ndim == 1;
    int64_t rows = flat ? 1 : slab->count[0], cols = slab->count[flat ? 0 : 1];
    pt_tensor_t box = pt_tensor_slice(draw.x, 0, slab->local, rows * cols);

    PT_REQUIRE(part->ndim <= 2);
    draw.x = pt_tensor_2d(box.data, box.dtype, box.memory, rows, cols);
    draw.std = param->init_std;
    draw.id = part->id;
    draw.pitch = flat ? cols : part->shape[1];
    draw.first = flat ? slab->start[0] : slab->start[0] * draw.pitch + slab->start[1];
    if (param->init == PT_INIT_NORMAL)
        return pt_op_normal(model->device, stream, &draw);
    pt_op_fill_t fill = {.x = draw.x, .value = param->init == PT_INIT_ONES};
    return pt_op_fill(model->device, stream, &fill);
}

pt_status_t pt_model_init_bucket(pt_model_t *model, int bucket, pt_tensor_t into,
                                 uint64_t seed, pt_stream_t *stream)
{
    pt_bucket_range_t range = pt_bucket_shard(model->units, bucket);
    int64_t before = range.first - pt_bucket_updated(model->units, bucket).first;
    pt_op_normal_t draw = {.x = pt_tensor_slice(into, 0, before, range.count),
                           .seed = seed};

    for (int p = 0; p < model->table->count; p++) {
        const pt_param_t *param = &model->table->params[p];

        if (pt_units_bucket_of(model->units, p) != bucket)
            continue;
        for (int part = 0; part < param->parts; part++) {
            pt_slab_t slabs[PT_RANGE_SLABS];
            int count = pt_units_slabs(model->units, p, part, range, slabs);

            for (int s = 0; s < count; s++)
                PT_TRY(fill_box(model, param, &param->part[part], &slabs[s], draw,
                                stream));
        }
    }
    return PT_OK;
}
