/* SPDX-License-Identifier: Apache-2.0 */
/* units.h — weights and gradients as flat buffers: the data axis and ZeRO (layer: parallel).
 *
 * A unit (the embedding, a layer, the head; later the experts of a layer) has one flat buffer of weights and one of
 * gradients, which serve as gradient bucket, ZeRO shard and gather buffer. Neighbouring units of the parameter table
 * can be merged into one buffer, called a *bucket*. Every tensor starts at a multiple of PT_SHARD_ALIGN elements;
 * the gaps are zero. A bucket is divided into shards at such multiples, as evenly as possible, and shard r belongs
 * to replica r. Shards may differ in size, and with many replicas some are empty; the size of a bucket depends on
 * the model only. None of this changes a bit of the result.
 *
 *   | qkv       0| qkv bias 0| norm 0| ffn in     0| … |
 *   |  shard 0        |  shard 1         |  shard 2    |
 *
 * At stage 0 every replica holds all weights, gradients and moments, and the sums of the gradients are gathered. At
 * stage 1 a replica holds the moments and master weights of its shard only: it takes the sums of its shard, updates
 * that, and the weights are gathered, while the next step begins (Rajbhandari et al. 2020, ZeRO, section 5). Stages 2
 * and 3 will shard the gradients and the weights, too. Callers are the same for all stages: they bracket every use and
 * fetch views inside the bracket. The order of brackets is the same in every step, so a stage that gathers ahead
 * knows it after the first step.
 *
 * Life of a step:  clear_grads;  per micro-batch: need(u) … forward … release(u), and need(u),
 * grad_need(u) … backward … grad_done(u, last), release(u);  finish;  square sums, update of the
 * updated range;  updated(b) for each bucket.
 * Brackets nest (they are counted). They take a unit of the parameter table; functions on flat buffers take a
 * bucket. Collective functions are called in the same order on all replicas. */
#ifndef PENTA_UNITS_H
#define PENTA_UNITS_H

#include "penta/comm/mesh.h"
#include "penta/parallel/holders.h"

typedef struct pt_units_options {
    int zero;      /* stage; this version: 0 or 1 */
    bool overlap;  /* false: reductions begin in finish */
    int in_flight; /* pieces of a sum or gather at once: slots of the rings (comm.h) */
    int64_t merge_bytes; /* least bytes of gradients in a bucket; 0: one unit a bucket */
    pt_dtype_t weight_dtype, grad_dtype, wire_dtype;
    bool weights_only; /* no gradients: only need, release and views of weights */
} pt_units_options_t;

typedef struct pt_units pt_units_t;

/* Shapes and offsets of this rank's shards of the parameters of its pipeline stage. Local; borrows
 * table, mesh, device. Fails: MEMORY; INTERNAL: options this version has not. Caller destroys. */
pt_status_t pt_units_create(const pt_param_table_t *table, const pt_mesh_t *mesh,
                            pt_device_t *device, const pt_units_options_t *options,
                            pt_units_t **out);
void pt_units_destroy(pt_units_t *units);
/* Plan, then place. */
pt_status_t pt_units_layout(pt_units_t *units, pt_arena_t *parameters,
                            pt_arena_t *gradients, pt_arena_t *communication);
/* After placing: zeroes weights and gradients, padding included. */
pt_status_t pt_units_prepare(pt_units_t *units, pt_stream_t *stream);

/* ---- flat: buckets -------------------------------------------------------------------------- */

typedef struct pt_bucket_range {
    int64_t first, count; /* elements from the start of the bucket */
} pt_bucket_range_t;

int pt_units_buckets(const pt_units_t *units);
pt_dtype_t pt_units_grad_dtype(const pt_units_t *units);         /* as created with */
int64_t pt_bucket_elements(const pt_units_t *units, int bucket); /* padding included */
pt_bucket_range_t pt_bucket_shard(const pt_units_t *units,
                                  int bucket); /* of this replica; may be empty */
/* Does every replica hold all moments and master weights? (At stage 0. A shard may happen to be a whole bucket.) */
bool pt_units_replicate_state(const pt_units_t *units);
/* What this replica updates: all of it at stage 0, its shard from stage 1 on. */
pt_bucket_range_t pt_bucket_updated(const pt_units_t *units, int bucket);
/* What two ranges of a bucket have in common; count 0: nothing. */
pt_bucket_range_t pt_bucket_common(pt_bucket_range_t a, pt_bucket_range_t b);
/* All weights of the bucket; elements outside the updated range are valid after settle. */
pt_tensor_t pt_bucket_weights(const pt_units_t *units, int bucket);
/* After finish: the gradients of the updated range. */
pt_tensor_t pt_bucket_grads(const pt_units_t *units, int bucket);
/* All-gathers shards in place.
 *   whole   [in/out] flat device buffer of the bucket's size; this replica's shard is set (weights or moments)
 * Collective (replicas). */
pt_status_t pt_bucket_gather(pt_units_t *units, int bucket, pt_tensor_t whole,
                             pt_stream_t *stream);

/* ---- parameters ------------------------------------------------------------------------------ */

/* Bucket of a parameter (-1: another stage holds it), and its first element in the bucket. */
int pt_units_bucket_of(const pt_units_t *units, int param);
int64_t pt_units_offset(const pt_units_t *units, int param);
/* Shape of this rank's shard. */
pt_tensor_t pt_units_local_shape(const pt_units_t *units, int param);
/* Views of local shape; valid between need/grad_need and release/grad_done. */
pt_tensor_t pt_units_weight(const pt_units_t *units, int param);
pt_tensor_t pt_units_grad(const pt_units_t *units, int param);
/* Which ranks hold the same elements of a part (holders.h). */
pt_holders_t pt_units_holders(const pt_units_t *units, int param, int part);
/* Whether this rank owns its elements of a part (digest, file); false if another stage holds them. */
bool pt_units_is_owner(const pt_units_t *units, int param, int part);
/* The elements of the parameter's bucket that this rank owns (norm): whole parts without padding, adjacent parts
 * merged. Returns the number of ranges. */
int pt_units_owned(const pt_units_t *units, int param,
                   pt_bucket_range_t out[PT_MAX_PARTS]);
const pt_param_t *pt_units_param(const pt_units_t *units, int param); /* of the table */
/* What this rank holds of a part along the sharded dimension (`first` and `count` in coordinates of the part; all of
 * it if it is not sharded), and the first local row of the part in the parameter. */
pt_extent_t pt_units_part_extent(const pt_units_t *units, int param, int part);
int64_t pt_units_part_row(const pt_units_t *units, int param, int part);
/* Hyperslabs of the global tensor `part` whose elements lie in `range` of the parameter's bucket on this
 * rank; .local counts from range.first. Returns their number, 0 if none. */
int pt_units_hyperslabs(const pt_units_t *units, int param, int part,
                        pt_bucket_range_t range,
                        pt_hyperslab_t out[PT_RANGE_HYPERSLABS]);

/* ---- a step: units of the parameter table ---------------------------------------------------- */

pt_status_t pt_units_need(pt_units_t *units, int unit, pt_stream_t *stream);
pt_status_t pt_units_release(pt_units_t *units, int unit, pt_stream_t *stream);
/* Zeroes all gradients, before the first micro-batch. Local. */
pt_status_t pt_units_clear_grads(pt_units_t *units, pt_stream_t *stream);
pt_status_t pt_units_grad_need(pt_units_t *units, int unit, pt_stream_t *stream);
/* The gradients of a micro-batch have been added. last: the gradient of this unit for the step is complete on this
 * rank, so its reduction may begin. */
pt_status_t pt_units_grad_done(pt_units_t *units, int unit, bool last,
                               pt_stream_t *stream);
/* Completes all reductions: the gradients of the updated range are now sums over replicas, added in rank order. */
pt_status_t pt_units_finish(pt_units_t *units, pt_stream_t *stream);
/* The updated range of the bucket's weights has been written; at stage 1 begins to gather the others. Collective
 * (replicas). */
pt_status_t pt_bucket_was_updated(pt_units_t *units, int bucket, pt_stream_t *stream);
/* Ends what was_updated began, for all buckets: the weights are whole on every replica. (need ends it for one unit.) */
pt_status_t pt_units_settle(pt_units_t *units, pt_stream_t *stream);

#endif
