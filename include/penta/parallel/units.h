/* SPDX-License-Identifier: Apache-2.0 */
/* units.h — weights and gradients as flat buffers: the data axis and ZeRO (layer: parallel).
 *
 * A unit (embedding, each layer, head; its experts later) is one flat buffer of weights and
 * one of gradients: gradient bucket, ZeRO shard and gather at once. Options merge neighbouring units
 * of the parameter table into one buffer, a *bucket*. Every tensor starts at a multiple of
 * PT_SHARD_ALIGN elements, with zeros between. A bucket is cut into shards at such multiples, as
 * evenly as they allow; shard r belongs to replica r. Shards are unequal, and where replicas are
 * many, some are empty; the size of a bucket depends on the model only. None of this changes a bit of
 * the result.
 *
 *   | qkv       0| qkv bias 0| norm 0| ffn in     0| … |
 *   |  shard 0        |  shard 1         |  shard 2    |
 *
 * stage 0: weights, gradients and moments whole on every replica. Stages 1–3 shard moments,
 * gradients, weights in turn. Callers do not change: they bracket every use and fetch views
 * anew inside the bracket; the order of brackets is the same in every step, so a stage that gathers
 * ahead learns it from the first.
 *
 * Life of a step:  clear_grads;  per micro-batch: need(u) … forward … release(u), and need(u),
 * grad_need(u) … backward … grad_done(u, last), release(u);  finish;  square sums, update of the
 * updated range;  updated(b) for each bucket.
 * need/grad_need … done nest (a count). Functions of uses take a unit of the parameter table, the
 * flat ones a bucket. Collective ones are called in the same order on all replicas. */
#ifndef PENTA_UNITS_H
#define PENTA_UNITS_H

#include "penta/comm/mesh.h"
#include "penta/parallel/holders.h"

typedef struct pt_units_options {
    int zero;      /* stage; this version: 0 */
    bool overlap;  /* false: reductions begin in finish */
    int in_flight; /* pieces of a sum or gather at once: slots of the rings (comm.h) */
    int64_t merge_bytes; /* of gradients, at least, in a bucket; 0: one unit each */
    pt_dtype_t weight_dtype, grad_dtype, wire_dtype;
    bool weights_only; /* no gradients: only need and release, weights and their views */
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
                                  int bucket); /* this replica's; may be empty */
/* What this replica updates: everything at stage 0, its shard from stage 1 on. Views below cover it. */
pt_bucket_range_t pt_bucket_updated(const pt_units_t *units, int bucket);
pt_tensor_t pt_bucket_weights(const pt_units_t *units, int bucket);
pt_tensor_t pt_bucket_grads(const pt_units_t *units, int bucket); /* after finish */
/* All-gathers shards in place: `whole` is any flat device buffer of the bucket's size whose shard of
 * this replica is set (weights or moments just loaded). Collective (replicas). */
pt_status_t pt_bucket_gather(pt_units_t *units, int bucket, pt_tensor_t whole,
                             pt_stream_t *stream);

/* ---- parameters ------------------------------------------------------------------------------ */

/* Bucket of a parameter, -1 when another stage holds it; its first element there. */
int pt_units_bucket_of(const pt_units_t *units, int param);
int64_t pt_units_offset(const pt_units_t *units, int param);
/* Shape of this rank's shard. */
pt_tensor_t pt_units_local_shape(const pt_units_t *units, int param);
/* Views of local shape; valid between need/grad_need and release/grad_done. */
pt_tensor_t pt_units_weight(const pt_units_t *units, int param);
pt_tensor_t pt_units_grad(const pt_units_t *units, int param);
/* Who else holds what this rank holds of a part (holders.h). */
pt_holders_t pt_units_holders(const pt_units_t *units, int param, int part);
/* Does this rank speak for its elements of a part (digest, file)? No when another stage holds it. */
bool pt_units_is_owner(const pt_units_t *units, int param, int part);
/* The elements of the parameter's bucket that this rank speaks for (norm): whole parts, neighbours
 * together, without padding. Returns the number of ranges. */
int pt_units_owned(const pt_units_t *units, int param,
                   pt_bucket_range_t out[PT_MAX_PARTS]);
const pt_param_t *pt_units_param(const pt_units_t *units, int param); /* of the table */
/* What this rank holds of a part along the cut dimension (`first` and `count` in the part's own
 * coordinates; all of it when not cut), and the first local row of the part in the parameter. */
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
/* All gradients zero: before the first micro-batch. Local. */
pt_status_t pt_units_clear_grads(pt_units_t *units, pt_stream_t *stream);
pt_status_t pt_units_grad_need(pt_units_t *units, int unit, pt_stream_t *stream);
/* A micro-batch's gradients were added; `last`: the step's gradient of this unit is complete on this
 * rank, and its reduction may begin. */
pt_status_t pt_units_grad_done(pt_units_t *units, int unit, bool last,
                               pt_stream_t *stream);
/* Ends all reductions: gradients are sums over replicas in rank order. */
pt_status_t pt_units_finish(pt_units_t *units, pt_stream_t *stream);
/* The updated range of the bucket's weights was written. */
pt_status_t pt_bucket_was_updated(pt_units_t *units, int bucket, pt_stream_t *stream);

#endif
