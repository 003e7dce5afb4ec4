/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h — which stage computes which layers: the cut of the pipeline (layer: parallel).
 *
 * Layers are cut into positions, in order; the first begins with the embedding, the last ends with the head. A stage
 * (a coordinate of the pipeline axis) has one position or more, its chunks, in ascending order. Interleaved
 * schedules and those in the form of a V differ in the map from positions to stages, nothing else. */
#ifndef PENTA_CUT_H
#define PENTA_CUT_H

#include "penta/base/status.h"

typedef struct pt_cut {
    int stages, positions;
    int *stage; /* [positions]; owned */
    int *first_layer; /* [positions + 1]: position p has [first_layer[p], first_layer[p + 1]); owned */
} pt_cut_t;

/* `chunks` positions a stage, position p on stage p mod stages, layers as equal as can be, the earlier positions
 * having one more. Local. Fails: MEMORY; CONFIG (common): fewer layers than positions. Caller destroys. */
pt_status_t pt_cut_create(int layers, int stages, int chunks, pt_cut_t *out);
void pt_cut_destroy(pt_cut_t *cut);
int pt_cut_position_of(const pt_cut_t *cut, int layer);
/* The how many-th of its stage's positions it is, from 0. */
int pt_cut_chunk(const pt_cut_t *cut, int position);
/* Positions of a stage. */
int pt_cut_chunks(const pt_cut_t *cut, int stage);

#endif
