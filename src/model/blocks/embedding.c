/* SPDX-License-Identifier: Apache-2.0 */
/* y = dropout(token embedding + position embedding, where learned). Its input pass hands
 * nothing on: the gradient of y is only kept for the tables. */
#include "src/model/block.h"

static pt_status_t embedding_forward(const pt_call_t *call, const pt_node_t *node)
{
    const pt_batch_view_t *batch = call->batch;
    pt_device_t *device = call->model->device;
    pt_tensor_t y = pt_call_operand(call, node, PT_Y);
    pt_tensor_t position = pt_call_weight(call, PT_ROLE_POSITION_EMBEDDING);
    pt_dropout_t dropout = pt_call_dropout(call, node->dropout);

    PT_TRY(pt_op_embed_fwd(
        device, call->stream,
        &(pt_op_embed_fwd_t){.index = batch->token,
                             .table = pt_call_weight(call, PT_ROLE_TOKEN_EMBEDDING),
                             .y = y}));
    if (position.data)
        PT_TRY(pt_op_embed_fwd(device, call->stream,
                               &(pt_op_embed_fwd_t){.index = batch->position,
                                                    .table = position,
                                                    .y = y,
                                                    .accumulate = true}));
    if (dropout.p > 0)
        PT_TRY(pt_op_dropout(device, call->stream,
                             &(pt_op_dropout_t){.x = y, .y = y, .dropout = dropout}));
    return PT_OK;
}

static pt_status_t embedding_input(const pt_call_t *call, const pt_node_t *node)
{
    return pt_op_dropout(
        call->model->device, call->stream,
        &(pt_op_dropout_t){.x = pt_call_operand(call, node, PT_DY),
                           .y = pt_call_operand(call, node, PT_AUX),
                           .dropout = pt_call_dropout(call, node->dropout)});
}

/* The tied head's gradient of the whole step joins here, and its buffer is empty for
 * the next. */
static pt_status_t embedding_add_tied(const pt_call_t *call, pt_tensor_t dtable)
{
    pt_tensor_t tied = call->model->tied_grad;

    PT_TRY(pt_op_add(call->model->device, call->stream,
                     &(pt_op_add_t){.a = dtable, .b = tied, .y = dtable}));
    return pt_call_clear(call, tied);
}

static pt_status_t embedding_weight(const pt_call_t *call, const pt_node_t *node)
{
    const pt_batch_view_t *batch = call->batch;
    pt_device_t *device = call->model->device;
    pt_tensor_t dy = pt_call_operand(call, node, PT_AUX);
    pt_tensor_t dtoken = pt_call_grad(call, PT_ROLE_TOKEN_EMBEDDING);
    pt_tensor_t dposition = pt_call_grad(call, PT_ROLE_POSITION_EMBEDDING);

    PT_TRY(pt_op_embed_bwd(
        device, call->stream,
        &(pt_op_embed_bwd_t){.index = batch->token, .dy = dy, .dtable = dtoken}));
    if (dposition.data)
        PT_TRY(pt_op_embed_bwd(device, call->stream,
                               &(pt_op_embed_bwd_t){.index = batch->position,
                                                    .dy = dy,
                                                    .dtable = dposition}));
    if (call->model->arch->tied && call->last_weight)
        PT_TRY(embedding_add_tied(call, dtoken));
    return PT_OK;
}

/* Ranks that share the rows of the table each know some tokens. */
static pt_status_t embedding_placement(pt_program_t *program, const pt_node_t *node,
                                       pt_axis_t axis)
{
    if (pt_program_placement_of(program, PT_ROLE_TOKEN_EMBEDDING, axis).placement ==
        PT_SHARDED)
        pt_program_set_placement(program, node->operand[PT_Y], axis,
                                 (pt_dist_t){PT_PARTIAL_SUM, -1});
    return PT_OK;
}

static const pt_node_kind_t embedding_node = {
    .name = "embedding",
    .pass = {{0, PT_USE(Y), embedding_forward, NULL},
             {PT_USE(DY), PT_USE(AUX), embedding_input, NULL},
             {PT_USE(AUX), 0, embedding_weight, NULL}},
    .placement = embedding_placement};

void pt_describe_embedding(pt_program_t *p)
{
    int gradient = pt_program_rows(p, "gradient of y", p->context.arch->hidden);

    pt_program_add(
        p, &(pt_node_t){.kind = &embedding_node,
                        .operand = {[PT_Y] = PT_TENSOR_Y, [PT_AUX] = gradient},
                        .role = {PT_ROLE_TOKEN_EMBEDDING, PT_ROLE_POSITION_EMBEDDING},
                        .dropout = PT_DROPOUT_EMBEDDING});
}
