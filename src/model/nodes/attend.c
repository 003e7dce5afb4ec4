/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions and attention. */
#include "src/model/block.h"

#include <math.h>

/* ---- rotary ---- */

static pt_status_t rotary_turn(const pt_call_t *call, pt_tensor_t x, bool inverse)
{
    const pt_model_t *model = call->model;

    return pt_op_rotary(model->device, call->stream,
                        &(pt_op_rotary_t){.x = x,
                                          .position = call->batch->position,
                                          .cos = model->cos,
                                          .sin = model->sin,
                                          .inverse = inverse});
}

static pt_status_t rotary_forward(const pt_call_t *call, const pt_node_t *node)
{
    return rotary_turn(call, pt_call_operand(call, node, PT_X), false);
}

static pt_status_t rotary_input(const pt_call_t *call, const pt_node_t *node)
{
    return rotary_turn(call, pt_call_operand(call, node, PT_DX), true);
}

static const pt_node_kind_t rotary_node = {
    .name = "rotary",
    .pass = {{PT_USE(X), PT_USE(Y), rotary_forward, NULL},
             {PT_USE(DY), PT_USE(DX), rotary_input, NULL}},
    .gradient = {PT_GRADIENT_IN_PLACE}};

void pt_add_rotary(pt_program_t *program, int x)
{
    if (pt_rotary_columns(program->context.arch) > 0)
        pt_program_add(program, &(pt_node_t){.kind = &rotary_node,
                                             .operand = {[PT_X] = x, [PT_Y] = x}});
}

/* ---- attention ---- */

static pt_attention_shape_t attend_shape(const pt_call_t *call)
{
    const pt_batch_view_t *batch = call->batch;
    pt_attention_shape_t shape = {.sequences = batch->sequences,
                                  .scale = 1 / sqrt((double)call->model->arch->head_dim),
                                  .q_position = batch->place,
                                  .k_position = batch->place};

    if (batch->document.data)
        shape.q_document = shape.k_document = batch->document;
    return shape;
}

static pt_status_t attend_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_op_attention_fwd_t args = {.q = pt_call_operand(call, node, PT_X),
                                  .k = pt_call_operand(call, node, PT_X2),
                                  .v = pt_call_operand(call, node, PT_X3),
                                  .o = pt_call_operand(call, node, PT_Y),
                                  .lse = pt_call_operand(call, node, PT_AUX),
                                  .shape = attend_shape(call),
                                  .dropout =
                                      pt_call_dropout(call, PT_DROPOUT_ATTENTION)};

    if (call->decode)
        return pt_cache_attend(call, &args);
    return pt_op_attention_fwd(call->model->device, call->stream, &args);
}

static pt_status_t attend_input(const pt_call_t *call, const pt_node_t *node)
{
    return pt_op_attention_bwd(
        call->model->device, call->stream,
        &(pt_op_attention_bwd_t){.q = pt_call_operand(call, node, PT_X),
                                 .k = pt_call_operand(call, node, PT_X2),
                                 .v = pt_call_operand(call, node, PT_X3),
                                 .o = pt_call_operand(call, node, PT_Y),
                                 .lse = pt_call_operand(call, node, PT_AUX),
                                 .do_ = pt_call_operand(call, node, PT_DY),
                                 .dq = pt_call_operand(call, node, PT_DX),
                                 .dk = pt_call_operand(call, node, PT_DX2),
                                 .dv = pt_call_operand(call, node, PT_DX3),
                                 .shape = attend_shape(call),
                                 .dropout =
                                     pt_call_dropout(call, PT_DROPOUT_ATTENTION)});
}

/* Each rank computes its own heads. Sharded rows would need the keys of other ranks. */
static pt_status_t attend_placement(pt_program_t *program, const pt_node_t *node,
                                    pt_axis_t axis)
{
    pt_dist_t q = pt_program_placement(program, node->operand[PT_X], axis);

    for (int i = 0; i < PT_NODE_INPUTS; i++) {
        pt_dist_t x = pt_program_placement(program, node->operand[PT_X + i], axis);

        PT_TRY(
            pt_program_expect_whole(program, node, (pt_operand_t)(PT_X + i), axis, 0));
        PT_CHECK(
            x.placement == q.placement, PT_INTERNAL,
            "block %s: node %s has all heads of some of q, k, v and a share of others "
            "on the %s axis",
            program->name, node->kind->name, pt_axis_name(axis));
    }
    pt_program_set_placement(program, node->operand[PT_Y], axis, q);
    return PT_OK;
}

#define INPUTS (PT_USE(X) | PT_USE(X2) | PT_USE(X3))
static const pt_node_kind_t attend_node = {
    .name = "attend",
    .pass = {{INPUTS, PT_USE(Y) | PT_USE(AUX), attend_forward, NULL},
             {INPUTS | PT_USE(Y) | PT_USE(AUX) | PT_USE(DY),
              PT_USE(DX) | PT_USE(DX2) | PT_USE(DX3), attend_input, NULL}},
    .placement = attend_placement};

void pt_add_attend(pt_program_t *program, int q, int k, int v, int y)
{
    int64_t heads = program->tensor[q].shape.shape[1];

    pt_program_add(program,
                   &(pt_node_t){.kind = &attend_node,
                                .operand = {[PT_X] = q,
                                            [PT_X2] = k,
                                            [PT_X3] = v,
                                            [PT_Y] = y,
                                            [PT_AUX] = pt_program_stats(
                                                program, "log-sum-exp", heads)}});
}
