/* Initial weights: an element is a function of (seed, part, place in the part), so
 * every layout makes the same model. */
#include "src/model/block.h"

#include "penta/rng.h"

enum { PIECE = 1 << 18 }; /* elements staged at once */

/* A box of a part, and where it goes. */
typedef struct target {
    const pt_param_t *param;
    const pt_part_t *part;
    const pt_slab_t *slab;
    pt_tensor_t into; /* the bucket's range */
    uint64_t seed;
} target_t;

/* Element `index` of the box, row-major. */
static double initial(const target_t *target, int64_t index)
{
    const pt_param_t *param = target->param;
    const pt_slab_t *slab = target->slab;
    int64_t element = 0, pitch = 1;

    if (param->init != PT_INIT_NORMAL)
        return param->init == PT_INIT_ONES;
    for (int d = target->part->ndim - 1; d >= 0; d--) {
        element += (slab->start[d] + index % slab->count[d]) * pitch;
        index /= slab->count[d];
        pitch *= target->part->shape[d];
    }
    return param->init_std * pt_normal(target->seed, target->part->id, element);
}

static pt_status_t fill_box(pt_model_t *model, const target_t *target, void *staging,
                            pt_stream_t *stream)
{
    pt_device_t *device = model->device;
    int64_t count = 1;

    for (int d = 0; d < target->part->ndim; d++)
        count *= target->slab->count[d];
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t n = count - first < PIECE ? count - first : PIECE;
        pt_tensor_t host = pt_tensor_1d(staging, target->into.dtype, PT_MEMORY_HOST, n);
        pt_tensor_t box =
            pt_tensor_slice(target->into, 0, target->slab->local + first, n);

        for (int64_t i = 0; i < n; i++)
            pt_float_set(host.dtype, staging, i, initial(target, first + i));
        PT_TRY(pt_device_copy(device, stream, &box, &host));
        PT_TRY(device->ops->stream_sync(device, stream));
    }
    return PT_OK;
}

static pt_status_t fill_param(pt_model_t *model, int param, target_t *target,
                              pt_bucket_range_t range, void *staging,
                              pt_stream_t *stream)
{
    target->param = &model->table->params[param];
    for (int part = 0; part < target->param->parts; part++) {
        pt_slab_t slabs[PT_RANGE_SLABS];
        int count = pt_units_slabs(model->units, param, part, range, slabs);

        target->part = &target->param->part[part];
        for (int s = 0; s < count; s++) {
            target->slab = &slabs[s];
            PT_TRY(fill_box(model, target, staging, stream));
        }
    }
    return PT_OK;
}

pt_status_t pt_model_init_bucket(pt_model_t *model, int bucket, pt_tensor_t into,
                                 uint64_t seed, pt_stream_t *stream)
{
    pt_device_t *device = model->device;
    pt_bucket_range_t range = pt_bucket_updated(model->units, bucket);
    int64_t bytes = PIECE * (int64_t)pt_dtype_size(into.dtype);
    target_t target = {.into = into, .seed = seed};
    pt_status_t status = PT_OK;
    void *staging;

    PT_REQUIRE(into.dtype == pt_dtype_accumulator(model->arch->dtype) &&
               pt_tensor_count(&into) == range.count);
    if (device->dry)
        return PT_OK;
    PT_TRY(pt_device_alloc(device, PT_MEMORY_HOST, "initial weights", bytes, &staging));
    for (int p = 0; p < model->table->count && status == PT_OK; p++)
        if (pt_units_bucket_of(model->units, p) == bucket)
            status = fill_param(model, p, &target, range, staging, stream);
    pt_device_free(device, PT_MEMORY_HOST, staging, bytes);
    PT_TRY(status);
    return PT_OK;
}
