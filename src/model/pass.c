/* The three passes over the blocks. Recompute and the split of backward are here and
 * nowhere else; so are the brackets around the weights of a unit. */
#include "src/model/block.h"

typedef struct pass {
    pt_model_t *model;
    const pt_action_t *action;
    const pt_batch_view_t *batch;
    const pt_decode_t *decode; /* NULL: no cache */
    pt_stream_t *stream;
    int unit;            /* whose brackets are open; -1: none */
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
    if (pass->unit == block->unit)
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
    return (pt_call_t){.model = pass->model,
                       .block = &pass->model->block[b],
                       .action = pass->action,
                       .batch = pass->batch,
                       .decode = pass->decode,
                       .stream = pass->stream,
                       .rows = pass->batch->token.shape[0],
                       .last_weight = pass->last};
}

static pt_status_t run_steps(pt_call_t *call, pt_list_t list)
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
static bool has_weights(const pt_block_t *block)
{
    return block->program->has_weights;
}

/* Blocks [first, end); the last one as far as `last` goes. */
static pt_status_t run_forward(pass_t *pass, int first, int end, pt_list_t last)
{
    pt_model_t *model = pass->model;

    for (int b = first; b < end; b++) {
        pt_call_t call = pass_call(pass, b);
        bool grads = pass->batch->training && !has_weights(call.block);

        if (b + 1 < model->blocks)
            call.y = pt_model_bind(model, &model->block[b + 1], PT_TENSOR_X,
                                   pass->action, call.rows);
        PT_TRY(pass_enter(pass, call.block, true, grads));
        PT_TRY(run_steps(&call, b + 1 < end ? PT_LIST_FORWARD : last));
    }
    return PT_OK;
}

/* The layers of the group that ends with block b, from the input kept. */
static pt_status_t run_again(pass_t *pass, int b)
{
    const pt_block_t *block = pass->model->block;
    int first = b;

    while (block[first - 1].group == block[b].group)
        first--;
    PT_TRY(pass_leave(pass));
    PT_TRY(run_forward(pass, first, b + 1, PT_LIST_AGAIN));
    return pass_leave(pass);
}

/* Gradient brackets of a block whose weight pass is empty only say that its gradient
 * is complete. */
static bool has_grads(const pass_t *pass, const pt_block_t *block)
{
    return has_weights(block) || pass->last;
}

static pt_status_t backward_block(pass_t *pass, int b, pt_tensor_t dy)
{
    const pt_block_t *block = &pass->model->block[b];
    bool fused = pass->action->fused;
    pt_call_t call;

    if (block->group >= 0 && block[1].group != block->group)
        PT_TRY(run_again(pass, b));
    call = pass_call(pass, b);
    call.dy = dy;
    PT_TRY(pass_enter(pass, block, true, fused && has_grads(pass, block)));
    PT_TRY(run_steps(&call, PT_LIST_BACKWARD));
    return fused ? run_steps(&call, PT_LIST_WEIGHT) : PT_OK;
}

static pt_status_t pass_begin(pass_t *pass, pt_phase_t phase)
{
    pt_model_t *model = pass->model;
    int64_t rows = pass->batch->token.shape[0];

    PT_REQUIRE(pass->action->chunk == 0 && rows >= 1 && rows <= model->rows);
    PT_REQUIRE(!pass->batch->training ||
               (model->options.training && rows == model->rows));
    PT_REQUIRE(pass->action->fused || !model->options.fused ||
               pass->action->kind == PT_ACTION_F);
    pass->unit = pass->borrowed = -1;
    model->where->phase = phase;
    model->where->chunk = pass->action->chunk;
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
                             const pt_batch_view_t *batch, pt_stream_t *stream)
{
    pass_t pass = {.model = model, .action = action, .batch = batch, .stream = stream};

    PT_TRY(pass_begin(&pass, PT_PHASE_FORWARD));
    PT_TRY(run_forward(&pass, 0, model->blocks, PT_LIST_FORWARD));
    return pass_end(&pass);
}

pt_status_t pt_model_backward(pt_model_t *model, const pt_action_t *action,
                              const pt_batch_view_t *batch, pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = action,
                   .batch = batch,
                   .stream = stream,
                   .last = action->fused && action->last_weight};

    PT_TRY(pass_begin(&pass, PT_PHASE_BACKWARD));
    pt_tensor_t dy =
        pt_head_gradient(model, &model->block[model->blocks - 1], action, model->rows);
    for (int b = model->blocks - 1; b >= 0; b--)
        PT_TRY(backward_block(&pass, b, dy));
    return pass_end(&pass);
}

pt_status_t pt_model_weight(pt_model_t *model, const pt_action_t *action,
                            const pt_batch_view_t *batch, pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = action,
                   .batch = batch,
                   .stream = stream,
                   .last = action->last_weight};

    PT_REQUIRE(!model->options.fused);
    PT_TRY(pass_begin(&pass, PT_PHASE_WEIGHT_GRADIENT));
    for (int b = model->blocks - 1; b >= 0; b--) {
        pt_call_t call = pass_call(&pass, b);

        PT_TRY(pass_enter(&pass, call.block, false, has_grads(&pass, call.block)));
        PT_TRY(run_steps(&call, PT_LIST_WEIGHT));
    }
    return pass_end(&pass);
}

/* ---- without training ---- */

static const pt_action_t alone = {.kind = PT_ACTION_F};

pt_status_t pt_model_evaluate(pt_model_t *model, const pt_batch_view_t *batch,
                              pt_stream_t *stream)
{
    pass_t pass = {.model = model, .action = &alone, .batch = batch, .stream = stream};

    PT_REQUIRE(!batch->training);
    PT_TRY(pass_begin(&pass, PT_PHASE_EVALUATE));
    PT_TRY(run_forward(&pass, 0, model->blocks, PT_LIST_FORWARD));
    return pass_end(&pass);
}

static pt_status_t logits_of(pass_t *pass, int64_t first_row, pt_tensor_t logits)
{
    const pt_batch_view_t *batch = pass->batch;
    int head = pass->model->blocks - 1;

    PT_REQUIRE(!batch->training && first_row >= 0 && logits.ndim == 2 &&
               logits.shape[0] <= batch->token.shape[0] - first_row &&
               logits.shape[1] == pass->model->arch->vocab);
    PT_TRY(pass_begin(pass, PT_PHASE_EVALUATE));
    PT_TRY(run_forward(pass, 0, head, PT_LIST_FORWARD));
    pt_call_t call = pass_call(pass, head);
    PT_TRY(pass_enter(pass, call.block, true, false));
    PT_TRY(pt_head_logits(&call, first_row, logits));
    return pass_end(pass);
}

pt_status_t pt_model_logits(pt_model_t *model, const pt_batch_view_t *batch,
                            int64_t first_row, pt_tensor_t logits, pt_stream_t *stream)
{
    pass_t pass = {.model = model, .action = &alone, .batch = batch, .stream = stream};

    return logits_of(&pass, first_row, logits);
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
    return logits_of(&pass, first_row, logits);
}
