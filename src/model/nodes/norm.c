/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, of rows and of heads. */
#include "src/model/block.h"

pt_status_t pt_norm_forward(const pt_call_t *call, const pt_norm_args_t *norm)
{
    return pt_op_norm_fwd(
        call->model->device, call->stream,
        &(pt_op_norm_fwd_t){.x = norm->x,
                            .weight = pt_call_weight(call, norm->weight),
                            .bias = pt_call_weight(call, norm->bias),
                            .y = norm->y,
                            .mean = norm->mean,
                            .rstd = norm->rstd,
                            .kind = norm->kind,
                            .eps = call->model->arch->norm_eps});
}

pt_status_t pt_norm_input(const pt_call_t *call, const pt_norm_args_t *norm)
{
    PT_TRY(pt_call_clear(call, norm->dweight));
    if (norm->dbias.ndim > 0)
        PT_TRY(pt_call_clear(call, norm->dbias));
    PT_TRY(pt_op_norm_bwd_weight(call->model->device, call->stream,
                                 &(pt_op_norm_bwd_weight_t){.dy = norm->dy,
                                                            .x = norm->x,
                                                            .mean = norm->mean,
                                                            .rstd = norm->rstd,
                                                            .dweight = norm->dweight,
                                                            .dbias = norm->dbias,
                                                            .kind = norm->kind}));
    return pt_op_norm_bwd_input(
        call->model->device, call->stream,
        &(pt_op_norm_bwd_input_t){.dy = norm->dy,
                                  .x = norm->x,
                                  .weight = pt_call_weight(call, norm->weight),
                                  .mean = norm->mean,
                                  .rstd = norm->rstd,
                                  .dx = norm->dx,
                                  .kind = norm->kind,
                                  .accumulate = norm->accumulate});
}

static pt_tensor_t norm_as_row(pt_tensor_t x)
{
    return pt_tensor_2d(x.data, x.dtype, x.memory, 1, x.shape[0]);
}

static pt_status_t norm_add_part(const pt_call_t *call, pt_role_t role, pt_tensor_t part)
{
    pt_tensor_t sum;

    if (part.ndim == 0)
        return PT_OK;
    sum = norm_as_row(pt_call_grad(call, role));
    return pt_op_add(call->model->device, call->stream,
                     &(pt_op_add_t){.a = sum, .b = norm_as_row(part), .y = sum});
}

pt_status_t pt_norm_weight(const pt_call_t *call, const pt_norm_args_t *norm)
{
    PT_TRY(norm_add_part(call, norm->weight, norm->dweight));
    return norm_add_part(call, norm->bias, norm->dbias);
}

/* ---- the nodes ---- */

static pt_norm_args_t norm_args(const pt_call_t *call, const pt_node_t *node)
{
    return (pt_norm_args_t){.kind = node->norm,
                            .weight = node->role[0],
                            .bias = node->role[1],
                            .x = pt_call_operand(call, node, PT_X),
                            .y = pt_call_operand(call, node, PT_Y),
                            .rstd = pt_call_operand(call, node, PT_AUX),
                            .mean = pt_call_operand(call, node, PT_AUX2),
                            .dy = pt_call_operand(call, node, PT_DY),
                            .dx = pt_call_operand(call, node, PT_DX),
                            .dweight = pt_call_operand(call, node, PT_AUX3),
                            .dbias = pt_call_operand(call, node, PT_AUX4),
                            .accumulate = node->accumulate};
}

static pt_status_t norm_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args = norm_args(call, node);

    return pt_norm_forward(call, &args);
}

static pt_status_t norm_input(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args = norm_args(call, node);

    return pt_norm_input(call, &args);
}

static pt_status_t norm_weight(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args = norm_args(call, node);

    return pt_norm_weight(call, &args);
}

/* A norm sees whole rows; that of heads whole heads. */
static pt_status_t norm_placement(pt_program_t *program, const pt_node_t *node,
                                  pt_axis_t axis)
{
    int last = program->tensor[node->operand[PT_X]].shape.ndim - 1;

    PT_TRY(pt_program_expect_whole(program, node, PT_X, axis, last));
    pt_program_set_placement(program, node->operand[PT_Y], axis,
                             pt_program_placement(program, node->operand[PT_X], axis));
    return PT_OK;
}

#define STATISTICS (PT_USE(AUX) | PT_USE(AUX2))
#define PARTS      (PT_USE(AUX3) | PT_USE(AUX4))
#define NORM_PASSES                                                                    \
    {                                                                                  \
        {PT_USE(X), PT_USE(Y) | STATISTICS, norm_forward, NULL},                       \
            {PT_USE(X) | STATISTICS | PT_USE(DY), PT_USE(DX) | PARTS, norm_input,      \
             NULL},                                                                    \
            {PARTS, 0, norm_weight, NULL},                                             \
    }

static const pt_node_kind_t norm_node = {.name = "norm",
                                         .pass = NORM_PASSES,
                                         .replay = PT_REPLAY_SELECTIVE,
                                         .adds = true,
                                         .placement = norm_placement};
static const pt_node_kind_t head_norm_node = {.name = "head norm",
                                              .pass = NORM_PASSES,
                                              .gradient = {PT_GRADIENT_IN_PLACE},
                                              .placement = norm_placement};

void pt_add_norm(pt_program_t *program, int x, int y, pt_role_t weight, pt_role_t bias)
{
    const pt_program_context_t *context = &program->context;
    pt_dtype_t grad = pt_units_grad_dtype(context->units);
    int64_t cols = program->tensor[x].shape.shape[1];
    pt_node_t node = {.kind = &norm_node,
                      .norm = context->arch->norm,
                      .role = {weight, bias},
                      .operand = {[PT_X] = x, [PT_Y] = y}};

    node.operand[PT_AUX] = pt_program_stats(program, "1/deviation", 0);
    node.operand[PT_AUX3] = pt_program_vector(program, "part of dweight", grad, cols);
    if (node.norm == PT_NORM_LAYER) {
        node.operand[PT_AUX2] = pt_program_stats(program, "mean", 0);
        node.operand[PT_AUX4] = pt_program_vector(program, "part of dbias", grad, cols);
    }
    pt_program_add(program, &node);
}

void pt_add_head_norm(pt_program_t *program, int x, int y, pt_role_t weight)
{
    pt_dtype_t grad = pt_units_grad_dtype(program->context.units);
    const pt_tensor_t *shape = &program->tensor[x].shape;
    pt_node_t node = {.kind = &head_norm_node,
                      .norm = PT_NORM_RMS,
                      .role = {weight},
                      .operand = {[PT_X] = x, [PT_Y] = y}};

    node.operand[PT_AUX] =
        pt_program_stats(program, "1/deviation of heads", shape->shape[1]);
    node.operand[PT_AUX3] =
        pt_program_vector(program, "part of dweight of heads", grad, shape->shape[2]);
    pt_program_add(program, &node);
}
