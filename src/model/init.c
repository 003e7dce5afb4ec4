/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights: an element is a function of (seed, part, place in the part), so
 * every layout makes the same model. */
#include "src/model/block.h"

static pt_status_t init_plane(pt_model_t *model, const pt_param_t *param,
                              const pt_hyperslab_plane_t *plane, pt_op_normal_t draw,
                              pt_stream_t *stream)
{
    pt_tensor_t flat =
        pt_tensor_slice(draw.x, 0, plane->local, plane->rows * plane->cols);

    draw.x = pt_tensor_2d(flat.data, flat.dtype, flat.memory, plane->rows, plane->cols);
    draw.first = plane->first;
    draw.pitch = plane->pitch;
    if (param->init == PT_INIT_NORMAL)
        return pt_op_normal(model->device, stream, &draw);
    pt_op_fill_t fill = {.x = draw.x, .value = param->init == PT_INIT_ONES};
    return pt_op_fill(model->device, stream, &fill);
}

/* What `range` of the bucket has of a part. */
static pt_status_t init_part(pt_model_t *model, int p, int index,
                             pt_bucket_range_t range, pt_op_normal_t draw,
                             pt_stream_t *stream)
{
    const pt_param_t *param = &model->table->params[p];
    const pt_part_t *part = &param->part[index];
    pt_hyperslab_t slabs[PT_RANGE_HYPERSLABS];
    int count = pt_units_hyperslabs(model->units, p, index, range, slabs);

    draw.std = param->init_std;
    draw.id = part->id;
    for (int s = 0; s < count; s++)
        for (int64_t i = 0; i < pt_hyperslab_planes(&slabs[s], part->ndim); i++) {
            pt_hyperslab_plane_t plane =
                pt_hyperslab_plane(&slabs[s], part->ndim, part->shape, i);
            PT_TRY(init_plane(model, param, &plane, draw, stream));
        }
    return PT_OK;
}

pt_status_t pt_model_init_bucket(pt_model_t *model, int bucket, pt_tensor_t into,
                                 uint64_t seed, pt_stream_t *stream)
{
    pt_bucket_range_t range = pt_bucket_shard(model->units, bucket);
    int64_t before = range.first - pt_bucket_updated(model->units, bucket).first;
    pt_op_normal_t draw = {.x = pt_tensor_slice(into, 0, before, range.count),
                           .seed = seed};

    for (int p = 0; p < model->table->count; p++) {
        if (pt_units_bucket_of(model->units, p) != bucket)
            continue;
        for (int part = 0; part < model->table->params[p].parts; part++)
            PT_TRY(init_part(model, p, part, range, draw, stream));
    }
    return PT_OK;
}
