/* SPDX-License-Identifier: Apache-2.0 */
/* holders.h — who holds what of a parameter (layer: parallel). Pure arithmetic.
 *
 * For each part of a parameter one description says which ranks hold the same elements, which ranks hold
 * other elements, and over which ranks the gradient of a backward pass remains to be summed. The owner of an
 * element (in norm, digest and file) and the sums of a step follow from it. Parts of one parameter may
 * differ: with fewer KV heads than tensor ranks, k and v of q|k|v are shared and q is not. */
#ifndef PENTA_HOLDERS_H
#define PENTA_HOLDERS_H

#include "penta/comm/mesh.h"
#include "penta/parallel/param.h"

/* Sets of dense or expert axes (PT_AXIS_BIT of mesh.h). The pipeline is in none of them, since a parameter belongs to
 * one stage. On an axis in no set the rank has no peers for this part. */
typedef struct pt_holders {
    unsigned same;  /* all ranks along these axes hold the same elements */
    unsigned other; /* along these, other elements of the part, apart from sharers */
    unsigned sums;  /* over all ranks along these the gradient is a partial sum */
    pt_axis_t axis; /* of sharers: the part's shard axis */
    int sharers; /* number of neighbours on `axis` that hold the same elements and sum gradients; 1: none */
    bool owner; /* has the lowest coordinates among the holders of these elements, replicas apart */
} pt_holders_t;

/* The axes of the replicas that sum gradients of the parameter and shard its buckets. */
unsigned pt_holders_replicas(const pt_param_t *param);
/* Describes a part for the rank with these coordinates. */
pt_holders_t pt_holders_of(const pt_param_t *param, int part,
                           const pt_mesh_shape_t *shape,
                           const int coordinate[PT_AXIS_COUNT]);

#endif
