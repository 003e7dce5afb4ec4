/* What follows from a table of nodes. */
#include "src/model/program.h"

/* ---- describing ---- */

static void fail(pt_program_t *program, pt_status_t status)
{
    if (program->status == PT_OK)
        program->status = status;
}

static int program_add(pt_program_t *program, const char *name, pt_tensor_t shape,
                       bool by_rows)
{
    if (program->tensors == PT_PROGRAM_TENSORS) {
        fail(program, PT_FAIL(PT_INTERNAL, "block %s has more than %d tensors",
                              program->name, PT_PROGRAM_TENSORS));
        return PT_TENSOR_X;
    }
    program->tensor[program->tensors] = (pt_block_tensor_t){.name = name,
                                                            .shape = shape,
                                                            .by_rows = by_rows,
                                                            .same_as = PT_ABSENT,
                                                            .gradient = PT_ABSENT};
    return program->tensors++;
}

int pt_program_rows(pt_program_t *program, const char *name, int64_t cols)
{
    const pt_program_context_t *context = &program->context;

    return program_add(
        program, name,
        pt_tensor_2d(NULL, context->arch->dtype, PT_MEMORY_DEVICE, context->rows, cols),
        true);
}

int pt_program_stats(pt_program_t *program, const char *name, int64_t cols)
{
    const pt_program_context_t *context = &program->context;
    pt_dtype_t dtype = pt_dtype_accumulator(context->arch->dtype);

    return program_add(
        program, name,
        cols == 0 ? pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, context->rows)
                  : pt_tensor_2d(NULL, dtype, PT_MEMORY_DEVICE, context->rows, cols),
        true);
}

int pt_program_vector(pt_program_t *program, const char *name, pt_dtype_t dtype,
                      int64_t count)
{
    return program_add(program, name,
                       pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, count), false);
}

void pt_program_begin(const char *name, const pt_program_context_t *context, int layer,
                      pt_program_t *out)
{
    *out = (pt_program_t){.name = name, .context = *context, .layer = layer};
    pt_program_rows(out, "x", context->arch->hidden);
    pt_program_rows(out, "y", context->arch->hidden);
    pt_program_rows(out, "y", context->arch->hidden);
    out->tensor[PT_TENSOR_STREAM_GRADIENT].is_gradient = true;
    out->tensor[PT_TENSOR_X].gradient = out->tensor[PT_TENSOR_Y].gradient =
        PT_TENSOR_STREAM_GRADIENT;
}

void pt_program_share(pt_program_t *program, int tensor, int host)
{
    program->tensor[tensor].same_as = host;
}

void pt_program_use(pt_program_t *program, int tensor, pt_pass_t written, pt_pass_t read)
{
    program->tensor[tensor].written |= 1u << written;
    program->tensor[tensor].read |= 1u << read;
}

void pt_program_node(pt_program_t *program, const pt_node_t *node)
{
    if (program->nodes == PT_PROGRAM_NODES) {
        fail(program, PT_FAIL(PT_INTERNAL, "block %s has more than %d nodes",
                              program->name, PT_PROGRAM_NODES));
        return;
    }
    pt_node_t *added = &program->node[program->nodes++];
    *added = *node;
    for (int o = PT_NAMED_OPERANDS; o < PT_OPERANDS; o++)
        added->operand[o] = PT_ABSENT;
    for (int r = 0; r < PT_NODE_ROLES; r++)
        added->weighted |= pt_program_has(program, node->role[r]);
}

static int program_param(const pt_program_t *program, pt_role_t role)
{
    if (role == PT_ROLE_COUNT)
        return -1;
    return pt_param_find(program->context.table, role, program->layer);
}

bool pt_program_has(const pt_program_t *program, pt_role_t role)
{
    return program_param(program, role) >= 0;
}

int64_t pt_program_size(const pt_program_t *program, pt_role_t role, int dim)
{
    return pt_units_local_shape(program->context.units, program_param(program, role))
        .shape[dim];
}

/* ---- gradients ---- */

static bool has_input_pass(const pt_node_t *node)
{
    return node->kind->pass[PT_PASS_INPUT].run != NULL;
}

static int program_gradient(pt_program_t *program, int tensor)
{
    if (tensor == PT_ABSENT)
        return PT_ABSENT;
    if (program->tensor[tensor].gradient == PT_ABSENT) {
        pt_block_tensor_t *of = &program->tensor[tensor];
        int gradient = program_add(program, of->name, of->shape, of->by_rows);
        program->tensor[gradient].is_gradient = true;
        program->tensor[tensor].gradient = gradient;
    }
    return program->tensor[tensor].gradient;
}

/* Where a kind works in place, or hands dy on, two tensors have one gradient. */
static void unite_gradients(pt_program_t *program)
{
    for (int n = 0; n < program->nodes; n++) {
        const pt_node_t *node = &program->node[n];
        int y = node->operand[PT_Y];

        if (node->kind->in_place)
            program->tensor[y].gradient =
                program_gradient(program, node->operand[PT_X]);
        if (node->kind->past)
            program->tensor[node->operand[PT_X2]].gradient =
                program_gradient(program, y);
    }
}

/* The nodes' input passes go in reverse; whoever comes second to a gradient adds. */
static void add_gradients(pt_program_t *program)
{
    bool made[PT_PROGRAM_TENSORS] = {0};

    unite_gradients(program);
    for (int n = program->nodes - 1; n >= 0; n--) {
        pt_node_t *node = &program->node[n];
        unsigned writes = node->kind->pass[PT_PASS_INPUT].writes;

        if (!has_input_pass(node))
            continue;
        node->operand[PT_DY] = program_gradient(program, node->operand[PT_Y]);
        if (node->kind->past)
            made[node->operand[PT_DY]] = true;
        if (!(writes & PT_USE(DX)))
            continue;
        node->operand[PT_DX] = program_gradient(program, node->operand[PT_X]);
        if (writes & PT_USE(DX2))
            node->operand[PT_DX2] = program_gradient(program, node->operand[PT_X2]);
        node->accumulate = !node->kind->in_place && made[node->operand[PT_DX]];
        made[node->operand[PT_DX]] = true;
        if (node->accumulate && !node->kind->adds_dx)
            fail(
                program,
                PT_FAIL(
                    PT_INTERNAL,
                    "block %s: node %s cannot add to the gradient of %s, which another "
                    "node reads too",
                    program->name, node->kind->name,
                    program->tensor[node->operand[PT_X]].name));
    }
}

/* ---- lifetimes ---- */

static bool has_step(const pt_program_t *program, const pt_node_t *node, pt_pass_t pass)
{
    if (!node->kind->pass[pass].run)
        return false;
    if (pass == PT_PASS_FORWARD)
        return true;
    return program->context.training && (pass == PT_PASS_INPUT || node->weighted);
}

static void mark_uses(pt_program_t *program)
{
    for (int n = 0; n < program->nodes; n++)
        for (int pass = 0; pass < PT_PASSES; pass++) {
            const pt_node_t *node = &program->node[n];
            const pt_node_pass_t *uses = &node->kind->pass[pass];

            if (!has_step(program, node, (pt_pass_t)pass))
                continue;
            for (int o = 0; o < PT_OPERANDS; o++) {
                if (node->operand[o] == PT_ABSENT)
                    continue;
                pt_block_tensor_t *tensor = &program->tensor[node->operand[o]];
                tensor->read |= (uses->reads >> o & 1u) << pass;
                tensor->written |= (uses->writes >> o & 1u) << pass;
            }
        }
}

static void mark_replayed(pt_program_t *program)
{
    for (int n = 0; n < program->nodes; n++) {
        const pt_node_t *node = &program->node[n];
        if (!node->kind->cheap || node->operand[PT_Y] == PT_ABSENT)
            continue;
        pt_block_tensor_t *y = &program->tensor[node->operand[PT_Y]];
        y->replayed =
            (y->read & 1u << PT_PASS_WEIGHT) && !(y->read & 1u << PT_PASS_INPUT);
    }
}

/* ---- orders ---- */

static void append(pt_program_t *program, pt_list_t list, int node, pt_pass_t pass)
{
    program->list[list][program->steps[list]++] =
        (pt_step_t){&program->node[node], pass};
}

static bool is_used(const pt_node_t *node, unsigned uses, const bool *wanted)
{
    for (int o = 0; o < PT_OPERANDS; o++)
        if ((uses >> o & 1u) && node->operand[o] != PT_ABSENT &&
            wanted[node->operand[o]])
            return true;
    return false;
}

/* Forward again, without what only the next block reads. */
static void list_again(pt_program_t *program)
{
    bool wanted[PT_PROGRAM_TENSORS], needed[PT_PROGRAM_NODES];

    for (int t = 0; t < program->tensors; t++)
        wanted[t] =
            program->tensor[t].read & (1u << PT_PASS_INPUT | 1u << PT_PASS_WEIGHT);
    for (int n = program->nodes - 1; n >= 0; n--) {
        const pt_node_t *node = &program->node[n];
        const pt_node_pass_t *uses = &node->kind->pass[PT_PASS_FORWARD];

        needed[n] = uses->run && is_used(node, uses->writes, wanted);
        for (int o = 0; o < PT_OPERANDS && needed[n]; o++)
            if ((uses->reads >> o & 1u) && node->operand[o] != PT_ABSENT)
                wanted[node->operand[o]] = true;
    }
    for (int n = 0; n < program->nodes; n++)
        if (needed[n])
            append(program, PT_LIST_AGAIN, n, PT_PASS_FORWARD);
}

static void list_steps(pt_program_t *program)
{
    for (int n = 0; n < program->nodes; n++) {
        const pt_node_t *node = &program->node[n];

        if (has_step(program, node, PT_PASS_FORWARD))
            append(program, PT_LIST_FORWARD, n, PT_PASS_FORWARD);
        if (node->operand[PT_Y] != PT_ABSENT &&
            program->tensor[node->operand[PT_Y]].replayed)
            append(program, PT_LIST_REPLAY, n, PT_PASS_FORWARD);
    }
    for (int n = program->nodes - 1; n >= 0; n--) {
        if (has_step(program, &program->node[n], PT_PASS_INPUT))
            append(program, PT_LIST_INPUT, n, PT_PASS_INPUT);
        if (has_step(program, &program->node[n], PT_PASS_WEIGHT))
            append(program, PT_LIST_WEIGHT, n, PT_PASS_WEIGHT);
    }
    list_again(program);
}

/* ---- checks ---- */

/* Every operand was written before it is read, in forward and then input order. */
static pt_status_t check_order(const pt_program_t *program)
{
    bool there[PT_PROGRAM_TENSORS] = {
        [PT_TENSOR_X] = true, [PT_TENSOR_STREAM_GRADIENT] = true};

    for (int list = 0; list < PT_LISTS; list++)
        for (int s = 0; s < program->steps[list]; s++) {
            const pt_step_t *step = &program->list[list][s];
            const pt_node_pass_t *uses = &step->node->kind->pass[step->pass];

            for (int o = 0; o < PT_OPERANDS; o++) {
                int t = step->node->operand[o];
                PT_CHECK(t == PT_ABSENT || !(uses->reads >> o & 1u) || there[t],
                         PT_INTERNAL,
                         "block %s: node %s reads %s%s before any node has written it",
                         program->name, step->node->kind->name,
                         program->tensor[t].is_gradient ? "the gradient of " : "",
                         program->tensor[t].name);
            }
            for (int o = 0; o < PT_OPERANDS; o++)
                if (step->node->operand[o] != PT_ABSENT && (uses->writes >> o & 1u))
                    there[step->node->operand[o]] = true;
        }
    return PT_OK;
}

pt_dist_t pt_program_spread(const pt_program_t *program, int tensor, pt_axis_t axis)
{
    return program->tensor[tensor].shape.dist[axis];
}

void pt_program_set_spread(pt_program_t *program, int tensor, pt_axis_t axis,
                           pt_dist_t dist)
{
    program->tensor[tensor].shape.dist[axis] = dist;
}

pt_status_t pt_program_expect_whole(const pt_program_t *program, const pt_node_t *node,
                                    pt_operand_t operand, pt_axis_t axis, int dim)
{
    int tensor = node->operand[operand];
    pt_dist_t dist;

    if (tensor == PT_ABSENT)
        return PT_OK;
    dist = pt_program_spread(program, tensor, axis);
    PT_CHECK(dist.spread != PT_PARTIAL_SUM, PT_INTERNAL,
             "block %s: node %s reads %s as if it were whole, but each rank of the %s "
             "axis has a part "
             "of the sum",
             program->name, node->kind->name, program->tensor[tensor].name,
             pt_axis_name(axis));
    PT_CHECK(dim < 0 || dist.spread != PT_SHARDED || dist.dim != dim, PT_INTERNAL,
             "block %s: node %s reads %s as if it were whole, but the %s axis cuts its "
             "dimension %d",
             program->name, node->kind->name, program->tensor[tensor].name,
             pt_axis_name(axis), dim);
    return PT_OK;
}

/* x and x2 are spread alike and nobody's part of a sum; y is spread as they are. */
static pt_status_t spread_alike(pt_program_t *program, const pt_node_t *node,
                                pt_axis_t axis)
{
    int x = node->operand[PT_X], y = node->operand[PT_Y];

    PT_TRY(pt_program_expect_whole(program, node, PT_X, axis, -1));
    PT_TRY(pt_program_expect_whole(program, node, PT_X2, axis, -1));
    if (node->operand[PT_X2] != PT_ABSENT) {
        pt_dist_t a = pt_program_spread(program, x, axis);
        pt_dist_t b = pt_program_spread(program, node->operand[PT_X2], axis);
        PT_CHECK(a.spread == b.spread && a.dim == b.dim, PT_INTERNAL,
                 "block %s: node %s reads %s and %s, which the %s axis cuts in "
                 "different ways",
                 program->name, node->kind->name, program->tensor[x].name,
                 program->tensor[node->operand[PT_X2]].name, pt_axis_name(axis));
    }
    if (x != PT_ABSENT && y != PT_ABSENT)
        pt_program_set_spread(program, y, axis, pt_program_spread(program, x, axis));
    return PT_OK;
}

static pt_status_t check_spread(pt_program_t *program)
{
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        for (int n = 0; n < program->nodes && program->context.mesh->size[axis] > 1;
             n++) {
            const pt_node_t *node = &program->node[n];
            PT_TRY((node->kind->spread ? node->kind->spread
                                       : spread_alike)(program, node, (pt_axis_t)axis));
        }
    return PT_OK;
}

pt_status_t pt_program_end(pt_program_t *program)
{
    PT_TRY(program->status);
    if (program->context.training)
        add_gradients(program);
    PT_TRY(program->status);
    mark_uses(program);
    mark_replayed(program);
    list_steps(program);
    PT_TRY(check_order(program));
    return check_spread(program);
}
