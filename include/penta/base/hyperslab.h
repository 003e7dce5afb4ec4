/* SPDX-License-Identifier: Apache-2.0 */
/* hyperslab.h — a box of a row-major tensor of 1 to 3 dimensions (layer: base). Pure.
 *
 * The one description of a part of a tensor: what a rank holds of it, where a file keeps it and how
 * it is cut into pieces are all hyperslabs. */
#ifndef PENTA_HYPERSLAB_H
#define PENTA_HYPERSLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PT_HYPERSLAB_DIMS = 3 };

typedef struct pt_hyperslab {
    int64_t start[PT_HYPERSLAB_DIMS]; /* first element; 0 in dimensions the tensor lacks */
    int64_t count[PT_HYPERSLAB_DIMS]; /* elements; 1 in dimensions the tensor lacks */
    int64_t local; /* its elements lie dense in memory, from element `local` of a larger range on */
} pt_hyperslab_t;

/* All of a tensor; local 0. */
pt_hyperslab_t pt_hyperslab_whole(int ndim, const int64_t *shape);
int64_t pt_hyperslab_elements(const pt_hyperslab_t *slab);

/* A plane of a hyperslab, as digests, initial weights and files want it: element (r, c) is element
 * first + r·pitch + c of the tensor, and element local + r·cols + c of the memory. */
typedef struct pt_hyperslab_plane {
    int64_t rows, cols, first, pitch, local;
} pt_hyperslab_plane_t;

/* Planes of a hyperslab of a tensor with `ndim` dimensions: one, unless it is a stack of matrices. */
int64_t pt_hyperslab_planes(const pt_hyperslab_t *slab, int ndim);
/* The plane `index`. A vector is a plane of one row. */
pt_hyperslab_plane_t pt_hyperslab_plane(const pt_hyperslab_t *slab, int ndim,
                                        const int64_t *shape, int64_t index);

/* Walks a hyperslab in pieces. Each is dense in the memory of the whole; piece.local counts from the
 * first element of the hyperslab. */
typedef struct pt_hyperslab_walk {
    pt_hyperslab_t all, piece;
    int64_t step[PT_HYPERSLAB_DIMS], at[PT_HYPERSLAB_DIMS];
} pt_hyperslab_walk_t;

/* Pieces of at most `bytes`, but of one element at least. */
pt_hyperslab_walk_t pt_hyperslab_walk(const pt_hyperslab_t *slab, size_t element_bytes,
                                      int64_t bytes);
bool pt_hyperslab_next(pt_hyperslab_walk_t *walk); /* false: no further piece */

#endif
