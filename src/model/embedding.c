/* y = dropout(token embedding + position embedding, where learned). Its B part hands
 * nothing on: the gradient of y is only kept for the tables. */
#include "src/model/block.h"

enum { DOUT = PT_TENSOR_INPUT + 1 };

static void plan(const pt_model_t *model, pt_block_t *block)
{
    pt_block_rows(model, block, DOUT, PT_KEEP_GRADIENT, model->arch->hidden);
}

static pt_status_t forward(pt_call_t *call)
{
    const pt_batch_view_t *batch = call->batch;
    pt_device_t *device = call->model->device;
    pt_tensor_t position = pt_call_weight(call, PT_ROLE_POSITION_EMBEDDING);
    pt_dropout_t dropout = pt_call_dropout(call, PT_DROPOUT_EMBEDDING);

    PT_TRY(pt_op_embed_fwd(
        device, call->stream,
        &(pt_op_embed_fwd_t){.index = batch->token,
                             .table = pt_call_weight(call, PT_ROLE_TOKEN_EMBEDDING),
                             .y = call->y}));
    if (position.data)
        PT_TRY(pt_op_embed_fwd(device, call->stream,
                               &(pt_op_embed_fwd_t){.index = batch->position,
                                                    .table = position,
                                                    .y = call->y,
                                                    .accumulate = true}));
    if (dropout.p > 0)
        PT_TRY(pt_op_dropout(
            device, call->stream,
            &(pt_op_dropout_t){.x = call->y, .y = call->y, .dropout = dropout}));
    return PT_OK;
}

static pt_status_t backward_input(pt_call_t *call)
{
    return pt_op_dropout(
        call->model->device, call->stream,
        &(pt_op_dropout_t){.x = call->dy,
                           .y = call->t[DOUT],
                           .dropout = pt_call_dropout(call, PT_DROPOUT_EMBEDDING)});
}

/* The tied head's gradient of the whole step joins here, and its buffer is empty for
 * the next. */
static pt_status_t add_tied(const pt_call_t *call, pt_tensor_t dtable)
{
    pt_tensor_t tied = call->model->tied_grad;

    PT_TRY(pt_op_add(call->model->device, call->stream,
                     &(pt_op_add_t){.a = dtable, .b = tied, .y = dtable}));
    return pt_op_fill(call->model->device, call->stream, &(pt_op_fill_t){.x = tied});
}

static pt_status_t backward_weight(pt_call_t *call)
{
    const pt_batch_view_t *batch = call->batch;
    pt_device_t *device = call->model->device;
    pt_tensor_t dtoken = pt_call_grad(call, PT_ROLE_TOKEN_EMBEDDING);
    pt_tensor_t dposition = pt_call_grad(call, PT_ROLE_POSITION_EMBEDDING);

    PT_TRY(pt_op_embed_bwd(device, call->stream,
                           &(pt_op_embed_bwd_t){.index = batch->token,
                                                .dy = call->t[DOUT],
                                                .dtable = dtoken}));
    if (dposition.data)
        PT_TRY(pt_op_embed_bwd(device, call->stream,
                               &(pt_op_embed_bwd_t){.index = batch->position,
                                                    .dy = call->t[DOUT],
                                                    .dtable = dposition}));
    if (call->model->arch->tied && call->last_weight)
        PT_TRY(add_tied(call, dtoken));
    return PT_OK;
}

const pt_block_ops_t pt_embedding_block = {.name = "embedding",
                                           .plan = plan,
                                           .forward = forward,
                                           .backward_input = backward_input,
                                           .backward_weight = backward_weight};
