/* Activations and the ends of residual branches; each adds the bias of the linear layer before it, which it reads
 * anyway. */
#include "src/model/block.h"

/* ---- activation ---- */

/* x keeps the bias, so a replay finds it there. */
static pt_status_t activate_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_op_activation_fwd_t args = {.x = pt_call_operand(call, node, PT_X),
                                   .y = pt_call_operand(call, node, PT_Y),
                                   .kind = call->model->arch->activation};

    if (!call->replay)
        args.bias = pt_call_weight(call, node->role[0]);
    return pt_op_activation_fwd(call->model->device, call->stream, &args);
}

static pt_status_t activate_input(const pt_call_t *call, const pt_node_t *node)
{
    return pt_op_activation_bwd(
        call->model->device, call->stream,
        &(pt_op_activation_bwd_t){.dy = pt_call_operand(call, node, PT_DY),
                                  .x = pt_call_operand(call, node, PT_X),
                                  .dx = pt_call_operand(call, node, PT_DX),
                                  .kind = call->model->arch->activation});
}

/* The bias was added to x, so it has x's gradient: of activations and of branches. */
static pt_status_t bias_weight(const pt_call_t *call, const pt_node_t *node)
{
    return pt_bias_weight(call, pt_call_operand(call, node, PT_DX), node->role[0]);
}

const pt_node_kind_t pt_activate_node = {
    .name = "activate",
    .pass = {{PT_USE(X), PT_USE(X) | PT_USE(Y), activate_forward},
             {PT_USE(X) | PT_USE(DY), PT_USE(DX), activate_input},
             {PT_USE(DX), 0, bias_weight}},
    .cheap = true};

void pt_add_activate(pt_program_t *program, int x, int y, pt_role_t bias)
{
    pt_program_node(program, &(pt_node_t){.kind = &pt_activate_node,
                                          .operand = PT_OPERANDS_XY(x, y),
                                          .role = {bias, PT_ROLE_COUNT}});
}

/* ---- residual ---- */

static pt_status_t residual_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_tensor_t y = pt_call_operand(call, node, PT_Y);

    return pt_op_residual(
        call->model->device, call->stream,
        &(pt_op_residual_t){.x = pt_call_operand(call, node, PT_X2),
                            .branch = y,
                            .y = y,
                            .dropout = pt_call_dropout(call, node->dropout),
                            .bias = pt_call_weight(call, node->role[0])});
}

static pt_status_t residual_input(const pt_call_t *call, const pt_node_t *node)
{
    return pt_op_dropout(
        call->model->device, call->stream,
        &(pt_op_dropout_t){.x = pt_call_operand(call, node, PT_DY),
                           .y = pt_call_operand(call, node, PT_DX),
                           .dropout = pt_call_dropout(call, node->dropout)});
}

const pt_node_kind_t pt_residual_node = {
    .name = "residual",
    .pass = {{PT_USE(X) | PT_USE(X2), PT_USE(Y), residual_forward},
             {PT_USE(DY), PT_USE(DX), residual_input},
             {PT_USE(DX), 0, bias_weight}},
    .past = true};

void pt_add_residual(pt_program_t *program, int past, int branch, int y, pt_role_t bias,
                     pt_dropout_site_t site)
{
    pt_node_t node = {.kind = &pt_residual_node,
                      .operand = PT_OPERANDS_XY(branch, y),
                      .role = {bias, PT_ROLE_COUNT},
                      .dropout = site};

    node.operand[PT_X2] = past;
    pt_program_share(program, branch, y);
    pt_program_node(program, &node);
}
