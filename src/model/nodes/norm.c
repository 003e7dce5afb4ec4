/* Norms: of rows, and of each head's queries and keys. */
#include "src/model/block.h"
#include "src/model/nodes/heads.h"

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

static pt_tensor_t as_row(pt_tensor_t x)
{
    return pt_tensor_2d(x.data, x.dtype, x.memory, 1, x.shape[0]);
}

static pt_status_t add_part(const pt_call_t *call, pt_role_t role, pt_tensor_t part)
{
    pt_tensor_t sum;

    if (part.ndim == 0)
        return PT_OK;
    sum = as_row(pt_call_grad(call, role));
    return pt_op_add(call->model->device, call->stream,
                     &(pt_op_add_t){.a = sum, .b = as_row(part), .y = sum});
}

pt_status_t pt_norm_weight(const pt_call_t *call, const pt_norm_args_t *norm)
{
    PT_TRY(add_part(call, norm->weight, norm->dweight));
    return add_part(call, norm->bias, norm->dbias);
}

/* ---- of rows ---- */

static pt_norm_args_t rows_args(const pt_call_t *call, const pt_node_t *node)
{
    return (pt_norm_args_t){.kind = call->model->arch->norm,
                            .weight = node->role[0],
                            .bias = node->role[1],
                            .x = pt_call_operand(call, node, PT_X),
                            .y = pt_call_operand(call, node, PT_Y),
                            .mean = pt_call_operand(call, node, PT_STAT2),
                            .rstd = pt_call_operand(call, node, PT_STAT),
                            .dy = pt_call_operand(call, node, PT_DY),
                            .dx = pt_call_operand(call, node, PT_DX),
                            .dweight = pt_call_operand(call, node, PT_PART),
                            .dbias = pt_call_operand(call, node, PT_PART2),
                            .accumulate = node->accumulate};
}

static pt_status_t rows_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args = rows_args(call, node);

    return pt_norm_forward(call, &args);
}

static pt_status_t rows_input(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args = rows_args(call, node);

    return pt_norm_input(call, &args);
}

static pt_status_t rows_weight(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args = rows_args(call, node);

    return pt_norm_weight(call, &args);
}

/* A norm sees whole rows. */
static pt_status_t rows_spread(pt_program_t *program, const pt_node_t *node,
                               pt_axis_t axis)
{
    PT_TRY(pt_program_expect_whole(program, node, PT_X, axis, 1));
    pt_program_set_spread(program, node->operand[PT_Y], axis,
                          pt_program_spread(program, node->operand[PT_X], axis));
    return PT_OK;
}

const pt_node_kind_t pt_norm_node = {
    .name = "norm",
    .pass = {{PT_USE(X), PT_USE(Y) | PT_USE_STATS, rows_forward},
             {PT_USE(X) | PT_USE_STATS | PT_USE(DY), PT_USE(DX) | PT_USE_PARTS,
              rows_input},
             {PT_USE_PARTS, 0, rows_weight}},
    .cheap = true,
    .adds_dx = true,
    .spread = rows_spread};

void pt_add_norm(pt_program_t *program, int x, int y, pt_role_t weight, pt_role_t bias)
{
    const pt_program_context_t *context = &program->context;
    pt_dtype_t grad = pt_units_grad_dtype(context->units);
    int64_t cols = program->tensor[x].shape.shape[1];
    bool centred = context->arch->norm == PT_NORM_LAYER;
    pt_node_t node = {
        .kind = &pt_norm_node, .operand = PT_OPERANDS_XY(x, y), .role = {weight, bias}};

    node.operand[PT_STAT] = pt_program_stats(program, "1/deviation", 0);
    node.operand[PT_STAT2] = centred ? pt_program_stats(program, "mean", 0) : PT_ABSENT;
    node.operand[PT_PART] = pt_program_vector(program, "part of dweight", grad, cols);
    node.operand[PT_PART2] =
        centred ? pt_program_vector(program, "part of dbias", grad, cols) : PT_ABSENT;
    pt_program_node(program, &node);
}

/* ---- of heads ---- */

/* Their gradients are turned into those of raw q and k in place. */
static void heads_args(const pt_call_t *call, const pt_node_t *node,
                       pt_norm_args_t args[2])
{
    pt_heads_t raw = pt_heads_of(call, pt_call_operand(call, node, PT_X));
    pt_heads_t made = pt_heads_of(call, pt_call_operand(call, node, PT_Y));
    pt_heads_t gradient = pt_heads_of(call, pt_call_operand(call, node, PT_DX));

    args[0] = (pt_norm_args_t){.kind = PT_NORM_RMS,
                               .weight = PT_ROLE_Q_NORM,
                               .bias = PT_ROLE_COUNT,
                               .x = raw.q,
                               .y = made.q,
                               .rstd = pt_call_operand(call, node, PT_STAT),
                               .dy = gradient.q,
                               .dx = gradient.q,
                               .dweight = pt_call_operand(call, node, PT_PART)};
    args[1] = (pt_norm_args_t){.kind = PT_NORM_RMS,
                               .weight = PT_ROLE_K_NORM,
                               .bias = PT_ROLE_COUNT,
                               .x = raw.k,
                               .y = made.k,
                               .rstd = pt_call_operand(call, node, PT_STAT2),
                               .dy = gradient.k,
                               .dx = gradient.k,
                               .dweight = pt_call_operand(call, node, PT_PART2)};
}

static pt_status_t heads_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args[2];

    heads_args(call, node, args);
    PT_TRY(pt_norm_forward(call, &args[0]));
    return pt_norm_forward(call, &args[1]);
}

static pt_status_t heads_input(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args[2];

    heads_args(call, node, args);
    PT_TRY(pt_norm_input(call, &args[0]));
    return pt_norm_input(call, &args[1]);
}

static pt_status_t heads_weight(const pt_call_t *call, const pt_node_t *node)
{
    pt_norm_args_t args[2];

    heads_args(call, node, args);
    PT_TRY(pt_norm_weight(call, &args[0]));
    return pt_norm_weight(call, &args[1]);
}

const pt_node_kind_t pt_head_norm_node = {
    .name = "head norm",
    .pass = {{PT_USE(X), PT_USE(Y) | PT_USE_STATS, heads_forward},
             {PT_USE(X) | PT_USE_STATS | PT_USE(DY), PT_USE(DX) | PT_USE_PARTS,
              heads_input},
             {PT_USE_PARTS, 0, heads_weight}},
    .in_place = true};

void pt_add_head_norm(pt_program_t *program, int x, int y)
{
    const pt_program_context_t *context = &program->context;
    pt_dtype_t grad = pt_units_grad_dtype(context->units);
    int64_t width = context->arch->head_dim;
    int64_t heads = pt_program_size(program, PT_ROLE_ATTENTION_OUT, 1) / width;
    int64_t all = program->tensor[y].shape.shape[1] / width;
    pt_node_t node = {.kind = &pt_head_norm_node,
                      .operand = PT_OPERANDS_XY(x, y),
                      .role = {PT_ROLE_Q_NORM, PT_ROLE_K_NORM}};

    node.operand[PT_STAT] = pt_program_stats(program, "1/deviation of q", heads);
    node.operand[PT_STAT2] = pt_program_stats(program, "1/deviation of k", all - heads);
    node.operand[PT_PART] = pt_program_vector(program, "part of dq_norm", grad, width);
    node.operand[PT_PART2] = pt_program_vector(program, "part of dk_norm", grad, width);
    pt_program_node(program, &node);
}
