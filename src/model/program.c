/* SPDX-License-Identifier: Apache-2.0 */
/* Describing a block. */
#include "src/model/program.h"

static void program_fail(pt_program_t *program, pt_status_t status)
{
    if (program->status == PT_OK)
        program->status = status;
}

static int program_add_tensor(pt_program_t *program, const char *name,
                              pt_tensor_t shape, bool by_rows)
{
    if (program->tensors == PT_PROGRAM_TENSORS) {
        program_fail(program, PT_FAIL(PT_INTERNAL, "block %s has more than %d tensors",
                                      program->name, PT_PROGRAM_TENSORS));
        return PT_TENSOR_X;
    }
    program->tensor[program->tensors] =
        (pt_block_tensor_t){.name = name, .shape = shape, .by_rows = by_rows};
    return program->tensors++;
}

int pt_program_rows(pt_program_t *program, const char *name, int64_t cols)
{
    const pt_program_context_t *context = &program->context;

    return program_add_tensor(
        program, name,
        pt_tensor_2d(NULL, context->arch->dtype, PT_MEMORY_DEVICE, context->rows, cols),
        true);
}

int pt_program_stats(pt_program_t *program, const char *name, int64_t cols)
{
    int64_t rows = program->context.rows;
    pt_dtype_t dtype = pt_dtype_accumulator(program->context.arch->dtype);

    return program_add_tensor(
        program, name,
        cols == 0 ? pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, rows)
                  : pt_tensor_2d(NULL, dtype, PT_MEMORY_DEVICE, rows, cols),
        true);
}

int pt_program_vector(pt_program_t *program, const char *name, pt_dtype_t dtype,
                      int64_t count)
{
    return program_add_tensor(
        program, name, pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, count), false);
}

int pt_program_view(pt_program_t *program, const char *name, int host, int64_t first,
                    int64_t cols, int64_t heads)
{
    pt_tensor_t shape = program->tensor[host].shape;
    int view;

    if (first + cols > shape.shape[1] || cols % heads != 0 ||
        program->tensor[host].host != PT_ABSENT) {
        program_fail(program, PT_FAIL(PT_INTERNAL, "block %s: %s is no part of %s",
                                      program->name, name, program->tensor[host].name));
        return host;
    }
    shape = pt_tensor_split_last(pt_tensor_slice(shape, 1, first, cols), heads);
    view = program_add_tensor(program, name, shape, true);
    program->tensor[view].host = host;
    program->tensor[view].first = first;
    program->tensor[view].cols = cols;
    program->tensor[view].heads = heads;
    return view;
}

void pt_program_share(pt_program_t *program, int tensor, int host)
{
    program->tensor[tensor].host = host;
}

void pt_program_use(pt_program_t *program, int tensor, pt_pass_t written, pt_pass_t read)
{
    program->tensor[tensor].written |= 1u << written;
    program->tensor[tensor].read |= 1u << read;
}

void pt_program_begin(const char *name, const pt_program_context_t *context, int layer,
                      pt_program_t *out)
{
    *out = (pt_program_t){
        .name = name, .context = *context, .layer = layer, .tensors = PT_TENSOR_X};
    pt_program_rows(out, "x", context->arch->hidden);
    pt_program_rows(out, "y", context->arch->hidden);
    pt_program_rows(out, "y", context->arch->hidden);
    out->tensor[PT_TENSOR_STREAM_GRADIENT].is_gradient = true;
    out->tensor[PT_TENSOR_X].gradient = out->tensor[PT_TENSOR_Y].gradient =
        PT_TENSOR_STREAM_GRADIENT;
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        out->tensor[PT_TENSOR_X].shape.dist[axis] = context->x[axis];
}

void pt_program_add(pt_program_t *program, const pt_node_t *node)
{
    if (program->nodes == PT_PROGRAM_NODES) {
        program_fail(program, PT_FAIL(PT_INTERNAL, "block %s has more than %d nodes",
                                      program->name, PT_PROGRAM_NODES));
        return;
    }
    program->node[program->nodes] = *node;
    for (int r = 0; r < PT_NODE_ROLES; r++)
        program->node[program->nodes].weighted |=
            pt_program_has(program, node->role[r]);
    program->nodes++;
}

static int program_param(const pt_program_t *program, pt_role_t role)
{
    return pt_param_find(program->context.table, role, program->layer);
}

bool pt_program_has(const pt_program_t *program, pt_role_t role)
{
    return program_param(program, role) >= 0;
}

static pt_tensor_t program_local(const pt_program_t *program, pt_role_t role)
{
    return pt_units_local_shape(program->context.units, program_param(program, role));
}

int64_t pt_program_size(const pt_program_t *program, pt_role_t role, int dim)
{
    return program_local(program, role).shape[dim];
}

pt_dist_t pt_program_placement_of(const pt_program_t *program, pt_role_t role,
                                  pt_axis_t axis)
{
    return program_local(program, role).dist[axis];
}

/* ---- gradients ---- */

static int program_gradient(pt_program_t *program, int tensor)
{
    const pt_block_tensor_t x = program->tensor[tensor];
    int made;

    if (x.gradient != PT_ABSENT)
        return x.gradient;
    if (x.heads > 0)
        made = pt_program_view(program, x.name, program_gradient(program, x.host),
                               x.first, x.cols, x.heads);
    else
        made = program_add_tensor(program, x.name, x.shape, x.by_rows);
    program->tensor[made].is_gradient = true;
    program->tensor[tensor].gradient = made;
    return made;
}

/* Where a kind works in place, or hands dy on, x and y have one gradient. */
static void program_unite(pt_program_t *program, const pt_node_t *node, int input)
{
    int x = node->operand[PT_X + input], y = node->operand[PT_Y];

    if (x == PT_ABSENT || node->kind->gradient[input] == PT_GRADIENT_OWN)
        return;
    if (program->tensor[y].gradient == PT_ABSENT)
        program->tensor[y].gradient = program_gradient(program, x);
    else if (program->tensor[x].gradient == PT_ABSENT)
        program->tensor[x].gradient = program->tensor[y].gradient;
    if (program->tensor[x].gradient != program->tensor[y].gradient)
        program_fail(program,
                     PT_FAIL(PT_INTERNAL,
                             "block %s: node %s makes the gradient of %s where that of "
                             "%s is, but both have one already",
                             program->name, node->kind->name, program->tensor[x].name,
                             program->tensor[y].name));
}

static void program_add_gradients(pt_program_t *program)
{
    for (int n = 0; n < program->nodes; n++)
        for (int i = 0; i < PT_NODE_INPUTS; i++)
            program_unite(program, &program->node[n], i);
    for (int n = 0; n < program->nodes; n++) {
        pt_node_t *node = &program->node[n];
        const pt_node_pass_t *input = &node->kind->pass[PT_PASS_INPUT];

        if (!input->run)
            continue;
        if (node->operand[PT_Y] != PT_ABSENT)
            node->operand[PT_DY] = program_gradient(program, node->operand[PT_Y]);
        for (int i = 0; i < PT_NODE_INPUTS; i++)
            if ((input->writes >> (PT_DX + i) & 1u) &&
                node->operand[PT_X + i] != PT_ABSENT)
                node->operand[PT_DX + i] =
                    program_gradient(program, node->operand[PT_X + i]);
    }
}

pt_status_t pt_program_end(pt_program_t *program)
{
    if (program->status == PT_OK && program->context.training)
        program_add_gradients(program);
    PT_TRY(program->status);
    PT_TRY(pt_program_check_placement(program));
    return pt_program_order(program);
}
