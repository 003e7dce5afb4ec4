/* Where the tensors of blocks live. The rules are drawn in block.h. */
#include "src/model/block.h"

static void put(pt_block_t *block, int index, pt_keep_t keep, pt_tensor_t shape,
                bool by_rows)
{
    block->tensor[index] =
        (pt_planned_t){.shape = shape, .keep = keep, .by_rows = by_rows};
}

void pt_block_rows(const pt_model_t *model, pt_block_t *block, int index,
                   pt_keep_t keep, int64_t cols)
{
    put(block, index, keep,
        pt_tensor_2d(NULL, model->arch->dtype, PT_MEMORY_DEVICE, model->rows, cols),
        true);
}

void pt_block_stats(const pt_model_t *model, pt_block_t *block, int index,
                    pt_keep_t keep, int64_t cols)
{
    pt_dtype_t dtype = pt_dtype_accumulator(model->arch->dtype);

    put(block, index, keep,
        cols == 0 ? pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, model->rows)
                  : pt_tensor_2d(NULL, dtype, PT_MEMORY_DEVICE, model->rows, cols),
        true);
}

void pt_block_vector(const pt_model_t *model, pt_block_t *block, int index,
                     pt_keep_t keep, int64_t count)
{
    put(block, index, keep,
        pt_tensor_1d(NULL, model->arch->dtype, PT_MEMORY_DEVICE, count), false);
}

void pt_block_gradient(const pt_model_t *model, pt_block_t *block, int index,
                       pt_keep_t keep, int64_t count)
{
    pt_dtype_t dtype = pt_units_grad_dtype(model->units);

    put(block, index, keep, pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, count), false);
}

static bool starts_group(const pt_model_t *model, const pt_block_t *block)
{
    return block == model->block || block[-1].group != block->group;
}

static pt_region_t region_of(const pt_model_t *model, const pt_block_t *block,
                             pt_keep_t keep)
{
    const pt_model_options_t *options = &model->options;
    bool again = block->group >= 0;

    if (keep == PT_KEEP_PASSED || (keep == PT_KEEP_INPUT && !options->training))
        return PT_REGION_STREAM;
    if (keep == PT_KEEP_NOTHING || !options->training)
        return PT_REGION_SCRATCH;
    if (keep == PT_KEEP_RESULT)
        return PT_REGION_SLOT_B;
    if (keep == PT_KEEP_INPUT)
        return again && !starts_group(model, block) ? PT_REGION_GROUP
                                                    : PT_REGION_SLOT_B;
    if (keep == PT_KEEP_B)
        return again ? PT_REGION_GROUP : PT_REGION_SLOT_B;
    if (!options->fused)
        return PT_REGION_SLOT_W;
    if (keep == PT_KEEP_GRADIENT)
        return PT_REGION_SCRATCH;
    if (keep == PT_KEEP_CHEAP && options->recompute_every < 0)
        return PT_REGION_SCRATCH;
    return again ? PT_REGION_GROUP : PT_REGION_SLOT_W;
}

/* Arenas without memory count. */
static pt_status_t plan_block(pt_model_t *model, pt_block_t *block, pt_arena_t *count)
{
    int64_t index = block - model->block;

    pt_arena_release(&count[PT_REGION_SCRATCH], 0);
    pt_arena_release(&count[PT_REGION_STREAM], 0);
    if (starts_group(model, block))
        pt_arena_release(&count[PT_REGION_GROUP], 0);
    for (int i = 0; i < PT_BLOCK_TENSORS; i++) {
        pt_planned_t *planned = &block->tensor[i];
        pt_tensor_t unused;

        if (planned->shape.ndim == 0)
            continue;
        planned->region = region_of(model, block, planned->keep);
        pt_arena_t *region = &count[planned->region];
        /* Evaluation has two streams: a block reads one and writes the other. */
        if (planned->region == PT_REGION_STREAM && !model->options.training &&
            index % 2 == 1)
            PT_TRY(pt_arena_tensor(region, "stream", planned->shape.dtype,
                                   planned->shape.ndim, planned->shape.shape, &unused));
        planned->offset = pt_round_up(pt_arena_mark(region), PT_ARENA_ALIGN);
        PT_TRY(pt_arena_tensor(region, "activation", planned->shape.dtype,
                               planned->shape.ndim, planned->shape.shape, &unused));
    }
    return PT_OK;
}

pt_status_t pt_model_plan_memory(pt_model_t *model)
{
    pt_arena_t count[PT_REGIONS];

    for (int r = 0; r < PT_REGIONS; r++)
        pt_arena_init(&count[r], PT_CLASS_ACTIVATIONS, PT_MEMORY_DEVICE);
    for (int b = 0; b < model->blocks; b++)
        PT_TRY(plan_block(model, &model->block[b], count));
    /* So that slots follow each other without gaps. */
    for (int r = 0; r < PT_REGIONS; r++)
        model->region[r].bytes = pt_round_up(count[r].peak, PT_ARENA_ALIGN);
    return PT_OK;
}

static pt_status_t take(pt_arena_t *arena, const char *name, int sets,
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

    if (options->training) {
        PT_TRY(take(activations, "slots, B part", options->input_slots[0],
                    &region[PT_REGION_SLOT_B]));
        PT_TRY(take(activations, "slots, W part", options->weight_slots[0],
                    &region[PT_REGION_SLOT_W]));
        PT_TRY(take(activations, "layers computed again", 1, &region[PT_REGION_GROUP]));
    }
    PT_TRY(take(workspace, "residual stream", 1, &region[PT_REGION_STREAM]));
    return take(workspace, "work of a block", 1, &region[PT_REGION_SCRATCH]);
}

pt_tensor_t pt_model_bind(const pt_model_t *model, const pt_block_t *block, int index,
                          const pt_action_t *action, int64_t rows)
{
    const pt_planned_t *planned = &block->tensor[index];
    const pt_region_place_t *region = &model->region[planned->region];
    pt_tensor_t x = planned->shape;
    int64_t slot = planned->region == PT_REGION_SLOT_B   ? action->input_slot
                   : planned->region == PT_REGION_SLOT_W ? action->weight_slot
                                                         : 0;

    if (x.ndim == 0)
        return x;
    x.data = region->base + slot * region->bytes + planned->offset;
    return planned->by_rows ? pt_tensor_slice(x, 0, 0, rows) : x;
}
