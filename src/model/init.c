/* Initial weights: an element is a function of (seed, part, place in the part), so
 * every layout makes the same model. */
#include "src/model/block.h"

#include "penta/rng.h"

enum { PIECE = 1 << 18 }; /* elements staged at once */

/* A part as this rank holds it: `rows` × `cols` starting at (row, col) of the part,
 * dense from element `local` of the parameter's shard on. */
typedef struct box {
    const pt_param_t *param;
    const pt_part_t *part;
    int64_t row, col, rows, cols, pitch, local;
} box_t;

static box_t box_of(const pt_units_t *units, const pt_param_table_t *table, int param,
                    int part)
{
    const pt_param_t *p = &table->params[param];
    pt_extent_t extent = pt_units_part_extent(units, param, part);
    int64_t pitch = p->ndim == 2 ? p->shape[1] : 1;
    box_t box = {.param = p,
                 .part = &p->part[part],
                 .rows = p->part[part].shape[0],
                 .cols = pitch,
                 .pitch = pitch};

    if (p->shard.dim == 0) {
        box.row = extent.first;
        box.rows = extent.count;
        box.local = extent.local_first * pitch;
    } else {
        box.col = extent.first;
        box.cols = extent.count;
    }
    return box;
}

static double initial(const box_t *box, uint64_t seed, int64_t index)
{
    const pt_param_t *param = box->param;
    int64_t row = box->row + index / box->cols, col = box->col + index % box->cols;

    if (param->init != PT_INIT_NORMAL)
        return param->init == PT_INIT_ONES;
    return param->init_std * pt_normal(seed, box->part->id, row * box->pitch + col);
}

static pt_status_t fill_box(pt_model_t *model, const box_t *box, pt_tensor_t weight,
                            uint64_t seed, void *staging, pt_stream_t *stream)
{
    pt_device_t *device = model->device;
    int64_t size = (int64_t)pt_dtype_size(weight.dtype), count = box->rows * box->cols;

    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t n = count - first < PIECE ? count - first : PIECE;

        for (int64_t i = 0; i < n; i++)
            pt_float_set(weight.dtype, staging, i, initial(box, seed, first + i));
        PT_TRY(device->ops->copy(device, stream,
                                 (char *)weight.data + (box->local + first) * size,
                                 weight.memory, staging, PT_MEMORY_HOST, n * size));
        PT_TRY(device->ops->stream_sync(device, stream));
    }
    return PT_OK;
}

static pt_status_t fill_param(pt_model_t *model, int param, uint64_t seed,
                              void *staging, pt_stream_t *stream)
{
    const pt_param_t *p = &model->table->params[param];
    pt_status_t status = PT_OK;

    PT_TRY(pt_units_need(model->units, p->unit, stream));
    pt_tensor_t weight = pt_units_weight(model->units, param);
    for (int part = 0; part < p->parts && status == PT_OK; part++) {
        box_t box = box_of(model->units, model->table, param, part);

        status = fill_box(model, &box, weight, seed, staging, stream);
    }
    PT_TRY(status);
    return pt_units_release(model->units, p->unit, stream);
}

pt_status_t pt_model_init_weights(pt_model_t *model, uint64_t seed, pt_stream_t *stream)
{
    pt_device_t *device = model->device;
    int64_t bytes = PIECE * (int64_t)pt_dtype_size(model->arch->dtype);
    pt_status_t status = PT_OK;
    void *staging;

    if (device->dry)
        return PT_OK;
    PT_TRY(pt_device_alloc(device, PT_MEMORY_HOST, "initial weights", bytes, &staging));
    for (int param = 0; param < model->table->count && status == PT_OK; param++)
        if (pt_units_bucket_of(model->units, param) >= 0)
            status = fill_param(model, param, seed, staging, stream);
    pt_device_free(device, PT_MEMORY_HOST, staging, bytes);
    PT_TRY(status);
    return PT_OK;
}
