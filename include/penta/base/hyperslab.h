/* SPDX-License-Identifier: Apache-2.0 */
/* hyperslab.h — a rectangular part of a row-major tensor of 1 to 3 dimensions (layer:
 * base). Pure functions.
 *
 * All parts of tensors are hyperslabs: the elements a rank holds, where a file stores
 * them, and the pieces they are transferred in. */
#ifndef PENTA_HYPERSLAB_H
#define PENTA_HYPERSLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PT_HYPERSLAB_DIMS = 3 };

typedef struct pt_hyperslab {
    int64_t start[PT_HYPERSLAB_DIMS]; /* 0 in dimensions the tensor lacks */
    int64_t count[PT_HYPERSLAB_DIMS]; /* elements; 1 in dimensions the tensor lacks */
    int64_t local; /* offset in memory, where its elements lie dense */
} pt_hyperslab_t;

/* The hyperslab of a whole tensor; local is 0. */
pt_hyperslab_t pt_hyperslab_whole(int ndim, const int64_t *shape);
int64_t pt_hyperslab_elements(const pt_hyperslab_t *slab);

/* A two-dimensional plane of a hyperslab, for digests, initial weights and files.
 * Element (r, c) is element first + r·pitch + c of the tensor and element local +
 * r·cols + c of the memory. */
typedef struct pt_hyperslab_plane {
    int64_t rows, cols, first, pitch, local;
} pt_hyperslab_plane_t;

/* Number of planes in a hyperslab of a tensor with `ndim` dimensions: 1, or the number
 * of matrices in a stack of matrices. */
int64_t pt_hyperslab_planes(const pt_hyperslab_t *slab, int ndim);
/* Returns plane `index`. A vector is a plane of one row. */
pt_hyperslab_plane_t pt_hyperslab_plane(const pt_hyperslab_t *slab, int ndim,
                                        const int64_t *shape, int64_t index);

/* Iterates over a hyperslab in pieces. Each piece is dense in the memory of the whole;
 * piece.local counts from the first element of the hyperslab. */
typedef struct pt_hyperslab_walk {
    pt_hyperslab_t all, piece;
    int64_t step[PT_HYPERSLAB_DIMS], at[PT_HYPERSLAB_DIMS];
} pt_hyperslab_walk_t;

/* Starts a walk in pieces of at most `bytes`, but of one element at least. */
pt_hyperslab_walk_t pt_hyperslab_walk(const pt_hyperslab_t *slab, size_t element_bytes,
                                      int64_t bytes);
bool pt_hyperslab_next(pt_hyperslab_walk_t *walk); /* false: no more pieces */

#endif
