/* y = x + dropout(out(activation(in(norm(x))))). */
#include "src/model/block.h"

enum {
    X = PT_TENSOR_INPUT,
    MEAN,
    RSTD,
    NORMED,
    HIDDEN, /* before the activation; gate | up */
    ACTIVE,
    DOUT, /* of the output of `out` */
    DACTIVE,
    DHIDDEN,
    DNORMED,
    DNORM,
    DNORM_BIAS
};

static void plan(const pt_model_t *model, pt_block_t *block)
{
    const pt_arch_t *arch = model->arch;
    int64_t wide = arch->activation == PT_ACTIVATION_SWIGLU ? 2 * arch->ffn : arch->ffn;

    pt_block_rows(model, block, X, PT_KEEP_INPUT, arch->hidden);
    pt_block_stats(model, block, RSTD, PT_KEEP_B, 0);
    pt_block_rows(model, block, NORMED, PT_KEEP_CHEAP, arch->hidden);
    pt_block_rows(model, block, HIDDEN, PT_KEEP_B, wide);
    pt_block_rows(model, block, ACTIVE, PT_KEEP_CHEAP, arch->ffn);
    pt_block_rows(model, block, DOUT, PT_KEEP_GRADIENT, arch->hidden);
    pt_block_rows(model, block, DACTIVE, PT_KEEP_NOTHING, arch->ffn);
    pt_block_rows(model, block, DHIDDEN, PT_KEEP_GRADIENT, wide);
    pt_block_rows(model, block, DNORMED, PT_KEEP_NOTHING, arch->hidden);
    pt_block_gradient(model, block, DNORM, PT_KEEP_GRADIENT, arch->hidden);
    if (arch->norm == PT_NORM_LAYER) {
        pt_block_stats(model, block, MEAN, PT_KEEP_B, 0);
        pt_block_gradient(model, block, DNORM_BIAS, PT_KEEP_GRADIENT, arch->hidden);
    }
}

static pt_norm_call_t norm(const pt_call_t *call)
{
    const pt_tensor_t *t = call->t;

    return (pt_norm_call_t){.kind = call->model->arch->norm,
                            .weight = PT_ROLE_FFN_NORM,
                            .bias = PT_ROLE_FFN_NORM_BIAS,
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

/* `bias` is added where HIDDEN is fresh from its product. */
static pt_status_t activate(const pt_call_t *call, pt_tensor_t bias)
{
    return pt_op_activation_fwd(
        call->model->device, call->stream,
        &(pt_op_activation_fwd_t){.x = call->t[HIDDEN],
                                  .y = call->t[ACTIVE],
                                  .kind = call->model->arch->activation,
                                  .bias = bias});
}

static pt_status_t forward(pt_call_t *call)
{
    const pt_tensor_t *t = call->t;
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_norm_forward(call, &before));
    PT_TRY(pt_linear_fwd(call, t[NORMED], pt_call_weight(call, PT_ROLE_FFN_IN),
                         (pt_tensor_t){0}, t[HIDDEN]));
    PT_TRY(activate(call, pt_call_weight(call, PT_ROLE_FFN_IN_BIAS)));
    if (!call->y.data)
        return PT_OK;
    PT_TRY(pt_linear_fwd(call, t[ACTIVE], pt_call_weight(call, PT_ROLE_FFN_OUT),
                         (pt_tensor_t){0}, call->y));
    return pt_op_residual(
        call->model->device, call->stream,
        &(pt_op_residual_t){.x = t[X],
                            .branch = call->y,
                            .y = call->y,
                            .dropout = pt_call_dropout(call, PT_DROPOUT_FFN_OUT),
                            .bias = pt_call_weight(call, PT_ROLE_FFN_OUT_BIAS)});
}

static pt_status_t remake(pt_call_t *call)
{
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_norm_forward(call, &before));
    return activate(call, (pt_tensor_t){0});
}

static pt_status_t backward_input(pt_call_t *call)
{
    const pt_tensor_t *t = call->t;
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_op_dropout(
        call->model->device, call->stream,
        &(pt_op_dropout_t){.x = call->dy,
                           .y = t[DOUT],
                           .dropout = pt_call_dropout(call, PT_DROPOUT_FFN_OUT)}));
    PT_TRY(pt_linear_bwd_input(call, t[DOUT], pt_call_weight(call, PT_ROLE_FFN_OUT),
                               t[DACTIVE]));
    PT_TRY(pt_op_activation_bwd(
        call->model->device, call->stream,
        &(pt_op_activation_bwd_t){.dy = t[DACTIVE],
                                  .x = t[HIDDEN],
                                  .dx = t[DHIDDEN],
                                  .kind = call->model->arch->activation}));
    PT_TRY(pt_linear_bwd_input(call, t[DHIDDEN], pt_call_weight(call, PT_ROLE_FFN_IN),
                               t[DNORMED]));
    return pt_norm_backward_input(call, &before);
}

static pt_status_t backward_weight(pt_call_t *call)
{
    const pt_tensor_t *t = call->t;
    pt_norm_call_t before = norm(call);

    PT_TRY(pt_linear_bwd_weight(call, t[DOUT], t[ACTIVE],
                                pt_call_grad(call, PT_ROLE_FFN_OUT),
                                pt_call_grad(call, PT_ROLE_FFN_OUT_BIAS)));
    PT_TRY(pt_linear_bwd_weight(call, t[DHIDDEN], t[NORMED],
                                pt_call_grad(call, PT_ROLE_FFN_IN),
                                pt_call_grad(call, PT_ROLE_FFN_IN_BIAS)));
    return pt_norm_backward_weight(call, &before);
}

const pt_block_ops_t pt_ffn_block = {.name = "ffn",
                                     .plan = plan,
                                     .forward = forward,
                                     .remake = remake,
                                     .backward_input = backward_input,
                                     .backward_weight = backward_weight};
