#include "penta/dtype.h"

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
