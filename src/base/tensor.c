/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/tensor.h"

#include "penta/base/text.h"
#include "src/base/private.h"

const char *pt_axis_name(pt_axis_t axis)
{
    static const char *const names[PT_AXIS_WORLD + 1] = {
        [PT_AXIS_TENSOR] = "tensor",
        [PT_AXIS_CONTEXT] = "context",
        [PT_AXIS_PIPELINE] = "pipeline",
        [PT_AXIS_DATA] = "data",
        [PT_AXIS_EXPERT] = "expert",
        [PT_AXIS_EXPERT_TENSOR] = "expert_tensor",
        [PT_AXIS_EXPERT_DATA] = "expert_data",
        [PT_AXIS_WORLD] = "world",
    };

    return (unsigned)axis <= PT_AXIS_WORLD ? names[axis] : "unknown axis";
}

pt_tensor_t pt_tensor_dense(void *data, pt_dtype_t dtype, pt_memory_t memory, int ndim,
                            const int64_t *shape)
{
    pt_tensor_t x = {.data = data, .ndim = ndim, .dtype = dtype, .memory = memory};
    int64_t stride = 1;

    for (int i = ndim - 1; i >= 0; i--) {
        x.shape[i] = shape[i];
        x.stride[i] = stride;
        stride *= shape[i];
    }
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        x.dist[axis] = (pt_dist_t){.placement = PT_REPLICATED, .dim = -1};
    return x;
}

pt_tensor_t pt_tensor_1d(void *data, pt_dtype_t dtype, pt_memory_t memory, int64_t n)
{
    return pt_tensor_dense(data, dtype, memory, 1, &n);
}

pt_tensor_t pt_tensor_2d(void *data, pt_dtype_t dtype, pt_memory_t memory, int64_t rows,
                         int64_t cols)
{
    return pt_tensor_dense(data, dtype, memory, 2, (const int64_t[]){rows, cols});
}

pt_tensor_t pt_tensor_3d(void *data, pt_dtype_t dtype, pt_memory_t memory, int64_t a,
                         int64_t b, int64_t c)
{
    return pt_tensor_dense(data, dtype, memory, 3, (const int64_t[]){a, b, c});
}

pt_tensor_t pt_tensor_slice(pt_tensor_t x, int dim, int64_t first, int64_t count)
{
    if (x.data)
        x.data =
            (char *)x.data + first * x.stride[dim] * (int64_t)pt_dtype_size(x.dtype);
    x.shape[dim] = count;
    return x;
}

pt_tensor_t pt_tensor_split_last(pt_tensor_t x, int64_t groups)
{
    int last = x.ndim - 1;
    int64_t width = x.shape[last] / groups;

    x.shape[last] = groups;
    x.stride[last] = width;
    x.shape[last + 1] = width;
    x.stride[last + 1] = 1;
    x.ndim++;
    return x;
}

int64_t pt_tensor_count(const pt_tensor_t *x)
{
    int64_t count = 1;

    for (int i = 0; i < x->ndim; i++)
        count *= x->shape[i];
    return count;
}

int64_t pt_tensor_bytes(const pt_tensor_t *x)
{
    return pt_tensor_count(x) * (int64_t)pt_dtype_size(x->dtype);
}

bool pt_tensor_is_dense(const pt_tensor_t *x)
{
    int64_t stride = 1;

    if (pt_tensor_count(x) == 0)
        return true;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->shape[i] != 1 && x->stride[i] != stride)
            return false;
        stride *= x->shape[i];
    }
    return true;
}

bool pt_tensor_same_shape(const pt_tensor_t *a, const pt_tensor_t *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

const char *pt_tensor_text(const pt_tensor_t *x, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);

    pt_text_add(&text, "%s[", pt_dtype_name(x->dtype));
    for (int i = 0; i < x->ndim; i++)
        pt_text_add(&text, "%s%lld", i == 0 ? "" : ", ", (long long)x->shape[i]);
    pt_text_add(&text, "]");
    return buffer;
}
