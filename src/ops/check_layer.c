/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of embedding, linear layers and norms. */
#include "src/ops/check.h"

CHECKS(embed_fwd)
{
    BEGIN(embed_fwd);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    SHAPE(table, a->y.dtype, ANY, a->y.shape[1]);
    SHAPE(index, PT_I32, a->y.shape[0]);
    return PT_OK;
}

CHECKS(embed_bwd)
{
    BEGIN(embed_bwd);
    FLOAT(dy);
    SHAPE(dy, a->dy.dtype, ANY, ANY);
    SHAPE_OF_SUM(dtable, a->dy.dtype, ANY, a->dy.shape[1]);
    SHAPE(index, PT_I32, a->dy.shape[0]);
    return PT_OK;
}

CHECKS(gemm)
{
    BEGIN(gemm);
    FLOAT(a);
    pt_dtype_t t = a->a.dtype;
    SHAPE_OF_SUM(c, t, ANY, ANY);
    int64_t rows = a->c.shape[0], cols = a->c.shape[1];
    int64_t depth = a->a.shape[a->trans_a ? 0 : 1];
    SHAPE(a, t, a->trans_a ? depth : rows, a->trans_a ? rows : depth);
    SHAPE(b, t, a->trans_b ? cols : depth, a->trans_b ? depth : cols);
    HOLDS(a->a.shape[0] < 2 || a->a.stride[0] >= a->a.shape[1]);
    HOLDS(a->b.shape[0] < 2 || a->b.stride[0] >= a->b.shape[1]);
    HOLDS(a->c.shape[0] < 2 || a->c.stride[0] >= a->c.shape[1]);
    return PT_OK;
}

CHECKS(bias_fwd)
{
    BEGIN(bias_fwd);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY);
    DENSE(bias, a->x.dtype, a->x.shape[1]);
    return PT_OK;
}

CHECKS(bias_bwd)
{
    BEGIN(bias_bwd);
    FLOAT(dy);
    SHAPE(dy, a->dy.dtype, ANY, ANY);
    DENSE_OF_SUM(dbias, a->dy.dtype, a->dy.shape[1]);
    return PT_OK;
}

/* mean and rstd are dense and have the shape of x without its last dimension. */
static pt_status_t check_stats(const pt_checker_t *in, const char *name,
                               const pt_tensor_t *stats, const pt_tensor_t *x)
{
    PT_TRY(op_check_operand(in, name, stats, pt_dtype_accumulator(x->dtype),
                            x->ndim - 1, x->shape));
    PT_TRY(op_check_dense(in, name, stats));
    return PT_OK;
}

static pt_status_t check_norm(const pt_checker_t *in, const pt_tensor_t *x,
                              const pt_tensor_t *mean, const pt_tensor_t *rstd,
                              pt_norm_t kind)
{
    if (x->ndim != 2 && x->ndim != 3)
        return op_check_fail(in, "x", x, "neither 2-D nor 3-D");
    PT_TRY(op_check_holds(in, kind == PT_NORM_LAYER || kind == PT_NORM_RMS,
                          "a known kind"));
    if (kind == PT_NORM_LAYER)
        PT_TRY(check_stats(in, "mean", mean, x));
    PT_TRY(check_stats(in, "rstd", rstd, x));
    return PT_OK;
}

CHECKS(norm_fwd)
{
    BEGIN(norm_fwd);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_norm(&in_, &a->x, &a->mean, &a->rstd, a->kind));
    LIKE(y, x);
    DENSE(weight, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    if (PRESENT(bias))
        DENSE(bias, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    HOLDS(a->eps >= 0);
    return PT_OK;
}

CHECKS(norm_bwd_input)
{
    BEGIN(norm_bwd_input);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_norm(&in_, &a->x, &a->mean, &a->rstd, a->kind));
    LIKE(dy, x);
    LIKE(dx, x);
    DENSE(weight, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    return PT_OK;
}

CHECKS(norm_bwd_weight)
{
    BEGIN(norm_bwd_weight);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_norm(&in_, &a->x, &a->mean, &a->rstd, a->kind));
    LIKE(dy, x);
    DENSE_OF_SUM(dweight, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    if (PRESENT(dbias)) {
        DENSE_OF_SUM(dbias, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    }
    return PT_OK;
}
