/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h — which rank holds which elements (layer: parallel). Pure arithmetic. */
#ifndef PENTA_SHARD_H
#define PENTA_SHARD_H

#include "penta/base/hyperslab.h"
#include "penta/base/tensor.h"

typedef enum pt_shard_kind {
    PT_SHARD_NONE,  /* every rank of the axis holds all of it */
    PT_SHARD_PLAIN, /* equal cuts along dim */
    PT_SHARD_BLOCKED, /* dim 0 is a stack of parts (q|k|v, gate|up); each part is cut equally */
    PT_SHARD_ZIGZAG /* sequences: 2·size chunks, rank r takes r and 2·size-1-r */
} pt_shard_kind_t;

typedef struct pt_shard_rule {
    pt_shard_kind_t kind;
    int dim;
    pt_axis_t axis;
    int64_t granularity; /* cuts fall on multiples of this along dim (a head's width; 1) */
    bool padded; /* PLAIN: a length that does not divide is padded (a vocabulary); otherwise it is refused */
} pt_shard_rule_t;

/* Cuts of parameters and units: starts are multiples of this many elements. */
enum { PT_SHARD_ALIGN = 1024 };

static inline int64_t pt_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* `count` elements along dim that start at `first` in the global tensor and at `local_first` in the shard, where they
 * occupy `local_count`; elements beyond `count` are padding, visible to allocation and matrix products only. */
typedef struct pt_extent {
    int64_t first, count, local_first, local_count;
} pt_extent_t;

/* Extents of rank `index` of `size` along rule.dim of a tensor with `parts` part lengths; at most
 * max(parts, 2). Returns their number. Fewer KV heads than ranks: several ranks hold the same
 * granularity (replicated). */
int pt_shard_extents(const pt_shard_rule_t *rule, int parts, const int64_t *part_length,
                     int index, int size, pt_extent_t *out);

enum { PT_RANGE_HYPERSLABS = 5 };

/* Hyperslabs that cover elements [first, first+count) of a row-major tensor, in order (tail of a row,
 * whole rows, head of a row, for each dimension): at most PT_RANGE_HYPERSLABS. Returns their number;
 * local counts from `first`. */
int pt_range_hyperslabs(int ndim, const int64_t *shape, int64_t first, int64_t count,
                        pt_hyperslab_t out[PT_RANGE_HYPERSLABS]);

#endif
