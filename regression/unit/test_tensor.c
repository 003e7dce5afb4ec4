/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/tensor.h"

#include <string.h>

static void test_dtypes(void)
{
    static const struct {
        pt_dtype_t dtype, accumulator;
        size_t size;
        const char *name;
        bool is_float;
    } want[] = {
        {PT_F64, PT_F64, 8, "fp64", true},   {PT_F32, PT_F32, 4, "fp32", true},
        {PT_BF16, PT_F32, 2, "bf16", true},  {PT_F16, PT_F32, 2, "fp16", true},
        {PT_I64, PT_I64, 8, "int64", false}, {PT_I32, PT_I32, 4, "int32", false},
        {PT_U8, PT_U8, 1, "uint8", false},
    };

    tap_ok(sizeof want / sizeof *want == PT_DTYPE_COUNT, "all types are tested");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        tap_ok(pt_dtype_size(want[i].dtype) == want[i].size &&
                   strcmp(pt_dtype_name(want[i].dtype), want[i].name) == 0 &&
                   pt_dtype_is_float(want[i].dtype) == want[i].is_float &&
                   pt_dtype_accumulator(want[i].dtype) == want[i].accumulator,
               "type %s", want[i].name);
}

static void test_make(void)
{
    float data[24];
    char text[64];
    pt_tensor_t x = pt_tensor_3d(data, PT_F32, PT_MEMORY_HOST, 2, 3, 4);
    pt_tensor_t y = pt_tensor_2d(NULL, PT_BF16, PT_MEMORY_DEVICE, 16, 96);
    pt_tensor_t z = pt_tensor_1d(NULL, PT_I64, PT_MEMORY_HOST, 0);
    int replicated = 1;

    tap_ok(x.ndim == 3 && x.stride[0] == 12 && x.stride[1] == 4 && x.stride[2] == 1 &&
               x.data == data,
           "row-major");
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        replicated &= x.dist[axis].placement == PT_REPLICATED && x.dist[axis].dim == -1;
    tap_ok(replicated, "replicated on every axis");
    tap_ok(pt_tensor_count(&x) == 24 && pt_tensor_bytes(&x) == 96, "count and bytes");
    tap_ok(pt_tensor_bytes(&y) == 3072 && y.memory == PT_MEMORY_DEVICE,
           "bf16 on device");
    tap_ok(pt_tensor_count(&z) == 0 && pt_tensor_is_dense(&z), "empty is dense");
    tap_ok(strcmp(pt_tensor_text(&y, text, sizeof text), "bf16[16, 96]") == 0, "text");
    tap_ok(strcmp(pt_tensor_text(&y, text, 7), "bf16[1") == 0, "text is cut to fit");
    tap_ok(!pt_tensor_same_shape(&x, &y), "shapes differ");
    y = pt_tensor_3d(NULL, PT_F64, PT_MEMORY_HOST, 2, 3, 4);
    tap_ok(pt_tensor_same_shape(&x, &y), "shapes agree whatever the type");
    y.shape[1] = 5;
    tap_ok(!pt_tensor_same_shape(&x, &y), "one dimension differs");
    tap_ok(strcmp(pt_axis_name(PT_AXIS_TENSOR), "tensor") == 0 &&
               strcmp(pt_axis_name(PT_AXIS_EXPERT_DATA), "expert_data") == 0,
           "axes have names");
}

static void test_views(void)
{
    float data[4][6];
    pt_tensor_t x = pt_tensor_2d(data, PT_F32, PT_MEMORY_HOST, 4, 6), y;

    y = pt_tensor_slice(x, 0, 1, 2);
    tap_ok(y.data == data[1] && y.shape[0] == 2 && pt_tensor_is_dense(&y),
           "rows are dense");
    y = pt_tensor_slice(x, 1, 2, 3);
    tap_ok(y.data == &data[0][2] && y.stride[0] == 6 && y.shape[1] == 3 &&
               !pt_tensor_is_dense(&y) && pt_tensor_count(&y) == 12,
           "columns are not");
    y = pt_tensor_slice(y, 0, 3, 1);
    tap_ok(y.data == &data[3][2] && pt_tensor_is_dense(&y), "one row of columns is");
    y = pt_tensor_split_last(x, 3);
    tap_ok(y.ndim == 3 && y.shape[0] == 4 && y.shape[1] == 3 && y.shape[2] == 2 &&
               y.stride[0] == 6 && y.stride[1] == 2 && y.stride[2] == 1 &&
               pt_tensor_is_dense(&y),
           "columns seen as groups");
    y = pt_tensor_split_last(pt_tensor_slice(x, 1, 2, 4), 2);
    tap_ok(y.data == &data[0][2] && y.stride[0] == 6 && y.stride[1] == 2 &&
               !pt_tensor_is_dense(&y),
           "groups of a slice keep its stride");
    y = pt_tensor_slice(pt_tensor_split_last(x, 3), 1, 2, 1);
    tap_ok(y.data == &data[0][4], "a group is a slice");
    x.data = NULL;
    y = pt_tensor_slice(x, 0, 3, 1);
    tap_ok(y.data == NULL, "absent stays absent");
}

int main(void)
{
    test_dtypes();
    test_make();
    test_views();
    return tap_done();
}
