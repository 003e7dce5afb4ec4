/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h — which stage computes which layers: the cut of the pipeline (layer: parallel).
 *
 * The layers are divided, in order, into positions; the first begins with the embedding, the last ends with the head.
 * A stage (a coordinate of the pipeline axis) holds one or more positions, its chunks, in ascending order. Interleaved
 * and V-shaped schedules differ only in the map from positions to stages. */
#ifndef PENTA_CUT_H
#define PENTA_CUT_H

#include "penta/base/status.h"

typedef struct pt_cut {
    int stages, positions;
    int *stage; /* [positions]; owned */
    int *first_layer; /* [positions + 1]: position p has [first_layer[p], first_layer[p + 1]); owned */
} pt_cut_t;

/* Places position p on stage p mod stages, `chunks` positions a stage. Layers are divided as evenly as possible; the
 * first positions have one more. Local. The caller destroys *out. Fails: MEMORY; CONFIG (common): fewer layers than
 * positions. */
pt_status_t pt_cut_create(int layers, int stages, int chunks, pt_cut_t *out);
void pt_cut_destroy(pt_cut_t *cut);
int pt_cut_position_of(const pt_cut_t *cut, int layer);
/* Index of the position among those of its stage. */
int pt_cut_chunk(const pt_cut_t *cut, int position);
/* Number of positions of a stage. */
int pt_cut_chunks(const pt_cut_t *cut, int stage);

#endif
