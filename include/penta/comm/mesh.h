/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h — coordinates of ranks, and communicators (layer: comm).
 *
 * World = tensor × context × pipeline × data, numbered with the innermost axis of
 * `order` fastest. For experts, the ranks of each stage are numbered again: their index
 * (tensor innermost, then context, then data) is decomposed into expert_tensor (inner)
 * × expert × expert_data (outer). The attention and the experts of a rank use different
 * groups. `order` only decides which process has which coordinates. Members of a group
 * are ordered by coordinates, so sums in rank order do not depend on `order`.
 * Every communicator is created once, here. Coordinates and group positions are pure
 * functions of constant time, also for ranks that do not exist (plans). */
#ifndef PENTA_MESH_H
#define PENTA_MESH_H

#include "penta/comm/comm.h"

typedef struct pt_mesh_shape {
    int size[PT_AXIS_COUNT];
    pt_axis_t
        order[4]; /* inner to outer; a permutation of tensor, context, pipeline, data */
} pt_mesh_shape_t;

/* Axes of size 1, default order. */
pt_mesh_shape_t pt_mesh_shape_default(void);
/* Computes data (if 0) and expert_data from `ranks`. Fails: CONFIG (common), naming
 * what does not divide and the nearest value that does. */
pt_status_t pt_mesh_shape_complete(pt_mesh_shape_t *shape, int ranks);
int pt_mesh_ranks(const pt_mesh_shape_t *shape);
void pt_mesh_coordinates(const pt_mesh_shape_t *shape, int rank,
                         int coordinate[PT_AXIS_COUNT]);
int pt_mesh_rank_of(const pt_mesh_shape_t *shape, const int coordinate[PT_AXIS_COUNT]);

/* Sets of axes. */
#define PT_AXIS_BIT(axis) (1u << (axis))
#define PT_DENSE_REPLICAS (PT_AXIS_BIT(PT_AXIS_CONTEXT) | PT_AXIS_BIT(PT_AXIS_DATA))

/* Position of the rank with these coordinates in its group. The group consists of the
 * ranks that differ from it only on `axes`, ordered by coordinates (tensor innermost,
 * then context, data, pipeline; or expert_tensor, expert, expert_data, pipeline).
 * axes: dense axes or expert axes; either set may include the pipeline. */
pt_comm_place_t pt_mesh_group_place(const pt_mesh_shape_t *shape,
                                    const int coordinate[PT_AXIS_COUNT], unsigned axes);

typedef struct pt_mesh {
    pt_mesh_shape_t shape;
    int coordinate[PT_AXIS_COUNT];
    pt_comm_t *world; /* borrowed from the engine */
    pt_comm_t *
        axis[PT_AXIS_COUNT]; /* also of axes of size 1, so that callers need no special case */
    pt_comm_t *dense_replicas; /* data × context: dense gradients are summed over it */
    pt_comm_t *expert_replicas; /* expert_data */
    /* The same ranks, for gathers: a gather waits only for its own sum and delays no
     * other sum. */
    pt_comm_t *dense_gather, *expert_gather;
} pt_mesh_t;

/* Collective (world). The caller destroys *out. */
pt_status_t pt_mesh_create(pt_engine_t *engine, const pt_mesh_shape_t *shape,
                           pt_mesh_t *out);
void pt_mesh_destroy(pt_mesh_t *mesh);

#endif
