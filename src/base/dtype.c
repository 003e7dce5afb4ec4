/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/dtype.h"
#include "penta/base/float16.h"

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} dtypes[PT_DTYPE_COUNT] = {
    [PT_F64] = {"fp64", 8, true},   [PT_F32] = {"fp32", 4, true},
    [PT_BF16] = {"bf16", 2, true},  [PT_F16] = {"fp16", 2, true},
    [PT_I64] = {"int64", 8, false}, [PT_I32] = {"int32", 4, false},
    [PT_U8] = {"uint8", 1, false},
};

size_t pt_dtype_size(pt_dtype_t dtype)
{
    return dtypes[dtype].size;
}

const char *pt_dtype_name(pt_dtype_t dtype)
{
    return (unsigned)dtype < PT_DTYPE_COUNT ? dtypes[dtype].name : "unknown type";
}

bool pt_dtype_is_float(pt_dtype_t dtype)
{
    return dtypes[dtype].is_float;
}

pt_dtype_t pt_dtype_accumulator(pt_dtype_t dtype)
{
    return dtypes[dtype].is_float && dtype != PT_F64 ? PT_F32 : dtype;
}

double pt_float_get(pt_dtype_t dtype, const void *array, int64_t index)
{
    switch (dtype) {
    case PT_F64: return ((const double *)array)[index];
    case PT_BF16: return (double)pt_bf16_to_f32(((const uint16_t *)array)[index]);
    case PT_F16: return (double)pt_f16_to_f32(((const uint16_t *)array)[index]);
    default: return (double)((const float *)array)[index];
    }
}

void pt_float_set(pt_dtype_t dtype, void *array, int64_t index, double value)
{
    uint16_t *narrow = array;

    switch (dtype) {
    case PT_F64: ((double *)array)[index] = value; break;
    case PT_BF16: narrow[index] = pt_f32_to_bf16(pt_f64_to_odd_f32(value)); break;
    case PT_F16: narrow[index] = pt_f32_to_f16(pt_f64_to_odd_f32(value)); break;
    default: ((float *)array)[index] = (float)value;
    }
}
