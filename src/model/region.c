/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns memory to the tensors of blocks, by the table in block.h. */
#include "src/model/block.h"

static const pt_chunk_t *region_chunk_of(const pt_model_t *model,
                                         const pt_block_t *block)
{
    return &model->chunk[block->chunk];
}

static bool region_starts_chunk(const pt_model_t *model, const pt_block_t *block)
{
    return block == &model->block[region_chunk_of(model, block)->first];
}

static bool region_starts_group(const pt_model_t *model, const pt_block_t *block)
{
    return region_starts_chunk(model, block) || block[-1].group != block->group;
}

static bool region_is_used_in(unsigned passes, pt_pass_t pass)
{
    return passes >> pass & 1u;
}

/* The row of x in the table of block.h. */
static pt_region_t region_of_x(const pt_model_t *model, const pt_block_t *block)
{
    bool kept = block->program->tensor[PT_TENSOR_X].read & ~(1u << PT_PASS_FORWARD);

    if (!model->options.training || !kept)
        return PT_REGION_STREAM;
    if (region_is_used_in(block->program->tensor[PT_TENSOR_X].read, PT_PASS_WEIGHT) &&
        !model->options.fused)
        return PT_REGION_SLOT_W;
    return block->group >= 0 && !region_starts_group(model, block) ? PT_REGION_GROUP
                                                                   : PT_REGION_SLOT_B;
}

static pt_region_t region_of(const pt_model_t *model, const pt_block_t *block, int index)
{
    const pt_model_options_t *options = &model->options;
    const pt_block_tensor_t *tensor = &block->program->tensor[index];
    bool forward = region_is_used_in(tensor->written, PT_PASS_FORWARD);
    bool for_weight = region_is_used_in(tensor->read, PT_PASS_WEIGHT);
    bool again = block->group >= 0;

    if (index == PT_TENSOR_X)
        return region_of_x(model, block);
    if (!options->training || tensor->replayed)
        return PT_REGION_SCRATCH;
    if (for_weight && !options->fused)
        return PT_REGION_SLOT_W;
    if (!forward || !(for_weight || region_is_used_in(tensor->read, PT_PASS_INPUT)))
        return PT_REGION_SCRATCH;
    if (again)
        return PT_REGION_GROUP;
    return for_weight ? PT_REGION_SLOT_W : PT_REGION_SLOT_B;
}

/* The input of a chunk stays where it was received. */
static bool region_has(const pt_model_t *model, const pt_block_t *block, int index)
{
    const pt_block_tensor_t *tensor = &block->program->tensor[index];

    if (index == PT_TENSOR_X && region_starts_chunk(model, block))
        return false;
    return index != PT_TENSOR_Y && index != PT_TENSOR_STREAM_GRADIENT &&
           tensor->host == PT_ABSENT && (tensor->read | tensor->written) != 0;
}

/* Arenas without memory count. */
static pt_status_t region_block(pt_model_t *model, pt_block_t *block, pt_arena_t *count)
{
    int64_t index = block - model->block;

    pt_arena_release(&count[PT_REGION_SCRATCH], 0);
    pt_arena_release(&count[PT_REGION_STREAM], 0);
    if (region_starts_group(model, block))
        pt_arena_release(&count[PT_REGION_GROUP], 0);
    for (int i = 0; i < block->program->tensors; i++) {
        const pt_block_tensor_t *tensor = &block->program->tensor[i];
        const pt_tensor_t *shape = &tensor->shape;
        pt_tensor_t unused;

        block->place[i].offset = -1;
        if (!region_has(model, block, i))
            continue;
        block->place[i].region = region_of(model, block, i);
        pt_arena_t *region = &count[block->place[i].region];
        /* Evaluation has two streams: a block reads one and writes the other. */
        if (i == PT_TENSOR_X && !model->options.training && index % 2 == 1)
            PT_TRY(pt_arena_tensor(region, "stream", shape->dtype, shape->ndim,
                                   shape->shape, &unused));
        block->place[i].offset = pt_round_up(pt_arena_mark(region), PT_ARENA_ALIGN);
        PT_TRY(pt_arena_tensor(region, tensor->name, shape->dtype, shape->ndim,
                               shape->shape, &unused));
    }
    return PT_OK;
}

/* The regions that chunks share are as large as one of them needs. */
pt_status_t pt_model_plan_memory(pt_model_t *model)
{
    for (int c = 0; c < model->chunks; c++) {
        pt_chunk_t *chunk = &model->chunk[c];
        pt_arena_t count[PT_REGIONS];

        for (int r = 0; r < PT_REGIONS; r++)
            pt_arena_init(&count[r], PT_CLASS_ACTIVATIONS, PT_MEMORY_DEVICE);
        for (int b = chunk->first; b < chunk->end; b++)
            PT_TRY(region_block(model, &model->block[b], count));
        /* So that slots follow each other without gaps. */
        for (int r = 0; r < PT_REGIONS; r++) {
            pt_region_place_t *region =
                r <= PT_REGION_SLOT_W ? &chunk->slot[r] : &model->region[r];
            int64_t bytes = pt_round_up(count[r].peak, PT_ARENA_ALIGN);
            region->bytes = bytes > region->bytes ? bytes : region->bytes;
        }
    }
    return PT_OK;
}

static pt_status_t region_take(pt_arena_t *arena, const char *name, int sets,
                               pt_region_place_t *region)
{
    region->base = NULL;
    for (int i = 0; i < sets; i++) {
        void *set;

        PT_TRY(pt_arena_take(arena, name, region->bytes, &set));
        if (i == 0)
            region->base = set;
    }
    return PT_OK;
}

pt_status_t pt_model_take_memory(pt_model_t *model, pt_arena_t *activations,
                                 pt_arena_t *workspace)
{
    const pt_model_options_t *options = &model->options;
    pt_region_place_t *region = model->region;

    for (int c = 0; c < model->chunks && options->training; c++) {
        pt_chunk_t *chunk = &model->chunk[c];

        PT_TRY(region_take(activations, "slots, B part",
                           options->input_slots[chunk->position],
                           &chunk->slot[PT_REGION_SLOT_B]));
        PT_TRY(region_take(activations, "slots, W part",
                           options->weight_slots[chunk->position],
                           &chunk->slot[PT_REGION_SLOT_W]));
    }
    if (options->training)
        PT_TRY(region_take(activations, "layers computed again", 1,
                           &region[PT_REGION_GROUP]));
    PT_TRY(region_take(workspace, "residual stream", 1, &region[PT_REGION_STREAM]));
    return region_take(workspace, "work of a block", 1, &region[PT_REGION_SCRATCH]);
}

pt_tensor_t pt_model_bind(const pt_model_t *model, const pt_block_t *block, int tensor,
                          const pt_action_t *action, int64_t rows)
{
    const pt_block_tensor_t *described = &block->program->tensor[tensor];
    const pt_place_t *place = &block->place[tensor];
    const pt_region_place_t *region =
        place->region <= PT_REGION_SLOT_W
            ? &region_chunk_of(model, block)->slot[place->region]
            : &model->region[place->region];
    pt_tensor_t x = described->shape;
    int64_t slot = place->region == PT_REGION_SLOT_B   ? action->input_slot
                   : place->region == PT_REGION_SLOT_W ? action->weight_slot
                                                       : 0;

    if (place->offset < 0)
        return (pt_tensor_t){0};
    x.data = region->base + slot * region->bytes + place->offset;
    return described->by_rows ? pt_tensor_slice(x, 0, 0, rows) : x;
}
