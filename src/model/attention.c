/* y = x + dropout(out(attention(q, k, v))), with q, k, v = qkv(norm(x)), q and k
 * normalised per head when the model says so, then turned by their positions. */
#include "src/model/block.h"

#include <math.h>

enum {
    X = PT_TENSOR_INPUT,
    MEAN,
    RSTD,
    NORMED,
    QKV, /* q | k | v of the linear layer; without q_norm, q and k turned in place */
    QK,  /* q | k normalised and turned; only with q_norm */
    Q_RSTD,
    K_RSTD,
    O,
    LSE,
    DOUT, /* of the output of `out` */
    DO,
    DQKV,
    DNORMED,
    DNORM,
    DNORM_BIAS,
    DQ_NORM,
    DK_NORM
};

typedef struct heads {
    pt_tensor_t q, k, v; /* [n,H,D], [n,K,D], [n,K,D] */
} heads_t;

static void plan(const pt_model_t *model, pt_block_t *block)
{
    const pt_arch_t *arch = model->arch;
    int64_t q = arch->heads * arch->head_dim, kv = arch->kv_heads * arch->head_dim;

    pt_block_rows(model, block, X, PT_KEEP_INPUT, arch->hidden);
    pt_block_stats(model, block, RSTD, PT_KEEP_B, 0);
    pt_block_rows(model, block, NORMED, PT_KEEP_CHEAP, arch->hidden);
    pt_block_rows(model, block, QKV, PT_KEEP_B, q + 2 * kv);
    pt_block_rows(model, block, O, PT_KEEP_W, q);
    pt_block_stats(model, block, LSE, PT_KEEP_B, arch->heads);
    pt_block_rows(model, block, DOUT, PT_KEEP_GRADIENT, arch->hidden);
    pt_block_rows(model, block, DO, PT_KEEP_NOTHING, q);
    pt_block_rows(model, block, DQKV, PT_KEEP_GRADIENT, q + 2 * kv);
    pt_block_rows(model, block, DNORMED, PT_KEEP_NOTHING, arch->hidden);
    pt_block_gradient(model, block, DNORM, PT_KEEP_GRADIENT, arch->hidden);
    if (arch->norm == PT_NORM_LAYER) {
        pt_block_stats(model, block, MEAN, PT_KEEP_B, 0);
        pt_block_gradient(model, block, DNORM_BIAS, PT_KEEP_GRADIENT, arch->hidden);
    }
    if (arch->qk_norm) {
        pt_block_rows(model, block, QK, PT_KEEP_B, q + kv);
        pt_block_stats(model, block, Q_RSTD, PT_KEEP_B, arch->heads);
        pt_block_stats(model, block, K_RSTD, PT_KEEP_B, arch->kv_heads);
        pt_block_gradient(model, block, DQ_NORM, PT_KEEP_GRADIENT, arch->head_dim);
        pt_block_gradient(model, block, DK_NORM, PT_KEEP_GRADIENT, arch->head_dim);
    }
}

static pt_norm_call_t norm(const pt_call_t *call)
{
    const pt_tensor_t *t = call->t;

    return (pt_norm_call_t){.kind = call->model->arch->norm,
                            .weight = PT_ROLE_ATTENTION_NORM,
                            .bias = PT_ROLE_ATTENTION_NORM_BIAS,
                            .x = t[X],
                            .y = t[NORMED],
                            .mean = t[MEAN],
                            .rstd = t[RSTD],
                            .dy = t[DNORMED],
                            .dx = call->dy,
                            .dweight = t[DNORM],
                            .dbias = t[DNORM_BIAS],
                            .accumulate = true};
}

static pt_tensor_t view(pt_tensor_t x, int64_t first_head, int64_t heads, int64_t width)
{
    return pt_tensor_split_last(
        pt_tensor_slice(x, 1, first_head * width, heads * width), heads);
}

/* q | k | v side by side. */
static heads_t split(const pt_arch_t *arch, pt_tensor_t x)
{
    int64_t h = arch->heads, k = arch->kv_heads, d = arch->head_dim;

    return (heads_t){view(x, 0, h, d), view(x, h, k, d), view(x, h + k, k, d)};
}

/* What attention sees. */
static heads_t attended(const pt_call_t *call)
{
    const pt_arch_t *arch = call->model->arch;
    heads_t heads = split(arch, call->t[QKV]);

    if (arch->qk_norm) {
        heads.q = view(call->t[QK], 0, arch->heads, arch->head_dim);
        heads.k = view(call->t[QK], arch->heads, arch->kv_heads, arch->head_dim);
    }
    return heads;
}

/* The norms of q and k; their gradients are turned into those of raw q and k in
 * place. */
static void head_norms(const pt_call_t *call, pt_norm_call_t *q, pt_norm_call_t *k)
{
    const pt_arch_t *arch = call->model->arch;
    heads_t raw = split(arch, call->t[QKV]), made = attended(call);
    heads_t gradient = split(arch, call->t[DQKV]);

    *q = (pt_norm_call_t){.kind = PT_NORM_RMS,
                          .weight = PT_ROLE_Q_NORM,
                          .bias = PT_ROLE_COUNT,
                          .x = raw.q,
                          .y = made.q,
                          .rstd = call->t[Q_RSTD],
                          .dy = gradient.q,
                          .dx = gradient.q,
                          .dweight = call->t[DQ_NORM]};
    *k = (pt_norm_call_t){.kind = PT_NORM_RMS,
                          .weight = PT_ROLE_K_NORM,
                          .bias = PT_ROLE_COUNT,
                          .x = raw.k,
                          .y = made.k,
                          .rstd = call->t[K_RSTD],
                          .dy = gradient.k,
                          .dx = gradient.k,
                          .dweight = call->t[DK_NORM]};
}

/* Turns q and k by their positions, or back. */
static pt_status_t rotate(const pt_call_t *call, const heads_t *heads, bool inverse)
{
    const pt_model_t *model = call->model;
    pt_op_rotary_t args = {.position = call->batch->position,
                           .cos = model->cos,
                           .sin = model->sin,
                           .inverse = inverse};

    if (pt_rotary_columns(model->arch) == 0)
        return PT_OK;
    args.x = heads->q;
    PT_TRY(pt_op_rotary(model->device, call->stream, &args));
    args.x = heads->k;
    return pt_op_rotary(model->device, call->stream, &args);
}

static pt_attention_shape_t shape(const pt_call_t *call)
{
    const pt_batch_view_t *batch = call->batch;
    pt_attention_shape_t shape = {.sequences = batch->sequences,
                                  .scale = 1 / sqrt((double)call->model->arch->head_dim),
                                  .q_position = batch->place,
                                  .k_position = batch->place};

    if (batch->document.data)
        shape.q_document = shape.k_document = batch->document;
    return shape;
}

static pt_status_t attend(const pt_call_t *call)
{
    const pt_arch_t *arch = call->model->arch;
    heads_t heads = attended(call);

    if (arch->qk_norm) {
        pt_norm_call_t q, k;

        head_norms(call, &q, &k);
        PT_TRY(pt_norm_forward(call, &q));
        PT_TRY(pt_norm_forward(call, &k));
    }
    PT_TRY(rotate(call, &heads, false));
    pt_op_attention_fwd_t args = {.q = heads.q,
                                  .k = heads.k,
                                  .v = heads.v,
                                  .o = view(call->t[O], 0, arch->heads, arch->head_dim),
                                  .lse = call->t[LSE],
                                  .shape = shape(call),
                                  .dropout =
                                      pt_call_dropout(call, PT_DROPOUT_ATTENTION)};
    if (call->decode)
        return pt_cache_attend(call, &args);
    return pt_op_attention_fwd(call->model->device, call->stream, &args);
}

static pt_status_t forward(pt_call_t *call)
{
    const pt_tensor_t *t = call->t;
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_norm_forward(call, &before));
    PT_TRY(pt_linear_fwd(call, t[NORMED], pt_call_weight(call, PT_ROLE_QKV),
                         pt_call_weight(call, PT_ROLE_QKV_BIAS), t[QKV]));
    PT_TRY(attend(call));
    PT_TRY(pt_comm_progress(call->model->engine));
    if (!call->y.data)
        return PT_OK;
    PT_TRY(pt_linear_fwd(call, t[O], pt_call_weight(call, PT_ROLE_ATTENTION_OUT),
                         (pt_tensor_t){0}, call->y));
    return pt_op_residual(
        call->model->device, call->stream,
        &(pt_op_residual_t){.x = t[X],
                            .branch = call->y,
                            .y = call->y,
                            .dropout = pt_call_dropout(call, PT_DROPOUT_ATTENTION_OUT),
                            .bias = pt_call_weight(call, PT_ROLE_ATTENTION_OUT_BIAS)});
}

static pt_status_t remake(pt_call_t *call)
{
    pt_norm_call_t before = norm(call);

    return pt_norm_forward(call, &before);
}

static pt_status_t attend_backward(const pt_call_t *call)
{
    const pt_arch_t *arch = call->model->arch;
    heads_t heads = attended(call), gradient = split(arch, call->t[DQKV]);

    PT_TRY(pt_op_attention_bwd(
        call->model->device, call->stream,
        &(pt_op_attention_bwd_t){
            .q = heads.q,
            .k = heads.k,
            .v = heads.v,
            .o = view(call->t[O], 0, arch->heads, arch->head_dim),
            .lse = call->t[LSE],
            .do_ = view(call->t[DO], 0, arch->heads, arch->head_dim),
            .dq = gradient.q,
            .dk = gradient.k,
            .dv = gradient.v,
            .shape = shape(call),
            .dropout = pt_call_dropout(call, PT_DROPOUT_ATTENTION)}));
    PT_TRY(rotate(call, &gradient, true));
    if (arch->qk_norm) {
        pt_norm_call_t q, k;

        head_norms(call, &q, &k);
        PT_TRY(pt_norm_backward_input(call, &q));
        PT_TRY(pt_norm_backward_input(call, &k));
    }
    return pt_comm_progress(call->model->engine);
}

static pt_status_t backward_input(pt_call_t *call)
{
    const pt_tensor_t *t = call->t;
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_op_dropout(
        call->model->device, call->stream,
        &(pt_op_dropout_t){.x = call->dy,
                           .y = t[DOUT],
                           .dropout = pt_call_dropout(call, PT_DROPOUT_ATTENTION_OUT)}));
    PT_TRY(pt_linear_bwd_input(call, t[DOUT],
                               pt_call_weight(call, PT_ROLE_ATTENTION_OUT), t[DO]));
    PT_TRY(attend_backward(call));
    PT_TRY(pt_linear_bwd_input(call, t[DQKV], pt_call_weight(call, PT_ROLE_QKV),
                               t[DNORMED]));
    return pt_norm_backward_input(call, &before);
}

static pt_status_t backward_weight(pt_call_t *call)
{
    const pt_tensor_t *t = call->t;
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_linear_bwd_weight(call, t[DOUT], t[O],
                                pt_call_grad(call, PT_ROLE_ATTENTION_OUT),
                                pt_call_grad(call, PT_ROLE_ATTENTION_OUT_BIAS)));
    PT_TRY(pt_linear_bwd_weight(call, t[DQKV], t[NORMED],
                                pt_call_grad(call, PT_ROLE_QKV),
                                pt_call_grad(call, PT_ROLE_QKV_BIAS)));
    if (call->model->arch->qk_norm) {
        pt_norm_call_t q, k;

        head_norms(call, &q, &k);
        PT_TRY(pt_norm_backward_weight(call, &q));
        PT_TRY(pt_norm_backward_weight(call, &k));
    }
    return pt_norm_backward_weight(call, &before);
}

const pt_block_ops_t pt_attention_block = {.name = "attention",
                                           .plan = plan,
                                           .forward = forward,
                                           .remake = remake,
                                           .backward_input = backward_input,
                                           .backward_weight = backward_weight};
