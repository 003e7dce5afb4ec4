/* SPDX-License-Identifier: Apache-2.0 */
/* The three passes over the blocks. Only this file knows recompute, the split of the backward pass, and the brackets
 * around the weights of a unit. */
#include "src/model/block.h"

typedef struct pass {
    pt_model_t *model;
    const pt_action_t *action;
    const pt_batch_view_t *batch;
    const pt_decode_t *decode; /* NULL: no cache */
    pt_passage_t passage;
    const pt_chunk_t *chunk;
    pt_stream_t *stream;
    int unit;            /* the unit whose brackets are open; -1: none */
    int borrowed;        /* a second unit whose weights are open; -1: none */
    bool weights, grads; /* which are */
    bool last;           /* no gradient comes after this pass */
} pass_t;

static pt_status_t pass_leave(pass_t *pass)
{
    pt_units_t *units = pass->model->units;
    int unit = pass->unit, borrowed = pass->borrowed;

    pass->unit = pass->borrowed = -1;
    if (unit < 0)
        return PT_OK;
    if (borrowed >= 0)
        PT_TRY(pt_units_release(units, borrowed, pass->stream));
    if (pass->grads)
        PT_TRY(pt_units_grad_done(units, unit, pass->last, pass->stream));
    return pass->weights ? pt_units_release(units, unit, pass->stream) : PT_OK;
}

static pt_status_t pass_enter(pass_t *pass, const pt_block_t *block, bool weights,
                              bool grads)
{
    pt_units_t *units = pass->model->units;

    pass->model->where->layer = block->layer;
    pass->model->where->site = block->program->name;
    PT_TRY(pt_comm_progress(pass->model->engine));
    if (pass->unit == block->unit && pass->weights == weights && pass->grads == grads)
        return PT_OK;
    PT_TRY(pass_leave(pass));
    if (weights)
        PT_TRY(pt_units_need(units, block->unit, pass->stream));
    if (weights && block->borrowed >= 0)
        PT_TRY(pt_units_need(units, block->borrowed, pass->stream));
    if (grads)
        PT_TRY(pt_units_grad_need(units, block->unit, pass->stream));
    pass->unit = block->unit;
    pass->borrowed = weights ? block->borrowed : -1;
    pass->weights = weights;
    pass->grads = grads;
    return PT_OK;
}

static pt_call_t pass_call(const pass_t *pass, int b)
{
    pt_model_t *model = pass->model;
    pt_call_t call = {.model = model,
                      .block = &model->block[b],
                      .action = pass->action,
                      .batch = pass->batch,
                      .decode = pass->decode,
                      .stream = pass->stream,
                      .rows = pass->batch->token.shape[0],
                      .last_weight = pass->last};

    if (b == pass->chunk->first)
        call.x = pass->passage.in;
    call.y = b + 1 < pass->chunk->end
                 ? pt_model_bind(model, &model->block[b + 1], PT_TENSOR_X, pass->action,
                                 call.rows)
                 : pass->passage.out;
    return call;
}

static pt_status_t pass_run_steps(pt_call_t *call, pt_list_t list)
{
    const pt_program_t *program = call->block->program;

    for (int s = 0; s < program->steps[list]; s++) {
        const pt_step_t *step = &program->list[list][s];
        const pt_node_pass_t *pass = &step->node->kind->pass[step->pass];

        call->again = step->again;
        PT_TRY((step->ends ? pass->end : pass->run)(call, step->node));
        PT_TRY(pt_comm_progress(call->model->engine));
    }
    return PT_OK;
}

/* A block without weight steps has its gradients in forward, or none. */
static bool pass_has_weights(const pt_block_t *block)
{
    return block->program->has_weights;
}

/* Blocks [first, end); the last one as far as `last` goes. */
static pt_status_t pass_run_forward(pass_t *pass, int first, int end, pt_list_t last)
{
    for (int b = first; b < end; b++) {
        pt_call_t call = pass_call(pass, b);
        bool grads = pass->batch->training && !pass_has_weights(call.block);

        PT_TRY(pass_enter(pass, call.block, true, grads));
        PT_TRY(pass_run_steps(&call, b + 1 < end ? PT_LIST_FORWARD : last));
    }
    return PT_OK;
}

/* The layers of the group that ends with block b, from the input kept. */
static pt_status_t pass_run_again(pass_t *pass, int b)
{
    const pt_block_t *block = pass->model->block;
    int first = b;

    while (first > pass->chunk->first && block[first - 1].group == block[b].group)
        first--;
    return pass_run_forward(pass, first, b + 1, PT_LIST_AGAIN);
}

static bool pass_ends_group(const pass_t *pass, int b)
{
    const pt_block_t *block = &pass->model->block[b];

    return block->group >= 0 &&
           (b + 1 == pass->chunk->end || block[1].group != block->group);
}

static pt_status_t pass_backward_block(pass_t *pass, int b, pt_tensor_t dy)
{
    const pt_block_t *block = &pass->model->block[b];
    bool fused = pass->action->fused;
    pt_call_t call;

    if (pass_ends_group(pass, b))
        PT_TRY(pass_run_again(pass, b));
    call = pass_call(pass, b);
    call.dy = dy;
    PT_TRY(pass_enter(pass, block, true, fused && pass_has_weights(block)));
    PT_TRY(pass_run_steps(&call, PT_LIST_BACKWARD));
    return fused ? pass_run_steps(&call, PT_LIST_WEIGHT) : PT_OK;
}

static const pt_chunk_t *pass_find_chunk(const pt_model_t *model, int position)
{
    for (int c = 0; c < model->chunks; c++)
        if (model->chunk[c].position == position)
            return &model->chunk[c];
    return NULL;
}

/* Activations enter every chunk but the first and leave every chunk but the last. */
static bool pass_is_passage_right(const pass_t *pass)
{
    int last = pass->model->table->cut.positions - 1;

    return (pass->passage.in.ndim > 0) == (pass->chunk->position > 0) &&
           (pass->passage.out.ndim > 0) == (pass->chunk->position < last);
}

static pt_status_t pass_begin(pass_t *pass, const pt_passage_t *passage,
                              pt_phase_t phase)
{
    pt_model_t *model = pass->model;
    int64_t rows = pass->batch->token.shape[0];

    pass->chunk = pass_find_chunk(model, pass->action->position);
    if (passage)
        pass->passage = *passage;
    PT_REQUIRE(pass->chunk && pass_is_passage_right(pass));
    PT_REQUIRE(rows >= 1 && rows <= model->rows);
    PT_REQUIRE(!pass->batch->training ||
               (model->options.training && rows == model->rows));
    PT_REQUIRE(pass->action->fused || !model->options.fused ||
               pass->action->kind == PT_ACTION_F);
    pass->unit = pass->borrowed = -1;
    model->where->phase = phase;
    model->where->chunk = (int)(pass->chunk - model->chunk);
    model->where->micro_batch = pass->action->micro_batch;
    return PT_OK;
}

static pt_status_t pass_end(pass_t *pass)
{
    PT_TRY(pass_leave(pass));
    pass->model->where->layer = pass->model->where->chunk = -1;
    pass->model->where->micro_batch = -1;
    pass->model->where->site = NULL;
    return PT_OK;
}

pt_status_t pt_model_forward(pt_model_t *model, const pt_action_t *action,
                             const pt_batch_view_t *batch, const pt_passage_t *passage,
                             pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = action,
                   .batch = batch,
                   .stream = stream,
                   .last = action->last};

    PT_TRY(pass_begin(&pass, passage,
                      batch->training ? PT_PHASE_FORWARD : PT_PHASE_EVALUATE));
    PT_TRY(pass_run_forward(&pass, pass.chunk->first, pass.chunk->end, PT_LIST_FORWARD));
    return pass_end(&pass);
}

pt_status_t pt_model_backward(pt_model_t *model, const pt_action_t *action,
                              const pt_batch_view_t *batch, const pt_passage_t *passage,
                              pt_tensor_t *gradient, pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = action,
                   .batch = batch,
                   .stream = stream,
                   .last = action->fused && action->last};

    PT_TRY(pass_begin(&pass, passage, PT_PHASE_BACKWARD));
    if (action->position == model->table->cut.positions - 1)
        *gradient = pt_head_gradient(model, &model->block[pass.chunk->end - 1], action,
                                     model->rows);
    PT_REQUIRE(gradient->ndim > 0);
    for (int b = pass.chunk->end - 1; b >= pass.chunk->first; b--)
        PT_TRY(pass_backward_block(&pass, b, *gradient));
    return pass_end(&pass);
}

pt_status_t pt_model_weight(pt_model_t *model, const pt_action_t *action,
                            const pt_batch_view_t *batch, const pt_passage_t *passage,
                            pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = action,
                   .batch = batch,
                   .stream = stream,
                   .last = action->last};

    PT_REQUIRE(!model->options.fused);
    PT_TRY(pass_begin(&pass, passage, PT_PHASE_WEIGHT_GRADIENT));
    for (int b = pass.chunk->end - 1; b >= pass.chunk->first; b--) {
        pt_call_t call = pass_call(&pass, b);

        if (!pass_has_weights(call.block))
            continue;
        PT_TRY(pass_enter(&pass, call.block, false, true));
        PT_TRY(pass_run_steps(&call, PT_LIST_WEIGHT));
    }
    return pass_end(&pass);
}

/* ---- without training ---- */

static const pt_action_t alone = {.kind = PT_ACTION_F};

pt_status_t pt_model_evaluate(pt_model_t *model, const pt_batch_view_t *batch,
                              pt_stream_t *stream)
{
    PT_REQUIRE(!batch->training);
    return pt_model_forward(model, &alone, batch, NULL, stream);
}

static pt_status_t pass_logits_of(pass_t *pass, int64_t first_row, pt_tensor_t logits)
{
    const pt_batch_view_t *batch = pass->batch;
    int head = pass->model->blocks - 1;

    PT_REQUIRE(!batch->training && first_row >= 0 && logits.ndim == 2 &&
               logits.shape[0] <= batch->token.shape[0] - first_row &&
               logits.shape[1] == pass->model->arch->vocab);
    PT_TRY(pass_begin(pass, NULL, PT_PHASE_EVALUATE));
    PT_TRY(pass_run_forward(pass, 0, head, PT_LIST_FORWARD));
    pt_call_t call = pass_call(pass, head);
    PT_TRY(pass_enter(pass, call.block, true, false));
    PT_TRY(pt_head_logits(&call, first_row, logits));
    return pass_end(pass);
}

pt_status_t pt_model_logits(pt_model_t *model, const pt_batch_view_t *batch,
                            int64_t first_row, pt_tensor_t logits, pt_stream_t *stream)
{
    pass_t pass = {.model = model, .action = &alone, .batch = batch, .stream = stream};

    return pass_logits_of(&pass, first_row, logits);
}

pt_status_t pt_model_decode(pt_model_t *model, const pt_batch_view_t *batch,
                            const pt_decode_t *decode, int64_t first_row,
                            pt_tensor_t logits, pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = &alone,
                   .batch = batch,
                   .decode = decode,
                   .stream = stream};
    int64_t rows = batch->token.shape[0] / batch->sequences;

    PT_REQUIRE(!batch->document.data);
    for (int64_t i = 0; i < batch->sequences; i++)
        PT_REQUIRE(decode->slot[i] >= 0 && decode->first[i] >= 0 &&
                   decode->slot[i] < model->options.cache_sequences &&
                   rows <= model->options.cache_length - decode->first[i]);
    return pass_logits_of(&pass, first_row, logits);
}
