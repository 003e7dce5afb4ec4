/* SPDX-License-Identifier: Apache-2.0 */
/* Activations and the ends of residual branches. Each also adds the bias of the linear layer before it, whose output
 * it reads anyway. */
#include "src/model/block.h"

/* ---- activation ---- */

/* The bias was added to x in place, so a recomputation must not add it again. */
static pt_status_t activate_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_op_activation_fwd_t args = {.x = pt_call_operand(call, node, PT_X),
                                   .y = pt_call_operand(call, node, PT_Y),
                                   .kind = call->model->arch->activation};

    if (!call->again)
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

/* The bias was added to x and has its gradient; used by activations and residuals. */
static pt_status_t activate_bias_weight(const pt_call_t *call, const pt_node_t *node)
{
    return pt_bias_weight(call, pt_call_operand(call, node, PT_DX), node->role[0]);
}

static const pt_node_kind_t activate_node = {
    .name = "activate",
    .pass = {{PT_USE(X), PT_USE(X) | PT_USE(Y), activate_forward, NULL},
             {PT_USE(X) | PT_USE(DY), PT_USE(DX), activate_input, NULL},
             {PT_USE(DX), 0, activate_bias_weight, NULL}},
    .replay = PT_REPLAY_SELECTIVE};

void pt_add_activate(pt_program_t *program, int x, int y, pt_role_t bias)
{
    pt_program_add(program, &(pt_node_t){.kind = &activate_node,
                                         .operand = {[PT_X] = x, [PT_Y] = y},
                                         .role = {bias}});
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

static const pt_node_kind_t residual_node = {
    .name = "residual",
    .pass = {{PT_USE(X) | PT_USE(X2), PT_USE(Y), residual_forward, NULL},
             {PT_USE(DY), PT_USE(DX), residual_input, NULL},
             {PT_USE(DX), 0, activate_bias_weight, NULL}},
    .gradient = {PT_GRADIENT_OWN, PT_GRADIENT_IS_DY}};

void pt_add_residual(pt_program_t *program, int past, int branch, int y, pt_role_t bias,
                     pt_dropout_site_t site)
{
    pt_program_share(program, branch, y);
    pt_program_add(
        program, &(pt_node_t){.kind = &residual_node,
                              .operand = {[PT_X] = branch, [PT_X2] = past, [PT_Y] = y},
                              .role = {bias},
                              .dropout = site});
}
