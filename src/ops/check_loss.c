/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the loss and its gradient. */
#include "src/ops/check.h"

CHECKS(softmax_stats)
{
    BEGIN(softmax_stats);
    FLOAT(logits);
    SHAPE(logits, a->logits.dtype, ANY, ANY);
    pt_dtype_t stats = pt_dtype_accumulator(a->logits.dtype);
    DENSE(label, PT_I32, a->logits.shape[0]);
    DENSE(maximum, stats, a->logits.shape[0]);
    DENSE(sum, stats, a->logits.shape[0]);
    DENSE(target, stats, a->logits.shape[0]);
    HOLDS(a->first_col >= 0 && a->vocab >= 0);
    return PT_OK;
}

CHECKS(cross_entropy_fwd)
{
    BEGIN(cross_entropy_fwd);
    FLOAT(loss);
    DENSE(loss, a->loss.dtype, ANY);
    DENSE(maximum, a->loss.dtype, a->loss.shape[0]);
    DENSE(sum, a->loss.dtype, a->loss.shape[0]);
    DENSE(target, a->loss.dtype, a->loss.shape[0]);
    DENSE(mask, PT_U8, a->loss.shape[0]);
    return PT_OK;
}

CHECKS(cross_entropy_bwd)
{
    BEGIN(cross_entropy_bwd);
    FLOAT(logits);
    SHAPE(logits, a->logits.dtype, ANY, ANY);
    pt_dtype_t stats = pt_dtype_accumulator(a->logits.dtype);
    DENSE(label, PT_I32, a->logits.shape[0]);
    DENSE(mask, PT_U8, a->logits.shape[0]);
    DENSE(maximum, stats, a->logits.shape[0]);
    DENSE(sum, stats, a->logits.shape[0]);
    HOLDS(a->first_col >= 0 && a->vocab >= 0);
    return PT_OK;
}
