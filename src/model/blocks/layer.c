/* SPDX-License-Identifier: Apache-2.0 */
/* The two blocks of a layer, as tables of nodes. */
#include "src/model/program.h"

/* y = x + dropout(out(attention(q, k, v))), with q, k, v = qkv(norm(x)), q and k
 * normalised per head when the model says so, then turned by their positions. */
void pt_describe_attention(pt_program_t *p)
{
    int64_t hidden = p->context.arch->hidden, width = p->context.arch->head_dim;
    int64_t all = pt_program_size(p, PT_ROLE_QKV, 0);
    int64_t h = pt_program_size(p, PT_ROLE_ATTENTION_OUT, 1), kv = (all - h) / 2;
    int normed = pt_program_rows(p, "normed", hidden);
    int qkv = pt_program_rows(p, "qkv", all), o = pt_program_rows(p, "o", h);
    int q = pt_program_view(p, "q", qkv, 0, h, h / width);
    int k = pt_program_view(p, "k", qkv, h, kv, kv / width);
    int v = pt_program_view(p, "v", qkv, h + kv, kv, kv / width);
    int branch = pt_program_rows(p, "branch", hidden);

    pt_add_norm(p, PT_TENSOR_X, normed, PT_ROLE_ATTENTION_NORM,
                PT_ROLE_ATTENTION_NORM_BIAS);
    pt_add_linear(p, normed, qkv, PT_ROLE_QKV, PT_ROLE_QKV_BIAS);
    if (p->context.arch->qk_norm) {
        int qk = pt_program_rows(p, "normed q|k", h + kv), raw_q = q, raw_k = k;
        q = pt_program_view(p, "normed q", qk, 0, h, h / width);
        k = pt_program_view(p, "normed k", qk, h, kv, kv / width);
        pt_add_head_norm(p, raw_q, q, PT_ROLE_Q_NORM);
        pt_add_head_norm(p, raw_k, k, PT_ROLE_K_NORM);
    }
    pt_add_rotary(p, q);
    pt_add_rotary(p, k);
    pt_add_attend(p, q, k, v, pt_program_view(p, "o by heads", o, 0, h, h / width));
    pt_add_linear(p, o, branch, PT_ROLE_ATTENTION_OUT, PT_ROLE_NONE);
    pt_add_residual(p, PT_TENSOR_X, branch, PT_TENSOR_Y, PT_ROLE_ATTENTION_OUT_BIAS,
                    PT_DROPOUT_ATTENTION_OUT);
}

/* y = x + dropout(out(activation(in(norm(x))))); `in` is gate | up with SwiGLU. */
void pt_describe_ffn(pt_program_t *p)
{
    int64_t hidden = p->context.arch->hidden;
    int normed = pt_program_rows(p, "normed", hidden);
    int wide = pt_program_rows(p, "wide", pt_program_size(p, PT_ROLE_FFN_IN, 0));
    int active = pt_program_rows(p, "active", pt_program_size(p, PT_ROLE_FFN_OUT, 1));
    int branch = pt_program_rows(p, "branch", hidden);

    pt_add_norm(p, PT_TENSOR_X, normed, PT_ROLE_FFN_NORM, PT_ROLE_FFN_NORM_BIAS);
    pt_add_linear(p, normed, wide, PT_ROLE_FFN_IN, PT_ROLE_NONE);
    pt_add_activate(p, wide, active, PT_ROLE_FFN_IN_BIAS);
    pt_add_linear(p, active, branch, PT_ROLE_FFN_OUT, PT_ROLE_NONE);
    pt_add_residual(p, PT_TENSOR_X, branch, PT_TENSOR_Y, PT_ROLE_FFN_OUT_BIAS,
                    PT_DROPOUT_FFN_OUT);
}
