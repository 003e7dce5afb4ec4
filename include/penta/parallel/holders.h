/* SPDX-License-Identifier: Apache-2.0 */
/* holders.h — who holds what of a parameter (layer: parallel). Pure arithmetic.
 *
 * For each part of a parameter one description says which ranks hold the same elements, which hold
 * others, and over whom the gradient that a backward pass leaves is still to be summed. What
 * follows from it: who speaks for elements in norm, digest and file, and which sums a step makes.
 * Parts of one parameter may differ: of q|k|v, the k and v of fewer heads than tensor ranks are
 * shared, and q is not. */
#ifndef PENTA_HOLDERS_H
#define PENTA_HOLDERS_H

#include "penta/comm/mesh.h"
#include "penta/parallel/param.h"

/* Sets of axes, PT_AXIS_BIT of mesh.h, dense or expert ones; the stage is not among them: a parameter
 * belongs to one. On an axis in no set the rank has no peers for this part. */
typedef struct pt_holders {
    unsigned same;  /* all ranks along these axes hold the same elements */
    unsigned other; /* along these, other elements of the part, apart from sharers */
    unsigned sums;  /* over all ranks along these the gradient is a partial sum */
    pt_axis_t axis; /* of sharers: the part's shard axis */
    int sharers; /* so many neighbours on `axis` hold the same elements, and sum gradients; 1: none */
    bool owner; /* this rank speaks for its elements: of all holders but the replicas of its data axis,
                   the one with the lowest coordinates */
} pt_holders_t;

/* The replicas that sum gradients of the parameter and cut its buckets into shards. */
unsigned pt_holders_replicas(const pt_param_t *param);
/* Of a part, for the rank with these coordinates. */
pt_holders_t pt_holders_of(const pt_param_t *param, int part,
                           const pt_mesh_shape_t *shape,
                           const int coordinate[PT_AXIS_COUNT]);

#endif
