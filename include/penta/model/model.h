/* SPDX-License-Identifier: Apache-2.0 */
/* model.h — forward and backward pass of the language model (layer: model). It never calls MPI; the parallel
 * layer (units.h; later tensor, context, expert) provides what other ranks hold.
 *
 * A model is a list of blocks: the embedding, attention and ffn of each layer, and the head. A pipeline stage holds
 * one or more chunks; a chunk is a run of blocks with its own memory. Activations are stored in slots, one per
 * micro-batch in flight (the schedule gives their number). A slot has two parts:
 *   the B part is freed by the backward-input pass (what dx needs), and
 *   the W part is kept until backward-weight (inputs of linear layers and their output gradients).
 * If every W directly follows its B (`fused`), all layers share the memory of output gradients. Recompute selects
 * the activations that are kept; recomputed passes use the same dropout masks and add nothing to the loss.
 *
 * The head computes the loss, dx and dW in its forward pass, one block of rows at a time, so that logits exist for
 * one block only. Its backward pass returns the stored dx, and its weight pass is empty. A tied head accumulates
 * into a separate buffer (class gradients) that is added to the gradient of the embedding once, just before that
 * is final; the order of this sum does not depend on the schedule. */
#ifndef PENTA_MODEL_H
#define PENTA_MODEL_H

#include "penta/model/arch.h"
#include "penta/parallel/batch.h"
#include "penta/parallel/schedule.h"
#include "penta/parallel/units.h"

typedef struct pt_model pt_model_t;

typedef struct pt_model_options {
    int64_t micro_batch, sequence; /* of this rank: rows = micro_batch·sequence */
    int recompute_every;           /* 0 none, -1 selective, K >= 1 */
    const int *input_slots,
        *weight_slots; /* by position, as pt_schedule_t has them; borrowed */
    bool fused; /* every W directly follows its B: layers share the memory of output gradients */
    bool training;     /* false: evaluation and logits only; no activation is kept */
    uint64_t seed;     /* dropout */
    pt_where_t *where; /* updated by the passes; borrowed; NULL: not wanted */
    int64_t cache_sequences, cache_length; /* keys and values kept for pt_model_decode;
                                            * 0: none. Without training only */
} pt_model_options_t;

/* Creates the model of this rank. Local. Borrows all arguments; the caller destroys *out. Fails: MEMORY. */
pt_status_t pt_model_create(const pt_arch_t *arch, const pt_param_table_t *table,
                            pt_units_t *units, const pt_mesh_t *mesh,
                            pt_device_t *device, const pt_model_options_t *options,
                            pt_model_t **out);
void pt_model_destroy(pt_model_t *model);
/* Plan, then place. */
pt_status_t pt_model_layout(pt_model_t *model, pt_arena_t *activations,
                            pt_arena_t *workspace, pt_arena_t *gradients);
/* After placing: copies constant tables (rotary) to the device and gives `stream`, on which all passes run, the
 * workspace of the ops. Local. */
pt_status_t pt_model_prepare(pt_model_t *model, pt_stream_t *stream);
/* Initialises this replica's shard of a bucket. Values depend on (seed, part id, global element) and are computed
 * in fp64, so their bits do not depend on the layout.
 *   into   [in/out] flat tensor of type A that covers pt_bucket_updated; elements outside the shard and padding are
 *          not written (pt_bucket_gather fetches the shards of other replicas)
 * Local. */
pt_status_t pt_model_init_bucket(pt_model_t *model, int bucket, pt_tensor_t into,
                                 uint64_t seed, pt_stream_t *stream);

/* Activations that enter and leave a chunk: [rows, hidden] on the device; absent at the ends of the model. */
typedef struct pt_passage {
    pt_tensor_t in, out;
} pt_passage_t;

/* The three passes of an action (position, micro-batch, slots).
 *   batch      [in] the micro-batch
 *   passage    [in] tensors at the borders of the chunk; NULL: the chunk is the whole model. forward reads `in`, which
 *              must stay valid until the backward pass has ended, and writes `out`
 *   gradient   [in/out] gradient of `out`; backward replaces it by the gradient of `in`. At the last position there
 *              is no `out`: it is absent on entry, and the result is in the action's input slot
 * With action->fused, backward also computes weight gradients, layer by layer, and reports each complete gradient to
 * units; otherwise weight does. The passes update `where` and progress transfers between GEMMs. Collective over
 * the axes that share the chunk: all their ranks begin transfers in the same order. */
pt_status_t pt_model_forward(pt_model_t *model, const pt_action_t *action,
                             const pt_batch_view_t *batch, const pt_passage_t *passage,
                             pt_stream_t *stream);
pt_status_t pt_model_backward(pt_model_t *model, const pt_action_t *action,
                              const pt_batch_view_t *batch, const pt_passage_t *passage,
                              pt_tensor_t *gradient, pt_stream_t *stream);
pt_status_t pt_model_weight(pt_model_t *model, const pt_action_t *action,
                            const pt_batch_view_t *batch, const pt_passage_t *passage,
                            pt_stream_t *stream);

/* Exact sum of losses since the last clear: device int64 [PT_SUM_WORDS]. Of the ranks that compute the same loss only
 * tensor coordinate 0 of the last stage adds it, so the sum over all ranks counts each loss once. */
pt_tensor_t pt_model_loss_accumulator(pt_model_t *model);
pt_status_t pt_model_clear_loss(pt_model_t *model, pt_stream_t *stream);

/* Forward pass of a model in one chunk; adds the losses to the accumulator. Used for validation; any number of
 * rows up to micro_batch·sequence. */
pt_status_t pt_model_evaluate(pt_model_t *model, const pt_batch_view_t *batch,
                              pt_stream_t *stream);
/* Runs the forward pass on `batch` without the loss and returns logits of rows [first_row, first_row + rows).
 *   logits   [out] device [rows, vocab], of type A
 * Used for sampling and tests. */
pt_status_t pt_model_logits(pt_model_t *model, const pt_batch_view_t *batch,
                            int64_t first_row, pt_tensor_t logits, pt_stream_t *stream);

/* Where the rows of a batch stand in the cache of keys and values: those of its sequence i are the places
 * first[i], first[i]+1, … of the cached sequence slot[i]. Host arrays [batch->sequences], slots distinct;
 * borrowed. */
typedef struct pt_decode {
    const int64_t *slot, *first;
} pt_decode_t;

/* pt_model_logits for rows that go on from what the cache holds: a row sees its own sequence from place 0,
 * of which those before first[i] came with earlier calls (0: the sequence begins anew). The rows join
 * the cache. batch->place: as `decode` says; one document a sequence. The cut into calls changes rounding
 * only, and that only through gemm: its bits may depend on the number of rows. */
pt_status_t pt_model_decode(pt_model_t *model, const pt_batch_view_t *batch,
                            const pt_decode_t *decode, int64_t first_row,
                            pt_tensor_t logits, pt_stream_t *stream);

#endif
