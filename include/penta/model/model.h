/* SPDX-License-Identifier: Apache-2.0 */
/* model.h — forward and backward of the language model (layer: model). Never calls MPI: it asks
 * parallel (units.h, later tensor, context, expert) for what other ranks hold.
 *
 * A model is a list of blocks: embedding, then attention and ffn of each layer, then the head. A
 * pipeline stage holds one or more chunks, each a run of blocks with memory of its own. Activations live in slots, one
 * per micro-batch in flight (their number is the schedule's peak), with two parts:
 *   the B part, freed by the backward-input pass (what dx needs), and
 *   the W part, kept until backward-weight (inputs of linear layers and their output gradients).
 * With a schedule in which every W follows its B at once (`fused`), output gradients are shared
 * by all layers. Recompute is a choice of which activations are kept; replays draw the same
 * dropout and count nothing twice.
 *
 * The head is one op: its forward computes loss, dx and dW block by block of rows, logits exist
 * once per block; it keeps dx, which its backward hands on; its weight pass is empty. A tied head
 * accumulates into a buffer of its own (class gradients), added to the embedding's gradient once,
 * before that is final: so the order of the sum does not depend on the schedule. */
#ifndef PENTA_MODEL_H
#define PENTA_MODEL_H

#include "penta/model/arch.h"
#include "penta/parallel/batch.h"
#include "penta/parallel/schedule.h"
#include "penta/parallel/units.h"

typedef struct pt_model pt_model_t;

typedef struct pt_model_options {
    int64_t micro_batch, sequence; /* local sizes: rows = micro_batch·sequence */
    int recompute_every;           /* 0 none, -1 selective, K >= 1 */
    const int *input_slots,
        *weight_slots; /* by position, as pt_schedule_t has them; borrowed */
    bool fused; /* every W follows its B at once: output gradients are shared by layers */
    bool training;     /* false: only evaluation and logits, nothing is kept */
    uint64_t seed;     /* dropout */
    pt_where_t *where; /* kept current by the passes; borrowed; NULL: nobody looks */
    int64_t cache_sequences, cache_length; /* keys and values kept for pt_model_decode;
                                            * 0: none. Without training only */
} pt_model_options_t;

/* Local. Borrows arch, table, units, mesh, device, engine. Caller destroys. Fails: MEMORY. */
pt_status_t pt_model_create(const pt_arch_t *arch, const pt_param_table_t *table,
                            pt_units_t *units, const pt_mesh_t *mesh,
                            pt_device_t *device, const pt_model_options_t *options,
                            pt_model_t **out);
void pt_model_destroy(pt_model_t *model);
/* Plan, then place. */
pt_status_t pt_model_layout(pt_model_t *model, pt_arena_t *activations,
                            pt_arena_t *workspace, pt_arena_t *gradients);
/* After placing: constant tables (rotary) to the device, and scratch of the ops to `stream`, the one that
 * computes. Local. */
pt_status_t pt_model_prepare(pt_model_t *model, pt_stream_t *stream);
/* Initial values of this replica's shard of a bucket, by (seed, part id, global element): same bits for
 * any layout, drawn in fp64. `into`: flat, of what the replica updates (pt_bucket_updated), of type A; the
 * rest of it and padding are left alone: pt_bucket_gather fetches other replicas' shards. Local. */
pt_status_t pt_model_init_bucket(pt_model_t *model, int bucket, pt_tensor_t into,
                                 uint64_t seed, pt_stream_t *stream);

/* What goes over the borders of a chunk: [n,C] on the device; absent where the model begins or ends. */
typedef struct pt_passage {
    pt_tensor_t in, out;
} pt_passage_t;

/* The three passes of an action (position, micro-batch, slots). The log context's `where` is kept current
 * and progress is made between GEMMs. Collective over the axes that share the chunk; begin order
 * is the same on all their ranks.
 * forward reads `in`, which must stay until the backward pass has ended, and writes `out`. backward turns
 * `gradient`, that of what left, into that of what came in, in place; at the last position, where nothing left, it
 * is absent, and the result lies in the action's input slot. With action->fused it does the W too, layer by
 * layer, and tells units of each finished gradient; weight does it for the others. NULL: nothing passes. */
pt_status_t pt_model_forward(pt_model_t *model, const pt_action_t *action,
                             const pt_batch_view_t *batch, const pt_passage_t *passage,
                             pt_stream_t *stream);
pt_status_t pt_model_backward(pt_model_t *model, const pt_action_t *action,
                              const pt_batch_view_t *batch, const pt_passage_t *passage,
                              pt_tensor_t *gradient, pt_stream_t *stream);
pt_status_t pt_model_weight(pt_model_t *model, const pt_action_t *action,
                            const pt_batch_view_t *batch, const pt_passage_t *passage,
                            pt_stream_t *stream);

/* Exact sum of losses since the last clear: device int64 [PT_SUM_WORDS]. Added to on one rank of those
 * that share a loss (tensor coordinate 0 of the last stage), so the world's sum is the loss. */
pt_tensor_t pt_model_loss_accumulator(pt_model_t *model);
pt_status_t pt_model_clear_loss(pt_model_t *model, pt_stream_t *stream);

/* Forward only, of a model in one chunk: losses into the accumulator. For validation; any
 * number of rows up to micro_batch·sequence. */
pt_status_t pt_model_evaluate(pt_model_t *model, const pt_batch_view_t *batch,
                              pt_stream_t *stream);
/* Logits of rows [first_row, first_row + rows) after evaluating `batch` without its loss; logits:
 * device [rows, vocab], A type. For sampling and tests. */
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
