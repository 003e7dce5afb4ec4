/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of attention and of the rotary position embedding. */
#include "src/ops/check.h"

CHECKS(rotary)
{
    BEGIN(rotary);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY, ANY);
    DENSE(position, PT_I32, a->x.shape[0]);
    DENSE(cos, pt_dtype_accumulator(a->x.dtype), ANY, ANY);
    LIKE(sin, cos);
    PT_TRY(op_check_dense(&in_, "sin", &a->sin));
    HOLDS(2 * a->cos.shape[1] <= a->x.shape[2]);
    return PT_OK;
}

static pt_status_t check_seen(const char *op, const pt_attention_shape_t *a,
                              int64_t queries, int64_t keys)
{
    const pt_checker_t in_ = {op, 0};
    HOLDS(a->sequences >= 1 && queries % a->sequences == 0 && keys % a->sequences == 0);
    HOLDS(a->kv_offset >= 0 && a->first_head >= 0);
    DENSE(q_position, PT_I32, queries);
    DENSE(k_position, PT_I32, keys);
    HOLDS(PRESENT(q_document) == PRESENT(k_document));
    if (PRESENT(q_document)) {
        DENSE(q_document, PT_I32, queries);
        DENSE(k_document, PT_I32, keys);
    }
    return PT_OK;
}

/* What both passes have. */
static pt_status_t check_attention(pt_checker_t in_, const pt_op_attention_fwd_t *a)
{
    pt_dtype_t t = a->q.dtype;

    FLOAT(q);
    SHAPE(q, t, ANY, ANY, ANY);
    SHAPE(k, t, ANY, ANY, a->q.shape[2]);
    SHAPE(v, t, a->k.shape[0], a->k.shape[1], ANY);
    SHAPE_OF_SUM(o, t, a->q.shape[0], a->q.shape[1], a->v.shape[2]);
    DENSE(lse, pt_dtype_accumulator(t), a->q.shape[0], a->q.shape[1]);
    HOLDS(a->k.shape[1] >= 1 && a->q.shape[1] % a->k.shape[1] == 0);
    PT_TRY(check_seen(in_.op, &a->shape, a->q.shape[0], a->k.shape[0]));
    return op_check_dropout(in_.op, &a->dropout, a->q.shape[0]);
}

CHECKS(attention_fwd)
{
    BEGIN(attention_fwd);

    return check_attention(in_, a);
}

CHECKS(attention_bwd)
{
    BEGIN(attention_bwd);
    pt_dtype_t t = a->q.dtype;
    pt_op_attention_fwd_t forward = {.q = a->q,
                                     .k = a->k,
                                     .v = a->v,
                                     .o = a->o,
                                     .lse = a->lse,
                                     .shape = a->shape,
                                     .dropout = a->dropout};

    PT_TRY(check_attention(in_, &forward));
    SHAPE(do_, t, a->q.shape[0], a->q.shape[1], a->v.shape[2]);
    SHAPE_OF_SUM(dq, t, a->q.shape[0], a->q.shape[1], a->q.shape[2]);
    SHAPE_OF_SUM(dk, t, a->k.shape[0], a->k.shape[1], a->k.shape[2]);
    SHAPE(dv, a->dk.dtype, a->v.shape[0], a->v.shape[1], a->v.shape[2]);
    return PT_OK;
}
