/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the checks of all ops share. */
#include "src/ops/check.h"

pt_status_t op_check_fail(const pt_checker_t *in, const char *operand,
                          const pt_tensor_t *x, const char *problem)
{
    char text[96];
    return PT_FAIL(PT_INTERNAL, "%s: %s is %s, %s", in->op, operand,
                   pt_tensor_text(x, text, sizeof text), problem);
}

pt_status_t op_check_operand(const pt_checker_t *in, const char *operand,
                             const pt_tensor_t *x, pt_dtype_t dtype, int ndim,
                             const int64_t *shape)
{
    char want[96];
    bool fits = x->ndim == ndim;
    pt_tensor_t wanted = {.ndim = ndim, .dtype = dtype};

    if (x->ndim < 1 || x->ndim > PT_MAX_DIMS)
        return PT_FAIL(PT_INTERNAL, "%s: %s is missing", in->op, operand);
    for (int i = 0; i < ndim; i++) {
        wanted.shape[i] = shape[i];
        fits = fits && (shape[i] == ANY || shape[i] == x->shape[i]) && x->shape[i] >= 0;
    }
    if (!fits || x->dtype != dtype)
        return PT_FAIL(PT_INTERNAL, "%s: %s is %s, expected %s (-1: any)", in->op,
                       operand, pt_tensor_text(x, (char[96]){0}, 96),
                       pt_tensor_text(&wanted, want, sizeof want));
    if (x->memory != PT_MEMORY_DEVICE)
        return op_check_fail(in, operand, x, "not in device memory");
    if (!x->data && pt_tensor_count(x) > 0)
        return op_check_fail(in, operand, x, "without memory");
    if (x->stride[ndim - 1] != 1 && x->shape[ndim - 1] > 1)
        return op_check_fail(in, operand, x, "with an inner stride other than 1");
    return PT_OK;
}

pt_status_t op_check_dense(const pt_checker_t *in, const char *operand,
                           const pt_tensor_t *x)
{
    return pt_tensor_is_dense(x) ? PT_OK : op_check_fail(in, operand, x, "not dense");
}

pt_status_t op_check_float(const pt_checker_t *in, const char *operand,
                           const pt_tensor_t *x)
{
    if (x->ndim < 1 || x->ndim > PT_MAX_DIMS)
        return PT_FAIL(PT_INTERNAL, "%s: %s is missing", in->op, operand);
    if (!(in->dtypes >> x->dtype & 1))
        return op_check_fail(in, operand, x, "a type this op does not take");
    return PT_OK;
}

pt_status_t op_check_either(const pt_checker_t *in, const char *operand,
                            const pt_tensor_t *x, pt_dtype_t t)
{
    pt_dtype_t a = pt_dtype_accumulator(t);
    char text[96];
    if (x->ndim < 1 || x->ndim > PT_MAX_DIMS)
        return PT_FAIL(PT_INTERNAL, "%s: %s is missing", in->op, operand);
    PT_CHECK(x->dtype == t || x->dtype == a, PT_INTERNAL,
             "%s: %s is %s, expected type %s%s%s", in->op, operand,
             pt_tensor_text(x, text, sizeof text), pt_dtype_name(t),
             a == t ? "" : " or ", a == t ? "" : pt_dtype_name(a));
    return PT_OK;
}

pt_status_t op_check_holds(const pt_checker_t *in, bool holds, const char *condition)
{
    PT_CHECK(holds, PT_INTERNAL, "%s: violated: %s", in->op, condition);
    return PT_OK;
}

pt_status_t op_check_dropout(const char *op, const pt_dropout_t *a, int64_t rows)
{
    const pt_checker_t in_ = {op, 0};
    HOLDS(a->p >= 0 && a->p < 1);
    if (a->p == 0)
        return PT_OK;
    DENSE(sample, PT_I64, rows);
    DENSE(place, PT_I32, rows);
    HOLDS(a->first_col >= 0 && a->layer >= 0 && a->layer < 1 << 24);
    HOLDS(a->site >= 0 && a->site < 256);
    return PT_OK;
}
