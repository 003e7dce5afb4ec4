/* The three passes over the blocks. Recompute and the split of backward are here and
 * nowhere else; so are the brackets around the weights of a unit. */
#include "src/model/block.h"

#include "penta/base/alloc.h"

/* ---- set-up ---- */

static void describe(pt_model_t *model, const pt_block_ops_t *ops, int layer,
                     pt_block_t *block)
{
    const pt_model_options_t *options = &model->options;
    bool again = options->training && options->recompute_every >= 1 && layer >= 0;

    block->ops = ops;
    block->layer = layer;
    block->group = again ? layer / options->recompute_every : -1;
    block->unit = layer >= 0                   ? 1 + layer
                  : ops == &pt_embedding_block ? 0
                                               : model->table->units - 1;
    for (int role = 0; role < PT_ROLE_COUNT; role++)
        block->param[role] = pt_param_find(model->table, (pt_role_t)role, layer);
    ops->plan(model, block);
}

static void describe_all(pt_model_t *model)
{
    pt_block_t *block = model->block;

    describe(model, &pt_embedding_block, -1, block++);
    for (int layer = 0; layer < (int)model->arch->layers; layer++) {
        describe(model, &pt_attention_block, layer, block++);
        describe(model, &pt_ffn_block, layer, block++);
    }
    describe(model, &pt_head_block, -1, block);
}

pt_status_t pt_model_create(const pt_arch_t *arch, const pt_param_table_t *table,
                            pt_units_t *units, const pt_mesh_t *mesh,
                            pt_device_t *device, const pt_model_options_t *options,
                            pt_model_t **out)
{
    pt_status_t status;
    pt_model_t *model = NULL;

    *out = NULL;
    PT_REQUIRE(mesh->shape.size[PT_AXIS_PIPELINE] == 1 &&
               options->recompute_every >= -1);
    PT_REQUIRE(options->cache_sequences == 0 || !options->training);
    PT_TRY(PT_NEW("model", 1, &model));
    *model = (pt_model_t){.arch = arch,
                          .table = table,
                          .units = units,
                          .mesh = mesh,
                          .device = device,
                          .engine = pt_comm_engine(mesh->world),
                          .options = *options,
                          .nowhere = PT_WHERE_INIT,
                          .where = options->where};
    if (!model->where)
        model->where = &model->nowhere;
    model->blocks = (int)(2 * arch->layers + 2);
    if (__builtin_mul_overflow(options->micro_batch, options->sequence, &model->rows))
        PT_TRY_GOTO(fail, PT_FAIL(PT_MEMORY,
                                  "a micro-batch of %lld sequences of %lld tokens is "
                                  "more than 64 bits can count",
                                  (long long)options->micro_batch,
                                  (long long)options->sequence));
    PT_TRY_GOTO(fail, PT_NEW("blocks", (size_t)model->blocks, &model->block));
    describe_all(model);
    PT_TRY_GOTO(fail, pt_model_plan_memory(model));
    *out = model;
    return PT_OK;
fail:
    pt_model_destroy(model);
    return status;
}

void pt_model_destroy(pt_model_t *model)
{
    if (!model)
        return;
    pt_free(model->block);
    pt_free(model);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t op_workspace_bytes(const pt_model_t *model)
{
    const pt_arch_t *arch = model->arch;
    bool narrow = arch->dtype != pt_dtype_accumulator(arch->dtype);
    bool training = model->options.training;
    int64_t keys = narrow && training ? model->options.sequence : 0;
    bool learned = arch->positions == PT_POSITIONS_LEARNED;
    int64_t rows = larger(arch->vocab, learned ? arch->max_positions : 0);
    int64_t attention = pt_attention_workspace(model->device, arch->dtype, keys,
                                               arch->head_dim, arch->head_dim);
    int64_t bytes = larger(attention, pt_gemm_workspace(arch->dtype));

    return !training
               ? bytes
               : larger(bytes, pt_embed_bwd_workspace(pt_units_grad_dtype(model->units),
                                                      rows, model->rows));
}

pt_status_t pt_model_layout(pt_model_t *model, pt_arena_t *activations,
                            pt_arena_t *workspace, pt_arena_t *gradients)
{
    const pt_arch_t *arch = model->arch;
    int64_t table[2] = {model->options.sequence, pt_rotary_columns(arch) / 2};
    int64_t words = PT_SUM_WORDS;
    pt_dtype_t angle = pt_dtype_accumulator(arch->dtype);

    PT_TRY(pt_model_take_memory(model, activations, workspace));
    PT_TRY(pt_cache_layout(model, activations));
    PT_TRY(pt_arena_take(workspace, "workspace of ops", op_workspace_bytes(model),
                         &model->op_workspace));
    if (table[1] > 0) {
        PT_TRY(
            pt_arena_tensor(workspace, "rotary cosines", angle, 2, table, &model->cos));
        PT_TRY(pt_arena_tensor(workspace, "rotary sines", angle, 2, table, &model->sin));
    }
    PT_TRY(pt_arena_tensor(workspace, "sum of losses", PT_I64, 1, &words,
                           &model->accumulator));
    if (arch->tied && model->options.training) {
        int token = pt_param_find(model->table, PT_ROLE_TOKEN_EMBEDDING, -1);
        pt_tensor_t shape = pt_units_local_shape(model->units, token);

        PT_TRY(pt_arena_tensor(gradients, "gradient of the tied head",
                               pt_units_grad_dtype(model->units), 2, shape.shape,
                               &model->tied_grad));
    }
    return PT_OK;
}

pt_status_t pt_model_prepare(pt_model_t *model, pt_stream_t *stream)
{
    pt_device_set_workspace(model->device, stream, model->op_workspace,
                            op_workspace_bytes(model));
    if (model->tied_grad.data)
        PT_TRY(
            pt_op_fill(model->device, stream, &(pt_op_fill_t){.x = model->tied_grad}));
    PT_TRY(pt_model_clear_loss(model, stream));
    PT_TRY(pt_cache_prepare(model, stream));
    return pt_rotary_tables(model, stream);
}

pt_tensor_t pt_model_loss_accumulator(pt_model_t *model)
{
    return model->accumulator;
}

pt_status_t pt_model_clear_loss(pt_model_t *model, pt_stream_t *stream)
{
    pt_op_fill_t zero = {.x = model->accumulator};

    return pt_op_fill(model->device, stream, &zero);
}

/* ---- a pass ---- */

typedef struct pass {
    pt_model_t *model;
    const pt_action_t *action;
    const pt_batch_view_t *batch;
    const pt_decode_t *decode; /* NULL: no cache */
    pt_stream_t *stream;
    int unit;            /* whose brackets are open; -1: none */
    bool weights, grads; /* which are */
    bool last;           /* no gradient comes after this pass */
} pass_t;

static pt_status_t leave(pass_t *pass)
{
    pt_units_t *units = pass->model->units;
    int unit = pass->unit;

    pass->unit = -1;
    if (unit < 0)
        return PT_OK;
    if (pass->grads)
        PT_TRY(pt_units_grad_done(units, unit, pass->last, pass->stream));
    if (pass->weights)
        PT_TRY(pt_units_release(units, unit, pass->stream));
    return PT_OK;
}

static pt_status_t enter(pass_t *pass, const pt_block_t *block, bool weights, bool grads)
{
    pt_units_t *units = pass->model->units;

    pass->model->where->layer = block->layer;
    pass->model->where->site = block->ops->name;
    PT_TRY(pt_comm_progress(pass->model->engine));
    if (pass->unit == block->unit)
        return PT_OK;
    PT_TRY(leave(pass));
    if (weights)
        PT_TRY(pt_units_need(units, block->unit, pass->stream));
    if (grads)
        PT_TRY(pt_units_grad_need(units, block->unit, pass->stream));
    pass->unit = block->unit;
    pass->weights = weights;
    pass->grads = grads;
    return PT_OK;
}

static pt_call_t call_of(const pass_t *pass, int b)
{
    pt_model_t *model = pass->model;
    pt_call_t call = {.model = model,
                      .block = &model->block[b],
                      .batch = pass->batch,
                      .decode = pass->decode,
                      .stream = pass->stream,
                      .rows = pass->batch->token.shape[0],
                      .last_weight = pass->last};

    for (int i = 0; i < PT_BLOCK_TENSORS; i++)
        call.t[i] = pt_model_bind(model, call.block, i, pass->action, call.rows);
    return call;
}

static pt_tensor_t input_of(const pass_t *pass, int b)
{
    return pt_model_bind(pass->model, &pass->model->block[b], PT_TENSOR_INPUT,
                         pass->action, pass->batch->token.shape[0]);
}

/* Blocks [first, end). */
static pt_status_t run_forward(pass_t *pass, int first, int end, bool again)
{
    for (int b = first; b < end; b++) {
        const pt_block_ops_t *ops = pass->model->block[b].ops;
        bool grads = pass->batch->training && !ops->backward_weight;
        pt_call_t call = call_of(pass, b);

        if (b + 1 < (again ? end : pass->model->blocks))
            call.y = input_of(pass, b + 1);
        PT_TRY(enter(pass, call.block, true, grads));
        PT_TRY(ops->forward(&call));
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
    PT_TRY(leave(pass));
    PT_TRY(run_forward(pass, first, b + 1, true));
    return leave(pass);
}

static pt_status_t run_weight(pass_t *pass, pt_call_t *call)
{
    const pt_model_options_t *options = &pass->model->options;
    const pt_block_ops_t *ops = call->block->ops;

    if (!ops->backward_weight)
        return PT_OK;
    if (options->fused && options->recompute_every < 0 && ops->remake)
        PT_TRY(ops->remake(call));
    return ops->backward_weight(call);
}

/* Gradient brackets of a block whose weight pass is empty only say that its gradient
 * is complete. */
static bool has_grads(const pass_t *pass, const pt_block_t *block)
{
    return block->ops->backward_weight || pass->last;
}

static pt_status_t backward_block(pass_t *pass, int b, pt_tensor_t dy)
{
    const pt_block_t *block = &pass->model->block[b];
    bool fused = pass->action->fused;
    pt_call_t call;

    if (block->group >= 0 && block[1].group != block->group)
        PT_TRY(run_again(pass, b));
    call = call_of(pass, b);
    call.dy = dy;
    PT_TRY(enter(pass, block, true, fused && has_grads(pass, block)));
    if (block->ops->backward_input)
        PT_TRY(block->ops->backward_input(&call));
    return fused ? run_weight(pass, &call) : PT_OK;
}

static pt_status_t begin(pass_t *pass, pt_phase_t phase)
{
    pt_model_t *model = pass->model;
    int64_t rows = pass->batch->token.shape[0];

    PT_REQUIRE(pass->action->chunk == 0 && rows >= 1 && rows <= model->rows);
    PT_REQUIRE(!pass->batch->training ||
               (model->options.training && rows == model->rows));
    PT_REQUIRE(pass->action->fused || !model->options.fused ||
               pass->action->kind == PT_ACTION_F);
    pass->unit = -1;
    model->where->phase = phase;
    model->where->chunk = pass->action->chunk;
    model->where->micro_batch = pass->action->micro_batch;
    return PT_OK;
}

static pt_status_t end(pass_t *pass)
{
    PT_TRY(leave(pass));
    pass->model->where->layer = pass->model->where->chunk = -1;
    pass->model->where->micro_batch = -1;
    pass->model->where->site = NULL;
    return PT_OK;
}

pt_status_t pt_model_forward(pt_model_t *model, const pt_action_t *action,
                             const pt_batch_view_t *batch, pt_stream_t *stream)
{
    pass_t pass = {.model = model, .action = action, .batch = batch, .stream = stream};

    PT_TRY(begin(&pass, PT_PHASE_FORWARD));
    PT_TRY(run_forward(&pass, 0, model->blocks, false));
    return end(&pass);
}

pt_status_t pt_model_backward(pt_model_t *model, const pt_action_t *action,
                              const pt_batch_view_t *batch, pt_stream_t *stream)
{
    pass_t pass = {.model = model,
                   .action = action,
                   .batch = batch,
                   .stream = stream,
                   .last = action->fused && action->last_weight};

    PT_TRY(begin(&pass, PT_PHASE_BACKWARD));
    pt_tensor_t dy = pt_head_gradient(model, action, model->rows);
    for (int b = model->blocks - 1; b >= 0; b--)
        PT_TRY(backward_block(&pass, b, dy));
    return end(&pass);
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
    PT_TRY(begin(&pass, PT_PHASE_WEIGHT_GRADIENT));
    for (int b = model->blocks - 1; b >= 0; b--) {
        pt_call_t call = call_of(&pass, b);

        PT_TRY(enter(&pass, call.block, false, has_grads(&pass, call.block)));
        PT_TRY(run_weight(&pass, &call));
    }
    return end(&pass);
}

/* ---- without training ---- */

static const pt_action_t alone = {.kind = PT_ACTION_F};

pt_status_t pt_model_evaluate(pt_model_t *model, const pt_batch_view_t *batch,
                              pt_stream_t *stream)
{
    pass_t pass = {.model = model, .action = &alone, .batch = batch, .stream = stream};

    PT_REQUIRE(!batch->training);
    PT_TRY(begin(&pass, PT_PHASE_EVALUATE));
    PT_TRY(run_forward(&pass, 0, model->blocks, false));
    return end(&pass);
}

static pt_status_t logits_of(pass_t *pass, int64_t first_row, pt_tensor_t logits)
{
    const pt_batch_view_t *batch = pass->batch;
    int head = pass->model->blocks - 1;

    PT_REQUIRE(!batch->training && first_row >= 0 && logits.ndim == 2 &&
               logits.shape[0] <= batch->token.shape[0] - first_row &&
               logits.shape[1] == pass->model->arch->vocab);
    PT_TRY(begin(pass, PT_PHASE_EVALUATE));
    PT_TRY(run_forward(pass, 0, head, false));
    pt_call_t call = call_of(pass, head);
    PT_TRY(enter(pass, call.block, true, false));
    PT_TRY(pt_head_logits(&call, first_row, logits));
    return end(pass);
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
