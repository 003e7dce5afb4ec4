/* Positions and attention. */
#include "src/model/nodes/heads.h"

#include <math.h>

/* ---- rotary ---- */

static pt_status_t turn(const pt_call_t *call, pt_tensor_t x, bool inverse)
{
    const pt_model_t *model = call->model;
    pt_heads_t heads = pt_heads_of(call, x);
    pt_op_rotary_t args = {.position = call->batch->position,
                           .cos = model->cos,
                           .sin = model->sin,
                           .inverse = inverse};

    args.x = heads.q;
    PT_TRY(pt_op_rotary(model->device, call->stream, &args));
    args.x = heads.k;
    return pt_op_rotary(model->device, call->stream, &args);
}

static pt_status_t rotary_forward(const pt_call_t *call, const pt_node_t *node)
{
    return turn(call, pt_call_operand(call, node, PT_X), false);
}

static pt_status_t rotary_input(const pt_call_t *call, const pt_node_t *node)
{
    return turn(call, pt_call_operand(call, node, PT_DX), true);
}

const pt_node_kind_t pt_rotary_node = {.name = "rotary",
                                       .pass = {{PT_USE(X), PT_USE(X), rotary_forward},
                                                {PT_USE(DY), PT_USE(DX), rotary_input}},
                                       .in_place = true};

void pt_add_rotary(pt_program_t *program, int x)
{
    if (pt_rotary_columns(program->context.arch) > 0)
        pt_program_node(program, &(pt_node_t){.kind = &pt_rotary_node,
                                              .operand = PT_OPERANDS_XY(x, x),
                                              .role = {PT_ROLE_COUNT, PT_ROLE_COUNT}});
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

/* o, or its gradient, by heads. */
static pt_tensor_t attend_heads(const pt_call_t *call, const pt_node_t *node,
                                pt_operand_t operand)
{
    return pt_heads_view(pt_call_operand(call, node, operand), 0, call->model->heads,
                         call->model->arch->head_dim);
}

static pt_status_t attend_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_heads_t qk = pt_heads_of(call, pt_call_operand(call, node, PT_X));
    pt_heads_t qkv = pt_heads_of(call, pt_call_operand(call, node, PT_X2));
    pt_op_attention_fwd_t args = {.q = qk.q,
                                  .k = qk.k,
                                  .v = qkv.v,
                                  .o = attend_heads(call, node, PT_Y),
                                  .lse = pt_call_operand(call, node, PT_STAT),
                                  .shape = attend_shape(call),
                                  .dropout =
                                      pt_call_dropout(call, PT_DROPOUT_ATTENTION)};

    if (call->decode)
        return pt_cache_attend(call, &args);
    return pt_op_attention_fwd(call->model->device, call->stream, &args);
}

static pt_status_t attend_input(const pt_call_t *call, const pt_node_t *node)
{
    pt_heads_t qk = pt_heads_of(call, pt_call_operand(call, node, PT_X));
    pt_heads_t qkv = pt_heads_of(call, pt_call_operand(call, node, PT_X2));
    pt_heads_t gradient = pt_heads_of(call, pt_call_operand(call, node, PT_DX2));

    return pt_op_attention_bwd(
        call->model->device, call->stream,
        &(pt_op_attention_bwd_t){.q = qk.q,
                                 .k = qk.k,
                                 .v = qkv.v,
                                 .o = attend_heads(call, node, PT_Y),
                                 .lse = pt_call_operand(call, node, PT_STAT),
                                 .do_ = attend_heads(call, node, PT_DY),
                                 .dq = gradient.q,
                                 .dk = gradient.k,
                                 .dv = gradient.v,
                                 .shape = attend_shape(call),
                                 .dropout =
                                     pt_call_dropout(call, PT_DROPOUT_ATTENTION)});
}

const pt_node_kind_t pt_attend_node = {
    .name = "attend",
    .pass = {{PT_USE(X) | PT_USE(X2), PT_USE(Y) | PT_USE(STAT), attend_forward},
             {PT_USE(X) | PT_USE(X2) | PT_USE(Y) | PT_USE(STAT) | PT_USE(DY),
              PT_USE(DX) | PT_USE(DX2), attend_input}}};

void pt_add_attend(pt_program_t *program, int qk, int qkv, int y)
{
    pt_node_t node = {.kind = &pt_attend_node,
                      .operand = PT_OPERANDS_XY(qk, y),
                      .role = {PT_ROLE_COUNT, PT_ROLE_COUNT}};
    int64_t width = program->context.arch->head_dim;

    node.operand[PT_X2] = qkv;
    node.operand[PT_STAT] = pt_program_stats(program, "log-sum-exp",
                                             program->tensor[y].shape.shape[1] / width);
    pt_program_node(program, &node);
}
