/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the passes of a block's nodes run, and what follows from it for the tensors. */
#include "src/model/program.h"

#include <string.h>

/* Of a tensor that shares memory, the one that has it. */
static int order_host_of(const pt_program_t *program, int tensor)
{
    int host = program->tensor[tensor].host;

    return host == PT_ABSENT ? tensor : order_host_of(program, host);
}

static bool order_uses(const pt_node_t *node, unsigned operands, int operand)
{
    return (operands >> operand & 1u) && node->operand[operand] != PT_ABSENT;
}

/* ---- lists ---- */

/* Steps are appended; what a node has begun is ended before the first step that reads it. */
typedef struct maker {
    pt_program_t *program;
    pt_list_t list;
    int begun[PT_PROGRAM_TENSORS];  /* by memory: 1 + the step that makes it; 0: none */
    bool waiting[PT_PROGRAM_NODES]; /* weight steps whose operands are there */
    bool replayed[PT_PROGRAM_NODES];
} maker_t;

static void order_maker_append(maker_t *maker, pt_step_t step);

static void order_maker_end(maker_t *maker, int memory)
{
    int at = maker->begun[memory] - 1;

    if (at < 0)
        return;
    pt_step_t step = maker->program->list[maker->list][at];
    for (int t = 0; t < PT_PROGRAM_TENSORS; t++)
        if (maker->begun[t] == at + 1)
            maker->begun[t] = 0;
    step.ends = true;
    order_maker_append(maker, step);
}

static void order_maker_weights(maker_t *maker);

static void order_maker_append(maker_t *maker, pt_step_t step)
{
    pt_program_t *program = maker->program;
    const pt_node_pass_t *pass = &step.node->kind->pass[step.pass];

    for (int o = 0; o < PT_OPERANDS && !step.ends; o++)
        if (order_uses(step.node, pass->reads | pass->writes, o)) {
            int memory = order_host_of(program, step.node->operand[o]);
            if (maker->begun[memory] && step.pass == PT_PASS_INPUT)
                order_maker_weights(maker); /* fill the gap */
            order_maker_end(maker, memory);
        }
    int at = program->steps[maker->list]++;
    program->list[maker->list][at] = step;
    for (int o = 0; o < PT_OPERANDS && pass->end && !step.ends; o++)
        if (order_uses(step.node, pass->writes, o))
            maker->begun[order_host_of(program, step.node->operand[o])] = at + 1;
}

static void order_maker_end_all(maker_t *maker)
{
    for (int t = 0; t < PT_PROGRAM_TENSORS; t++)
        order_maker_end(maker, t);
}

static pt_step_t order_step_of(const pt_program_t *program, int node, pt_pass_t pass)
{
    return (pt_step_t){.node = &program->node[node], .pass = pass};
}

/* Runs forward again, each node once, what the weight step of `node` reads. */
static void order_maker_replay(maker_t *maker, const pt_node_t *node, unsigned reads)
{
    const pt_program_t *program = maker->program;

    for (int n = 0; n < program->nodes; n++) {
        const pt_node_t *maker_of = &program->node[n];

        if (!maker_of->replayed || maker->replayed[n])
            continue;
        for (int o = 0; o < PT_OPERANDS; o++)
            if (order_uses(node, reads, o) &&
                node->operand[o] == maker_of->operand[PT_Y] && !maker->replayed[n]) {
                pt_step_t step = order_step_of(program, n, PT_PASS_FORWARD);

                maker->replayed[n] = true;
                order_maker_replay(maker, maker_of,
                                   maker_of->kind->pass[PT_PASS_FORWARD].reads);
                step.again = true;
                order_maker_append(maker, step);
            }
    }
}

/* The weight steps that wait, in backward order. */
static void order_maker_weights(maker_t *maker)
{
    const pt_program_t *program = maker->program;

    for (int n = program->nodes - 1; n >= 0; n--) {
        const pt_node_t *node = &program->node[n];

        if (!maker->waiting[n])
            continue;
        maker->waiting[n] = false;
        order_maker_replay(maker, node, node->kind->pass[PT_PASS_WEIGHT].reads);
        order_maker_append(maker, order_step_of(program, n, PT_PASS_WEIGHT));
    }
}

static bool order_has_step(const pt_program_t *program, const pt_node_t *node,
                           pt_pass_t pass)
{
    if (!node->kind->pass[pass].run)
        return false;
    if (pass == PT_PASS_FORWARD)
        return true;
    return program->context.training && (pass == PT_PASS_INPUT || node->weighted);
}

static void order_list_forward(pt_program_t *program, pt_list_t list, const bool *wanted)
{
    maker_t maker = {.program = program, .list = list};

    for (int n = 0; n < program->nodes; n++)
        if (order_has_step(program, &program->node[n], PT_PASS_FORWARD) && wanted[n])
            order_maker_append(&maker, order_step_of(program, n, PT_PASS_FORWARD));
    order_maker_end_all(&maker);
}

static void order_list_backward(pt_program_t *program)
{
    maker_t maker = {.program = program, .list = PT_LIST_BACKWARD};

    for (int n = program->nodes - 1; n >= 0; n--) {
        if (order_has_step(program, &program->node[n], PT_PASS_INPUT))
            order_maker_append(&maker, order_step_of(program, n, PT_PASS_INPUT));
        maker.waiting[n] = program->context.fused &&
                           order_has_step(program, &program->node[n], PT_PASS_WEIGHT);
    }
    order_maker_weights(&maker);
    order_maker_end_all(&maker);
    if (program->context.fused)
        return;
    maker = (maker_t){.program = program, .list = PT_LIST_WEIGHT};
    for (int n = 0; n < program->nodes; n++)
        maker.waiting[n] = order_has_step(program, &program->node[n], PT_PASS_WEIGHT);
    order_maker_weights(&maker);
    order_maker_end_all(&maker);
}

/* ---- replays ---- */

static bool order_may_replay(const pt_program_t *program, const pt_node_t *node)
{
    const pt_program_context_t *context = &program->context;

    return node->kind->replay == PT_REPLAY_ALWAYS ||
           (node->kind->replay == PT_REPLAY_SELECTIVE && context->selective &&
            context->fused);
}

/* A node runs again when only weight steps, and what runs again for them, read what it makes. From the last node on, as
 * its readers come later. */
static void order_mark_replayed(pt_program_t *program)
{
    bool for_input[PT_PROGRAM_TENSORS] = {0}, for_weight[PT_PROGRAM_TENSORS] = {0};

    for (int n = 0; n < program->nodes; n++)
        for (int o = 0; o < PT_OPERANDS; o++) {
            const pt_node_t *node = &program->node[n];
            int t = node->operand[o];

            if (order_has_step(program, node, PT_PASS_INPUT) &&
                order_uses(node, node->kind->pass[PT_PASS_INPUT].reads, o))
                for_input[t] = true;
            if (order_has_step(program, node, PT_PASS_WEIGHT) &&
                order_uses(node, node->kind->pass[PT_PASS_WEIGHT].reads, o))
                for_weight[t] = true;
        }
    for (int n = program->nodes - 1; n >= 0; n--) {
        pt_node_t *node = &program->node[n];
        int y = node->operand[PT_Y];

        node->replayed = y != PT_ABSENT && order_may_replay(program, node) &&
                         for_weight[y] && !for_input[y];
        if (y != PT_ABSENT)
            program->tensor[y].replayed = node->replayed;
        for (int o = 0; o < PT_OPERANDS && node->replayed; o++)
            if (order_uses(node, node->kind->pass[PT_PASS_FORWARD].reads, o))
                for_weight[node->operand[o]] = true;
    }
}

/* ---- lifetimes ---- */

static void order_mark_uses(pt_program_t *program)
{
    for (int list = 0; list < PT_LISTS; list++)
        for (int s = 0; s < program->steps[list] && list != PT_LIST_AGAIN; s++) {
            const pt_step_t *step = &program->list[list][s];
            const pt_node_pass_t *pass = &step->node->kind->pass[step->pass];
            pt_pass_t as = step->again ? PT_PASS_WEIGHT : step->pass;

            for (int o = 0; o < PT_OPERANDS; o++) {
                int t = step->node->operand[o];
                /* A view uses the memory of its host; a shared tensor and its host are live one after the other. */
                if (program->tensor[t].heads > 0)
                    t = program->tensor[t].host;
                if (order_uses(step->node, pass->reads, o))
                    program->tensor[t].read |= 1u << as;
                if (order_uses(step->node, pass->writes, o))
                    program->tensor[t].written |= 1u << as;
            }
        }
}

/* Selects the nodes to recompute: not those whose outputs only the next block reads. */
static void order_find_wanted_again(const pt_program_t *program, bool *needed)
{
    bool wanted[PT_PROGRAM_TENSORS];

    for (int t = 0; t < program->tensors; t++)
        wanted[t] = program->tensor[order_host_of(program, t)].read &
                    (1u << PT_PASS_INPUT | 1u << PT_PASS_WEIGHT);
    for (int n = program->nodes - 1; n >= 0; n--) {
        const pt_node_t *node = &program->node[n];
        const pt_node_pass_t *pass = &node->kind->pass[PT_PASS_FORWARD];

        needed[n] = false;
        for (int o = 0; o < PT_OPERANDS; o++)
            needed[n] |= order_uses(node, pass->writes, o) && wanted[node->operand[o]];
        for (int o = 0; o < PT_OPERANDS && needed[n]; o++)
            if (order_uses(node, pass->reads, o))
                wanted[node->operand[o]] = true;
    }
}

/* ---- gradients ---- */

/* For each tensor, whose gradients its memory holds while the input steps run. */
typedef struct holder {
    uint64_t of[PT_PROGRAM_TENSORS];
} holder_t;
_Static_assert(PT_PROGRAM_TENSORS <= 64, "a bit for each tensor");

static uint64_t order_bit(int tensor)
{
    return UINT64_C(1) << tensor;
}

/* Records that dx of `input` is computed: written, accumulated, or the same as dy. */
static pt_status_t order_make_gradient(pt_program_t *program, pt_node_t *node,
                                       int input, holder_t *holder)
{
    int x = node->operand[PT_X + input], y = node->operand[PT_Y];
    pt_gradient_t how = node->kind->gradient[input];
    const pt_block_tensor_t *tensor = &program->tensor[x];
    uint64_t *held = &holder->of[order_host_of(program, tensor->gradient)];

    if (how == PT_GRADIENT_OWN && (*held & order_bit(x))) {
        PT_CHECK(
            node->kind->adds, PT_INTERNAL,
            "block %s: node %s cannot add to the gradient of %s, which another node "
            "reads too",
            program->name, node->kind->name, tensor->name);
        node->accumulate = true;
    }
    if (how == PT_GRADIENT_IS_DY)
        *held |= order_bit(x);
    else if (tensor->heads > 0)
        *held = (*held & ~(how == PT_GRADIENT_IN_PLACE ? order_bit(y) : 0)) |
                order_bit(x) | order_bit(tensor->host);
    else
        *held = order_bit(x);
    return PT_OK;
}

/* The gradient of a view may have been computed with that of its host. */
static pt_status_t order_check_holds(const pt_program_t *program, const pt_node_t *node,
                                     const holder_t *holder)
{
    int y = node->operand[PT_Y];
    const pt_block_tensor_t *tensor = &program->tensor[y];
    uint64_t wanted = order_bit(y) | (tensor->heads > 0 ? order_bit(tensor->host) : 0);

    PT_CHECK(holder->of[order_host_of(program, tensor->gradient)] & wanted, PT_INTERNAL,
             "block %s: node %s reads the gradient of %s, but its memory holds that of "
             "another tensor",
             program->name, node->kind->name, tensor->name);
    return PT_OK;
}

static pt_status_t order_take_gradients(pt_program_t *program)
{
    holder_t holder = {.of = {[PT_TENSOR_STREAM_GRADIENT] = order_bit(PT_TENSOR_Y)}};

    for (int n = program->nodes - 1; n >= 0; n--) {
        pt_node_t *node = &program->node[n];
        int y = node->operand[PT_Y];

        if (!order_has_step(program, node, PT_PASS_INPUT))
            continue;
        if (y != PT_ABSENT)
            PT_TRY(order_check_holds(program, node, &holder));
        for (int i = 0; i < PT_NODE_INPUTS; i++)
            if (node->operand[PT_X + i] != PT_ABSENT &&
                (node->operand[PT_DX + i] != PT_ABSENT ||
                 node->kind->gradient[i] == PT_GRADIENT_IS_DY))
                PT_TRY(order_make_gradient(program, node, i, &holder));
    }
    return PT_OK;
}

/* ---- checks ---- */

/* Whether an earlier pass has left the tensor in place for this list. */
static bool order_is_left(const pt_block_tensor_t *tensor, pt_list_t list)
{
    unsigned before = list == PT_LIST_BACKWARD
                          ? 1u << PT_PASS_FORWARD
                          : 1u << PT_PASS_FORWARD | 1u << PT_PASS_INPUT;

    return list > PT_LIST_AGAIN && (tensor->written & before) && !tensor->replayed;
}

static pt_status_t order_check(const pt_program_t *program)
{
    for (int list = 0; list < PT_LISTS; list++) {
        bool there[PT_PROGRAM_TENSORS];

        for (int t = 0; t < program->tensors; t++)
            there[t] = t == PT_TENSOR_X || t == PT_TENSOR_STREAM_GRADIENT ||
                       order_is_left(&program->tensor[t], (pt_list_t)list);
        for (int s = 0; s < program->steps[list]; s++) {
            const pt_step_t *step = &program->list[list][s];
            const pt_node_pass_t *pass = &step->node->kind->pass[step->pass];

            for (int o = 0; o < PT_OPERANDS; o++) {
                int t = step->node->operand[o];
                PT_CHECK(!order_uses(step->node, pass->reads, o) ||
                             there[order_host_of(program, t)] || there[t],
                         PT_INTERNAL,
                         "block %s: node %s reads %s%s before any node has written it",
                         program->name, step->node->kind->name,
                         program->tensor[t].is_gradient ? "the gradient of " : "",
                         program->tensor[t].name);
            }
            for (int o = 0; o < PT_OPERANDS; o++)
                if (order_uses(step->node, pass->writes, o))
                    there[step->node->operand[o]] =
                        there[order_host_of(program, step->node->operand[o])] = true;
        }
    }
    return PT_OK;
}

/* A later weight pass cannot read the gradient of the stream, which is dx by then, nor y, which belongs to the next
 * block. */
static pt_status_t order_check_stream(const pt_program_t *program)
{
    unsigned backward = 1u << PT_PASS_INPUT | 1u << PT_PASS_WEIGHT;

    for (int t = 0; t < program->tensors; t++)
        PT_CHECK(order_host_of(program, t) != PT_TENSOR_Y ||
                     !(program->tensor[t].read & backward),
                 PT_INTERNAL,
                 "block %s: %s is the next block's memory when backward reads it",
                 program->name, program->tensor[t].name);
    PT_CHECK(
        !(program->tensor[PT_TENSOR_STREAM_GRADIENT].read & 1u << PT_PASS_WEIGHT),
        PT_INTERNAL,
        "block %s: a weight pass reads the gradient of the stream, which is then that "
        "of x",
        program->name);
    return PT_OK;
}

pt_status_t pt_program_order(pt_program_t *program)
{
    bool wanted[PT_PROGRAM_NODES];

    order_mark_replayed(program);
    if (program->context.training)
        PT_TRY(order_take_gradients(program));
    memset(wanted, true, sizeof wanted);
    order_list_forward(program, PT_LIST_FORWARD, wanted);
    order_list_backward(program);
    order_mark_uses(program);
    for (int n = 0; n < program->nodes; n++)
        program->has_weights |=
            order_has_step(program, &program->node[n], PT_PASS_WEIGHT);
    order_find_wanted_again(program, wanted);
    order_list_forward(program, PT_LIST_AGAIN, wanted);
    PT_TRY(order_check_stream(program));
    return order_check(program);
}
