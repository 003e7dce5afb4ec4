/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h — a view of elements in memory (layer: base).
 *
 * A tensor is plain data, passed by value, and never owns memory. The innermost stride
 * is 1. `dist` says for each axis of the mesh how the whole tensor is distributed.
 * src/parallel sets it (in this version on shards of parameters only). Sizes: B
 * micro-batch, T sequence, C model width, H heads, D head width, F feed-forward, V
 * vocabulary, L layers; n = B*T rows. */
#ifndef PENTA_TENSOR_H
#define PENTA_TENSOR_H

#include "penta/base/dtype.h"
#include "penta/base/status.h"

typedef enum pt_axis {
    PT_AXIS_TENSOR,
    PT_AXIS_CONTEXT,
    PT_AXIS_PIPELINE,
    PT_AXIS_DATA,
    PT_AXIS_EXPERT,
    PT_AXIS_EXPERT_TENSOR,
    PT_AXIS_EXPERT_DATA, /* derived: rest of tensor·context·data for experts */
    PT_AXIS_COUNT,
    PT_AXIS_WORLD = PT_AXIS_COUNT /* for communicators and the traffic counters only */
} pt_axis_t;

const char *pt_axis_name(pt_axis_t axis); /* "tensor", … */

typedef enum pt_memory { PT_MEMORY_HOST, PT_MEMORY_DEVICE } pt_memory_t;

typedef enum pt_placement {
    PT_REPLICATED,  /* every rank of the axis holds the same elements */
    PT_SHARDED,     /* each rank holds a part along dimension `dim` */
    PT_PARTIAL_SUM, /* the whole is the sum over the axis */
} pt_placement_t;

typedef struct pt_dist {
    uint8_t placement; /* pt_placement_t */
    int8_t dim;        /* the sharded dimension; -1 if not sharded */
} pt_dist_t;

enum { PT_MAX_DIMS = 4 };

typedef struct pt_tensor {
    void *data; /* NULL: absent (optional operands), or planned but not placed */
    int64_t shape[PT_MAX_DIMS];
    int64_t stride[PT_MAX_DIMS]; /* in elements; stride[ndim-1] == 1 */
    int ndim;
    pt_dtype_t dtype;
    pt_memory_t memory;
    pt_dist_t dist[PT_AXIS_COUNT];
} pt_tensor_t;

/* Return a dense tensor, replicated on every axis. `data` is borrowed. */
pt_tensor_t pt_tensor_1d(void *data, pt_dtype_t dtype, pt_memory_t memory, int64_t n);
pt_tensor_t pt_tensor_2d(void *data, pt_dtype_t dtype, pt_memory_t memory, int64_t rows,
                         int64_t cols);
pt_tensor_t pt_tensor_3d(void *data, pt_dtype_t dtype, pt_memory_t memory, int64_t a,
                         int64_t b, int64_t c);
/* Returns a view of [first, first + count) along dimension `dim`. The range must be
 * within shape[dim], which is not checked. Moves `data`; NULL stays NULL. */
pt_tensor_t pt_tensor_slice(pt_tensor_t x, int dim, int64_t first, int64_t count);
/* Views [n, groups*width] as [n, groups, width]; keeps the strides. */
pt_tensor_t pt_tensor_split_last(pt_tensor_t x, int64_t groups);
int64_t pt_tensor_count(const pt_tensor_t *x); /* elements */
int64_t pt_tensor_bytes(const pt_tensor_t *x); /* of a dense tensor */
bool pt_tensor_is_dense(const pt_tensor_t *x);
bool pt_tensor_same_shape(const pt_tensor_t *a, const pt_tensor_t *b);
/* "fp32[16, 96]"; returns buffer. */
const char *pt_tensor_text(const pt_tensor_t *x, char *buffer, size_t size);

#endif
