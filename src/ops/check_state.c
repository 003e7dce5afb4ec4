/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of ops on flat weights and gradients: initial values, sums, the optimizer,
 * digests. */
#include "penta/base/sum.h"
#include "src/ops/check.h"

CHECKS(normal)
{
    BEGIN(normal);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY);
    return PT_OK;
}

CHECKS(ordered_sum)
{
    BEGIN(ordered_sum);
    FLOAT(src);
    FLOAT(dst);
    DENSE(dst, a->dst.dtype, ANY);
    DENSE(src, a->src.dtype, ANY, a->dst.shape[0]);
    pt_dtype_t wide = pt_dtype_accumulator(a->dst.dtype);
    if (a->dst.dtype != wide) {
        PT_TRY(op_check_either(&in_, "src", &a->src, a->dst.dtype));
    } else {
        HOLDS(pt_dtype_size(a->src.dtype) <= pt_dtype_size(a->dst.dtype));
    }
    return PT_OK;
}

CHECKS(sum)
{
    BEGIN(sum);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(op_check_dense(&in_, "x", &a->x));
    DENSE(accumulator, PT_I64, PT_SUM_WORDS);
    return PT_OK;
}

CHECKS(sum_squares)
{
    return pt_check_sum(a, dtypes_);
}

CHECKS(adamw)
{
    BEGIN(adamw);
    FLOAT(grad);
    pt_dtype_t t = a->grad.dtype;
    if (PRESENT(compute)) {
        FLOAT(compute);
        t = a->compute.dtype;
        DENSE(compute, t, a->weight.shape[0]);
    }
    DENSE(weight, pt_dtype_accumulator(t), ANY);
    DENSE_OF_SUM(grad, t, a->weight.shape[0]);
    pt_dtype_t moments = t == PT_BF16 ? PT_BF16 : pt_dtype_accumulator(t);
    DENSE_OF_SUM(exp_avg, moments, a->weight.shape[0]);
    DENSE(exp_avg_sq, a->exp_avg.dtype, a->weight.shape[0]);
    HOLDS(a->t >= 1);
    return PT_OK;
}

CHECKS(digest)
{
    BEGIN(digest);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY);
    DENSE(accumulator, PT_I64, 1);
    return PT_OK;
}
