/* SPDX-License-Identifier: Apache-2.0 */
/* Derives how the tensors of a block are placed on the ranks of each axis, and checks that no node reads a part of a
 * tensor as if it were complete. Axes of one rank are skipped. */
#include "src/model/program.h"

/* A view is placed as its host is; its heads are the columns of the host (dimension 1 of
 * both). */
static int placement_holder(const pt_program_t *program, int tensor)
{
    return program->tensor[tensor].heads > 0 ? program->tensor[tensor].host : tensor;
}

pt_dist_t pt_program_placement(const pt_program_t *program, int tensor, pt_axis_t axis)
{
    return program->tensor[placement_holder(program, tensor)].shape.dist[axis];
}

void pt_program_set_placement(pt_program_t *program, int tensor, pt_axis_t axis,
                              pt_dist_t dist)
{
    program->tensor[placement_holder(program, tensor)].shape.dist[axis] = dist;
}

static const char *placement_gradient_text(const pt_block_tensor_t *tensor)
{
    return tensor->is_gradient ? "the gradient of " : "";
}

pt_status_t pt_program_expect_whole(const pt_program_t *program, const pt_node_t *node,
                                    pt_operand_t operand, pt_axis_t axis, int dim)
{
    int index = node->operand[operand];
    const pt_block_tensor_t *tensor = &program->tensor[index];
    pt_dist_t dist = pt_program_placement(program, index, axis);

    if (index == PT_ABSENT)
        return PT_OK;
    PT_CHECK(dist.placement != PT_PARTIAL_SUM, PT_INTERNAL,
             "block %s: node %s reads %s%s as if it were whole, but each rank of the "
             "%s axis "
             "has a part of the sum",
             program->name, node->kind->name, placement_gradient_text(tensor),
             tensor->name, pt_axis_name(axis));
    PT_CHECK(
        dim < 0 || dist.placement != PT_SHARDED || dist.dim != dim, PT_INTERNAL,
        "block %s: node %s reads %s%s as if it were whole, but the %s axis cuts its "
        "dimension %d",
        program->name, node->kind->name, placement_gradient_text(tensor), tensor->name,
        pt_axis_name(axis), dim);
    return PT_OK;
}

static bool placement_is_alike(pt_dist_t a, pt_dist_t b)
{
    return a.placement == b.placement && (a.placement != PT_SHARDED || a.dim == b.dim);
}

static pt_status_t placement_alike(pt_program_t *program, const pt_node_t *node,
                                   pt_axis_t axis)
{
    int x = node->operand[PT_X], y = node->operand[PT_Y];

    for (int i = 0; i < PT_NODE_INPUTS; i++) {
        int other = node->operand[PT_X + i];

        PT_TRY(
            pt_program_expect_whole(program, node, (pt_operand_t)(PT_X + i), axis, -1));
        PT_CHECK(other == PT_ABSENT ||
                     placement_is_alike(pt_program_placement(program, x, axis),
                                        pt_program_placement(program, other, axis)),
                 PT_INTERNAL,
                 "block %s: node %s reads %s and %s, which the %s axis cuts in "
                 "different ways",
                 program->name, node->kind->name, program->tensor[x].name,
                 program->tensor[other].name, pt_axis_name(axis));
    }
    if (y != PT_ABSENT)
        pt_program_set_placement(program, y, axis,
                                 pt_program_placement(program, x, axis));
    return PT_OK;
}

static pt_status_t placement_gradient_alike(pt_program_t *program,
                                            const pt_node_t *node, pt_axis_t axis)
{
    PT_TRY(pt_program_expect_whole(program, node, PT_DY, axis, -1));
    for (int i = 0; i < PT_NODE_INPUTS; i++)
        if (node->operand[PT_DX + i] != PT_ABSENT)
            pt_program_set_placement(
                program, node->operand[PT_DX + i], axis,
                pt_program_placement(program, node->operand[PT_X + i], axis));
    return PT_OK;
}

/* A rank that has all of a parameter but a shard of x computes a partial sum of its gradient. */
static pt_status_t placement_check_parameters(const pt_program_t *program,
                                              const pt_node_t *node, pt_axis_t axis)
{
    const pt_param_table_t *table = program->context.table;

    for (int r = 0; r < PT_NODE_ROLES; r++) {
        if (!pt_program_has(program, node->role[r]) || node->operand[PT_X] == PT_ABSENT)
            continue;
        const pt_param_t *param =
            &table->params[pt_param_find(table, node->role[r], program->layer)];
        if (param->shard.axis != axis)
            continue;
        bool whole = pt_program_placement_of(program, node->role[r], axis).placement ==
                     PT_REPLICATED;
        bool share =
            pt_program_placement(program, node->operand[PT_X], axis).placement ==
            PT_SHARDED;
        PT_CHECK((whole && share) == (param->grad == PT_PARTIAL_SUM), PT_INTERNAL,
                 "block %s: node %s leaves %s gradient of %s on each rank of the %s "
                 "axis, but "
                 "the parameter table says otherwise",
                 program->name, node->kind->name,
                 whole && share ? "a part of the" : "the whole", param->part[0].name,
                 pt_axis_name(axis));
    }
    return PT_OK;
}

static pt_status_t placement_forward(pt_program_t *program, const pt_node_t *node,
                                     pt_axis_t axis)
{
    PT_TRY((node->kind->placement ? node->kind->placement
                                  : placement_alike)(program, node, axis));
    return placement_check_parameters(program, node, axis);
}

static pt_status_t placement_backward(pt_program_t *program, const pt_node_t *node,
                                      pt_axis_t axis)
{
    return (node->kind->placement_gradient
                ? node->kind->placement_gradient
                : placement_gradient_alike)(program, node, axis);
}

static pt_status_t placement_check_axis(pt_program_t *program, pt_axis_t axis)
{
    for (int n = 0; n < program->nodes; n++)
        PT_TRY(placement_forward(program, &program->node[n], axis));
    PT_CHECK(
        pt_program_placement(program, PT_TENSOR_Y, axis).placement != PT_PARTIAL_SUM,
        PT_INTERNAL, "block %s leaves y as parts of a sum on the ranks of the %s axis",
        program->name, pt_axis_name(axis));
    if (!program->context.training)
        return PT_OK;
    /* The gradient of the stream is placed as y is. */
    pt_program_set_placement(program, PT_TENSOR_STREAM_GRADIENT, axis,
                             pt_program_placement(program, PT_TENSOR_Y, axis));
    for (int n = program->nodes - 1; n >= 0; n--)
        if (program->node[n].kind->pass[PT_PASS_INPUT].run)
            PT_TRY(placement_backward(program, &program->node[n], axis));
    return PT_OK;
}

pt_status_t pt_program_check_placement(pt_program_t *program)
{
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        if (program->context.mesh->size[axis] > 1)
            PT_TRY(placement_check_axis(program, (pt_axis_t)axis));
    return PT_OK;
}
