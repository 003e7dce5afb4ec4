/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of elementwise ops. */
#include "src/ops/check.h"

CHECKS(fill)
{
    BEGIN(fill);
    FLOAT(x);
    LIKE(x, x);
    return PT_OK;
}

CHECKS(cast)
{
    BEGIN(cast);
    FLOAT(x);
    FLOAT(y);
    LIKE(x, x);
    LIKE(y, y);
    PT_TRY(op_check_dense(&in_, "x", &a->x));
    PT_TRY(op_check_dense(&in_, "y", &a->y));
    HOLDS(pt_tensor_count(&a->x) == pt_tensor_count(&a->y));
    return PT_OK;
}

CHECKS(add)
{
    BEGIN(add);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    LIKE(a, y);
    LIKE(b, y);
    return PT_OK;
}

/* Width of x for an activation with `cols` columns of output. */
#define WIDE(kind, cols) ((kind) == PT_ACTIVATION_SWIGLU ? 2 * (cols) : (cols))

CHECKS(activation_fwd)
{
    BEGIN(activation_fwd);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    SHAPE(x, a->y.dtype, a->y.shape[0], WIDE(a->kind, a->y.shape[1]));
    if (PRESENT(bias))
        DENSE(bias, a->y.dtype, a->x.shape[1]);
    HOLDS(a->kind == PT_ACTIVATION_GELU || a->kind == PT_ACTIVATION_SWIGLU);
    return PT_OK;
}

CHECKS(activation_bwd)
{
    BEGIN(activation_bwd);
    FLOAT(dy);
    SHAPE(dy, a->dy.dtype, ANY, ANY);
    SHAPE(x, a->dy.dtype, a->dy.shape[0], WIDE(a->kind, a->dy.shape[1]));
    LIKE(dx, x);
    HOLDS(a->kind == PT_ACTIVATION_GELU || a->kind == PT_ACTIVATION_SWIGLU);
    return PT_OK;
}

CHECKS(residual)
{
    BEGIN(residual);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    LIKE(x, y);
    LIKE(branch, y);
    if (PRESENT(bias))
        DENSE(bias, a->y.dtype, a->y.shape[1]);
    PT_TRY(op_check_dropout(in_.op, &a->dropout, a->y.shape[0]));
    return PT_OK;
}

CHECKS(dropout)
{
    BEGIN(dropout);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    LIKE(x, y);
    PT_TRY(op_check_dropout(in_.op, &a->dropout, a->y.shape[0]));
    return PT_OK;
}
