/* SPDX-License-Identifier: Apache-2.0 */
/* How a model is set up. */
#include "src/model/block.h"

#include "penta/base/alloc.h"

#include <string.h>

/* ---- set-up ---- */

typedef struct pt_block_description {
    const char *name;
    void (*describe)(pt_program_t *program);
    pt_role_t role; /* a parameter of its unit */
} pt_block_description_t;

static const pt_block_description_t descriptions[PT_BLOCK_KINDS] = {
    [PT_BLOCK_EMBEDDING] = {"embedding", pt_describe_embedding, PT_ROLE_TOKEN_EMBEDDING},
    [PT_BLOCK_ATTENTION] = {"attention", pt_describe_attention, PT_ROLE_QKV},
    [PT_BLOCK_FFN] = {"ffn", pt_describe_ffn, PT_ROLE_FFN_IN},
    [PT_BLOCK_HEAD] = {"head", pt_describe_head, PT_ROLE_FINAL_NORM},
};

/* One program serves all layers, so all must find x spread alike. */
static pt_status_t model_make_program(pt_model_t *model, pt_block_kind_t kind, int layer)
{
    const pt_model_options_t *options = &model->options;
    pt_program_context_t context = {.arch = model->arch,
                                    .table = model->table,
                                    .units = model->units,
                                    .mesh = &model->mesh->shape,
                                    .rows = model->rows,
                                    .training = options->training,
                                    .fused = options->fused,
                                    .selective = options->recompute_every < 0};
    pt_program_t **program = &model->program[kind];

    if (model->blocks > 0)
        memcpy(context.x,
               model->block[model->blocks - 1].program->tensor[PT_TENSOR_Y].shape.dist,
               sizeof context.x);
    if (!*program) {
        PT_TRY(PT_NEW("program of a block", 1, program));
        pt_program_begin(descriptions[kind].name, &context, layer, *program);
        descriptions[kind].describe(*program);
        PT_TRY(pt_program_end(*program));
    }
    PT_CHECK(
        memcmp(context.x, (*program)->context.x, sizeof context.x) == 0, PT_INTERNAL,
        "block %s of layer %d finds x spread in another way than that of the first "
        "layer",
        descriptions[kind].name, layer);
    return PT_OK;
}

static int model_unit_of(const pt_model_t *model, const pt_block_t *block,
                         pt_role_t role)
{
    int param = block->param[role];

    return param < 0 ? -1 : model->table->params[param].unit;
}

static pt_status_t model_add_block(pt_model_t *model, pt_block_kind_t kind, int layer)
{
    const pt_model_options_t *options = &model->options;
    bool again = options->training && options->recompute_every >= 1 && layer >= 0;
    pt_block_t *block = &model->block[model->blocks];
    int first_layer =
        model->table->cut.first_layer[model->chunk[model->chunks].position];

    PT_TRY(model_make_program(model, kind, layer));
    *block = (pt_block_t){
        .program = model->program[kind],
        .layer = layer,
        .chunk = model->chunks,
        .group = again ? (layer - first_layer) / options->recompute_every : -1};
    for (int role = 0; role < PT_ROLE_COUNT; role++)
        block->param[role] = pt_param_find(model->table, (pt_role_t)role, layer);
    block->unit = model_unit_of(model, block, descriptions[kind].role);
    block->borrowed = kind == PT_BLOCK_HEAD && model->arch->tied
                          ? model_unit_of(model, block, PT_ROLE_TOKEN_EMBEDDING)
                          : -1;
    PT_TRY(PT_NEW("places of tensors", (size_t)block->program->tensors, &block->place));
    model->blocks++;
    return PT_OK;
}

static pt_status_t model_add_chunk(pt_model_t *model, int position)
{
    const pt_cut_t *cut = &model->table->cut;
    pt_chunk_t *chunk = &model->chunk[model->chunks];

    *chunk = (pt_chunk_t){.position = position, .first = model->blocks};
    if (position == 0)
        PT_TRY(model_add_block(model, PT_BLOCK_EMBEDDING, -1));
    for (int l = cut->first_layer[position]; l < cut->first_layer[position + 1]; l++) {
        PT_TRY(model_add_block(model, PT_BLOCK_ATTENTION, l));
        PT_TRY(model_add_block(model, PT_BLOCK_FFN, l));
    }
    if (position == cut->positions - 1)
        PT_TRY(model_add_block(model, PT_BLOCK_HEAD, -1));
    chunk->end = model->blocks;
    model->chunks++;
    return PT_OK;
}

static pt_status_t model_add_chunks(pt_model_t *model)
{
    const pt_cut_t *cut = &model->table->cut;
    int stage = model->mesh->coordinate[PT_AXIS_PIPELINE];

    PT_TRY(PT_NEW("blocks", (size_t)(2 * model->arch->layers + 2), &model->block));
    PT_TRY(PT_NEW("chunks", (size_t)cut->positions, &model->chunk));
    for (int position = 0; position < cut->positions; position++)
        if (cut->stage[position] == stage)
            PT_TRY(model_add_chunk(model, position));
    return PT_OK;
}

pt_status_t pt_model_create(const pt_arch_t *arch, const pt_param_table_t *table,
                            pt_units_t *units, const pt_mesh_t *mesh,
                            pt_device_t *device, const pt_model_options_t *options,
                            pt_model_t **out)
{
    pt_status_t status;
    pt_model_t *model = NULL;

    *out = NULL;
    PT_REQUIRE(mesh->shape.size[PT_AXIS_PIPELINE] == table->cut.stages &&
               options->recompute_every >= -1);
    PT_REQUIRE(!arch->tied || table->cut.stages == 1); /* this version */
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
    if (__builtin_mul_overflow(options->micro_batch, options->sequence, &model->rows))
        PT_TRY_GOTO(fail, PT_FAIL(PT_MEMORY,
                                  "a micro-batch of %lld sequences of %lld tokens is "
                                  "more than 64 bits can count",
                                  (long long)options->micro_batch,
                                  (long long)options->sequence));
    PT_TRY_GOTO(fail, model_add_chunks(model));
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
    for (int b = 0; b < model->blocks; b++)
        pt_free(model->block[b].place);
    pt_free(model->block);
    pt_free(model->chunk);
    for (int kind = 0; kind < PT_BLOCK_KINDS; kind++)
        pt_free(model->program[kind]);
    pt_free(model);
}

static int64_t model_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t model_op_workspace_bytes(const pt_model_t *model)
{
    const pt_arch_t *arch = model->arch;
    bool narrow = arch->dtype != pt_dtype_accumulator(arch->dtype);
    bool training = model->options.training;
    int64_t keys = narrow && training ? model->options.sequence : 0;
    bool learned = arch->positions == PT_POSITIONS_LEARNED;
    int64_t rows = model_larger(arch->vocab, learned ? arch->max_positions : 0);
    int64_t attention = pt_attention_workspace(model->device, arch->dtype, keys,
                                               arch->head_dim, arch->head_dim);
    int64_t bytes = model_larger(attention, pt_gemm_workspace(arch->dtype));

    return !training
               ? bytes
               : model_larger(bytes,
                              pt_embed_bwd_workspace(pt_units_grad_dtype(model->units),
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
    PT_TRY(pt_arena_take(workspace, "workspace of ops", model_op_workspace_bytes(model),
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
                            model_op_workspace_bytes(model));
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
