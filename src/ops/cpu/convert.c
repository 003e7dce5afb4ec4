/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between floating-point types: blocks for other kernels, and the op
 * cast. */
#include "src/ops/cpu/kernel.h"

#define CONVERT(to, value)                                                             \
    do {                                                                               \
        to *restrict y_ = y;                                                           \
        for (int64_t i = 0; i < count; i++)                                            \
            y_[i] = (value);                                                           \
    } while (0)
#define X(type) (((const type *restrict)x)[i])

void PT_KERNEL(widen_f64)(pt_dtype_t from, const void *x, double *y, int64_t count)
{
    switch (from) {
    case PT_F64: memcpy(y, x, (size_t)count * sizeof(double)); break;
    case PT_BF16: CONVERT(double, (double)pt_bf16_to_f32(X(uint16_t))); break;
    case PT_F16: CONVERT(double, (double)pt_f16_to_f32(X(uint16_t))); break;
    default: CONVERT(double, (double)X(float));
    }
}

void PT_KERNEL(widen_f32)(pt_dtype_t from, const void *x, float *y, int64_t count)
{
    switch (from) {
    case PT_BF16: CONVERT(float, pt_bf16_to_f32(X(uint16_t))); break;
    case PT_F16: CONVERT(float, pt_f16_to_f32(X(uint16_t))); break;
    default: memcpy(y, x, (size_t)count * sizeof(float));
    }
}

void PT_KERNEL(narrow_f64)(pt_dtype_t to, const double *x, void *y, int64_t count)
{
    switch (to) {
    case PT_F64: memcpy(y, x, (size_t)count * sizeof(double)); break;
    case PT_BF16:
        CONVERT(uint16_t, pt_f32_to_bf16(pt_f64_to_odd_f32(X(double))));
        break;
    case PT_F16: CONVERT(uint16_t, pt_f32_to_f16(pt_f64_to_odd_f32(X(double)))); break;
    default: CONVERT(float, (float)X(double));
    }
}

void PT_KERNEL(narrow_f32)(pt_dtype_t to, const float *x, void *y, int64_t count)
{
    switch (to) {
    case PT_BF16: CONVERT(uint16_t, pt_f32_to_bf16(X(float))); break;
    case PT_F16: CONVERT(uint16_t, pt_f32_to_f16(X(float))); break;
    default: memcpy(y, x, (size_t)count * sizeof(float));
    }
}

#define PT_BODY "src/ops/cpu/convert_body.h"
#include "src/ops/cpu/each_wide.h"

/* Converts directly if one type is fp64, so that it rounds once. Else fp32 holds every
 * value. */
static void convert_cast_chunk(pt_dtype_t from, const char *x, pt_dtype_t to, char *y,
                               int64_t count)
{
    float wide[PT_CONVERT_CHUNK];
    if (from == to) {
        memcpy(y, x, (size_t)count * pt_dtype_size(to));
    } else if (from == PT_F64) {
        PT_KERNEL(narrow_f64)(to, (const double *)(const void *)x, y, count);
    } else if (to == PT_F64) {
        PT_KERNEL(widen_f64)(from, x, (double *)(void *)y, count);
    } else {
        PT_KERNEL(widen_f32)(from, x, wide, count);
        PT_KERNEL(narrow_f32)(to, wide, y, count);
    }
}

pt_status_t PT_KERNEL(cast)(struct pt_stream *stream, const pt_op_cast_t *a)
{
    int64_t count = pt_tensor_count(&a->x);
    PT_PARALLEL
    for (int64_t first = 0; first < count; first += PT_CONVERT_CHUNK)
        convert_cast_chunk(a->x.dtype, PT_ELEMENT(const char, a->x, first), a->y.dtype,
                           PT_ELEMENT(char, a->y, first),
                           pt_min(PT_CONVERT_CHUNK, count - first));
    return PT_OK;
}
