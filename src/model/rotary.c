/* SPDX-License-Identifier: Apache-2.0 */
/* Cosines and sines of the rotary positions: angle(p, i) = p · base^(-2i/R) (Su et
 * al. 2021, §3.2.2), in double, rounded once. */
#include "src/model/block.h"

#include <math.h>

int64_t pt_rotary_columns(const pt_arch_t *arch)
{
    if (arch->positions != PT_POSITIONS_ROTARY)
        return 0;
    return (int64_t)((double)arch->head_dim * arch->rotary_fraction) / 2 * 2;
}

static void rotary_fill_tables(const pt_model_t *model, void *cosines, void *sines)
{
    const pt_arch_t *arch = model->arch;
    pt_dtype_t dtype = model->cos.dtype;
    int64_t half = model->cos.shape[1];

    for (int64_t i = 0; i < half; i++) {
        double turn = pow(arch->rotary_base, -(double)i / (double)half);

        for (int64_t p = 0; p < model->cos.shape[0]; p++) {
            pt_float_set(dtype, cosines, p * half + i, cos((double)p * turn));
            pt_float_set(dtype, sines, p * half + i, sin((double)p * turn));
        }
    }
}

pt_status_t pt_rotary_tables(pt_model_t *model, pt_stream_t *stream)
{
    pt_device_t *device = model->device;
    int64_t bytes;
    void *staging;
    pt_status_t status;

    if (model->cos.ndim == 0 || device->dry)
        return PT_OK;
    bytes = pt_tensor_bytes(&model->cos);
    PT_TRY(
        pt_device_alloc(device, PT_MEMORY_HOST, "rotary staging", 2 * bytes, &staging));
    char *sines = (char *)staging + bytes;
    rotary_fill_tables(model, staging, sines);
    PT_TRY_GOTO(done,
                device->ops->copy(device, stream, model->cos.data, model->cos.memory,
                                  staging, PT_MEMORY_HOST, bytes));
    PT_TRY_GOTO(done,
                device->ops->copy(device, stream, model->sin.data, model->sin.memory,
                                  sines, PT_MEMORY_HOST, bytes));
    PT_TRY_GOTO(done, device->ops->stream_sync(device, stream));
done:
    pt_device_free(device, PT_MEMORY_HOST, staging, 2 * bytes);
    return status;
}
