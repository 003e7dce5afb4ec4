/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/hyperslab.h"

pt_hyperslab_t pt_hyperslab_whole(int ndim, const int64_t *shape)
{
    pt_hyperslab_t slab = {.count = {1, 1, 1}};

    for (int d = 0; d < ndim; d++)
        slab.count[d] = shape[d];
    return slab;
}

int64_t pt_hyperslab_elements(const pt_hyperslab_t *slab)
{
    return slab->count[0] * slab->count[1] * slab->count[2];
}

int64_t pt_hyperslab_planes(const pt_hyperslab_t *slab, int ndim)
{
    return ndim == PT_HYPERSLAB_DIMS ? slab->count[0] : 1;
}

pt_hyperslab_plane_t pt_hyperslab_plane(const pt_hyperslab_t *slab, int ndim,
                                        const int64_t *shape, int64_t index)
{
    int col = ndim - 1, row = ndim - 2;
    pt_hyperslab_plane_t plane = {.rows = 1,
                                  .cols = slab->count[col],
                                  .first = slab->start[col],
                                  .pitch = shape[col],
                                  .local = slab->local};

    if (row < 0)
        return plane;
    plane.rows = slab->count[row];
    plane.first += slab->start[row] * plane.pitch;
    if (row > 0)
        plane.first += (slab->start[0] + index) * shape[row] * plane.pitch;
    plane.local += index * plane.rows * plane.cols;
    return plane;
}

static int64_t hyperslab_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

pt_hyperslab_walk_t pt_hyperslab_walk(const pt_hyperslab_t *slab, size_t element_bytes,
                                      int64_t bytes)
{
    pt_hyperslab_walk_t walk = {.all = *slab, .step = {1, 1, 1}, .at = {0, 0, -1}};
    int64_t room = bytes / (int64_t)element_bytes;

    /* The outer dimensions are divided first, so that pieces stay dense. */
    for (int d = PT_HYPERSLAB_DIMS - 1; d >= 0 && slab->count[d] > 0; d--) {
        walk.step[d] = hyperslab_clamp(room, 1, slab->count[d]);
        if (walk.step[d] < slab->count[d])
            break;
        room /= slab->count[d];
    }
    return walk;
}

/* Returns false at the end of the walk. */
static bool hyperslab_advance(pt_hyperslab_walk_t *walk)
{
    int d = PT_HYPERSLAB_DIMS - 1;

    if (walk->at[d] < 0) {
        walk->at[d] = 0;
        return pt_hyperslab_elements(&walk->all) > 0;
    }
    for (; d >= 0; d--) {
        walk->at[d] += walk->step[d];
        if (walk->at[d] < walk->all.count[d])
            return true;
        walk->at[d] = 0;
    }
    return false;
}

bool pt_hyperslab_next(pt_hyperslab_walk_t *walk)
{
    const int64_t *count = walk->all.count;
    pt_hyperslab_t *piece = &walk->piece;

    if (!hyperslab_advance(walk))
        return false;
    piece->local = 0;
    for (int d = 0; d < PT_HYPERSLAB_DIMS; d++) {
        piece->start[d] = walk->all.start[d] + walk->at[d];
        piece->count[d] = hyperslab_clamp(walk->step[d], 1, count[d] - walk->at[d]);
        piece->local = piece->local * count[d] + walk->at[d];
    }
    return true;
}
