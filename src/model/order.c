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

/* A set of tensors: bit t for tensor t. */
typedef uint64_t set_t;
_Static_assert(PT_PROGRAM_TENSORS <= 64, "a bit for each tensor");

static set_t order_bit(int tensor)
{
    return UINT64_C(1) << tensor;
}

static set_t order_tensors(const pt_node_t *node, unsigned operands)
{
    set_t set = 0;

    for (int o = 0; o < PT_OPERANDS; o++)
        if (operands >> o & 1u)
            set |= order_bit(node->operand[o]);
    return set & ~order_bit(PT_ABSENT);
}

static set_t order_reads(const pt_node_t *node, pt_pass_t pass)
{
    return order_tensors(node, node->kind->pass[pass].reads);
}

static set_t order_writes(const pt_node_t *node, pt_pass_t pass)
{
    return order_tensors(node, node->kind->pass[pass].writes);
}

/* The tensors that have the memory of those in `set`. */
static set_t order_hosts_of(const pt_program_t *program, set_t set)
{
    set_t hosts = 0;

    for (int t = 0; t < program->tensors; t++)
        if (set & order_bit(t))
            hosts |= order_bit(order_host_of(program, t));
    return hosts;
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

/* ---- lists ---- */

/* Steps are appended; what a node has begun is ended before the first step that touches
 * it. */
typedef struct maker {
    pt_program_t *program;
    pt_list_t list;
    set_t begun[PT_LIST_STEPS]; /* by step: memory that it fills until it is ended */
    bool waiting[PT_PROGRAM_NODES]; /* weight steps whose operands are there */
    bool replayed[PT_PROGRAM_NODES];
} maker_t;

static void order_maker_append(maker_t *maker, pt_step_t step);

static void order_maker_end(maker_t *maker, int begun)
{
    pt_step_t step = maker->program->list[maker->list][begun];

    if (!maker->begun[begun])
        return;
    maker->begun[begun] = 0;
    step.ends = true;
    order_maker_append(maker, step);
}

static void order_maker_end_all(maker_t *maker)
{
    for (int s = 0; s < maker->program->steps[maker->list]; s++)
        order_maker_end(maker, s);
}

/* Runs forward again, each node once, for a step that reads `reads`. */
static void order_maker_replay(maker_t *maker, set_t reads)
{
    const pt_program_t *program = maker->program;

    for (int n = 0; n < program->nodes; n++) {
        const pt_node_t *node = &program->node[n];

        if (!node->replayed || maker->replayed[n] ||
            !(reads & order_bit(node->operand[PT_Y])))
            continue;
        maker->replayed[n] = true;
        order_maker_replay(maker, order_reads(node, PT_PASS_FORWARD));
        order_maker_append(
            maker, (pt_step_t){.node = node, .pass = PT_PASS_FORWARD, .again = true});
    }
}

/* The weight steps that wait, in backward order. */
static void order_maker_weights(maker_t *maker)
{
    for (int n = maker->program->nodes - 1; n >= 0; n--) {
        const pt_node_t *node = &maker->program->node[n];

        if (!maker->waiting[n])
            continue;
        maker->waiting[n] = false;
        order_maker_replay(maker, order_reads(node, PT_PASS_WEIGHT));
        order_maker_append(maker, (pt_step_t){.node = node, .pass = PT_PASS_WEIGHT});
    }
}

static void order_maker_append(maker_t *maker, pt_step_t step)
{
    pt_program_t *program = maker->program;
    int *steps = &program->steps[maker->list];
    set_t reads = order_reads(step.node, step.pass);
    set_t writes = order_hosts_of(program, order_writes(step.node, step.pass));
    set_t touched = writes | order_hosts_of(program, reads);

    for (int s = 0; s < *steps && !step.ends; s++) {
        if (!(maker->begun[s] & touched))
            continue;
        if (step.pass == PT_PASS_INPUT && program->context.fused)
            order_maker_weights(maker); /* fill the gap */
        order_maker_end(maker, s);
    }
    if (step.node->kind->pass[step.pass].end && !step.ends)
        maker->begun[*steps] = writes;
    program->list[maker->list][(*steps)++] = step;
}

static void order_list_forward(pt_program_t *program, pt_list_t list, const bool *wanted)
{
    maker_t maker = {.program = program, .list = list};

    for (int n = 0; n < program->nodes; n++)
        if (order_has_step(program, &program->node[n], PT_PASS_FORWARD) && wanted[n])
            order_maker_append(&maker, (pt_step_t){.node = &program->node[n],
                                                   .pass = PT_PASS_FORWARD});
    order_maker_end_all(&maker);
}

static void order_list_backward(pt_program_t *program)
{
    maker_t maker = {.program = program, .list = PT_LIST_BACKWARD};

    for (int n = program->nodes - 1; n >= 0; n--) {
        const pt_node_t *node = &program->node[n];

        if (order_has_step(program, node, PT_PASS_INPUT))
            order_maker_append(&maker, (pt_step_t){.node = node, .pass = PT_PASS_INPUT});
        maker.waiting[n] = order_has_step(program, node, PT_PASS_WEIGHT);
    }
    if (!program->context.fused) {
        order_maker_end_all(&maker);
        maker.list = PT_LIST_WEIGHT;
    }
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

/* A node runs again when only weight steps, and what runs again for them, read what it
 * makes. From the last node on, as its readers come later. */
static void order_mark_replayed(pt_program_t *program)
{
    set_t for_input = 0, for_weight = 0;

    for (int n = 0; n < program->nodes; n++) {
        const pt_node_t *node = &program->node[n];

        if (order_has_step(program, node, PT_PASS_INPUT))
            for_input |= order_reads(node, PT_PASS_INPUT);
        if (order_has_step(program, node, PT_PASS_WEIGHT))
            for_weight |= order_reads(node, PT_PASS_WEIGHT);
    }
    for (int n = program->nodes - 1; n >= 0; n--) {
        pt_node_t *node = &program->node[n];
        int y = node->operand[PT_Y];

        node->replayed =
            order_may_replay(program, node) && (for_weight & ~for_input & order_bit(y));
        program->tensor[y].replayed = node->replayed;
        if (node->replayed)
            for_weight |= order_reads(node, PT_PASS_FORWARD);
    }
}

/* ---- lifetimes ---- */

static void order_mark_step(pt_program_t *program, const pt_step_t *step)
{
    set_t reads = order_reads(step->node, step->pass);
    set_t writes = order_writes(step->node, step->pass);
    unsigned bit = 1u << (step->again ? PT_PASS_WEIGHT : step->pass);

    for (int t = 0; t < program->tensors; t++) {
        /* A view uses the memory of its host; a shared tensor and its host are live one
         * after the other. */
        bool view = program->tensor[t].heads > 0;
        pt_block_tensor_t *tensor =
            &program->tensor[view ? program->tensor[t].host : t];

        tensor->read |= reads & order_bit(t) ? bit : 0;
        tensor->written |= writes & order_bit(t) ? bit : 0;
    }
}

static void order_mark_uses(pt_program_t *program)
{
    for (int list = 0; list < PT_LISTS; list++)
        for (int s = 0; s < program->steps[list] && list != PT_LIST_AGAIN; s++)
            order_mark_step(program, &program->list[list][s]);
}

/* Selects the nodes to recompute: not those whose outputs only the next block reads. */
static void order_find_wanted_again(const pt_program_t *program, bool *needed)
{
    set_t wanted = 0;

    for (int t = 0; t < program->tensors; t++)
        if (program->tensor[order_host_of(program, t)].read &
            (1u << PT_PASS_INPUT | 1u << PT_PASS_WEIGHT))
            wanted |= order_bit(t);
    for (int n = program->nodes - 1; n >= 0; n--) {
        const pt_node_t *node = &program->node[n];

        needed[n] = wanted & order_writes(node, PT_PASS_FORWARD);
        if (needed[n])
            wanted |= order_reads(node, PT_PASS_FORWARD);
    }
}

/* ---- gradients ---- */

/* For each tensor, whose gradients its memory holds while the input steps run. */
typedef struct holder {
    set_t of[PT_PROGRAM_TENSORS];
} holder_t;

/* Records that dx of `input` is computed: written, accumulated, or the same as dy. */
static pt_status_t order_make_gradient(pt_program_t *program, pt_node_t *node,
                                       int input, holder_t *holder)
{
    int x = node->operand[PT_X + input], y = node->operand[PT_Y];
    pt_gradient_t how = node->kind->gradient[input];
    const pt_block_tensor_t *tensor = &program->tensor[x];
    set_t *held = &holder->of[order_host_of(program, tensor->gradient)];

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
    set_t wanted = order_bit(y) | (tensor->heads > 0 ? order_bit(tensor->host) : 0);

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

static pt_status_t order_check(const pt_program_t *program, pt_list_t list)
{
    set_t there = order_bit(PT_TENSOR_X) | order_bit(PT_TENSOR_STREAM_GRADIENT);

    for (int t = 0; t < program->tensors; t++)
        if (order_is_left(&program->tensor[t], list))
            there |= order_bit(t);
    for (int s = 0; s < program->steps[list]; s++) {
        const pt_step_t *step = &program->list[list][s];
        set_t reads = order_reads(step->node, step->pass);
        set_t writes = order_writes(step->node, step->pass);

        for (int t = 0; t < program->tensors; t++)
            PT_CHECK(!(reads & order_bit(t)) ||
                         (there & (order_bit(t) | order_bit(order_host_of(program, t)))),
                     PT_INTERNAL,
                     "block %s: node %s reads %s%s before any node has written it",
                     program->name, step->node->kind->name,
                     program->tensor[t].is_gradient ? "the gradient of " : "",
                     program->tensor[t].name);
        there |= writes | order_hosts_of(program, writes);
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
    for (int list = 0; list < PT_LISTS; list++)
        PT_TRY(order_check(program, (pt_list_t)list));
    return PT_OK;
}
