/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Planes and pieces of hyperslabs, element by element against nested loops. */
#include "regression/tap.h"

#include "penta/base/hyperslab.h"

#include <string.h>

enum { MOST = 600 };

/* The tensor's elements in the order in which they lie in memory. */
static int64_t list(const pt_hyperslab_t *slab, const int64_t shape[3], int64_t *out)
{
    int64_t n = 0;

    for (int64_t a = 0; a < slab->count[0]; a++)
        for (int64_t b = 0; b < slab->count[1]; b++)
            for (int64_t c = 0; c < slab->count[2]; c++)
                out[n++] =
                    ((slab->start[0] + a) * shape[1] + slab->start[1] + b) * shape[2] +
                    slab->start[2] + c;
    return n;
}

static bool planes_are_right(const pt_hyperslab_t *slab, int ndim,
                             const int64_t shape[3])
{
    int64_t expected[MOST], n = list(slab, shape, expected), seen = 0;

    for (int64_t i = 0; i < pt_hyperslab_planes(slab, ndim); i++) {
        pt_hyperslab_plane_t p = pt_hyperslab_plane(slab, ndim, shape, i);
        for (int64_t r = 0; r < p.rows; r++)
            for (int64_t c = 0; c < p.cols; c++, seen++) {
                int64_t at = p.local - slab->local + r * p.cols + c;
                if (at != seen || at >= n || expected[at] != p.first + r * p.pitch + c)
                    return false;
            }
    }
    return seen == n && pt_hyperslab_elements(slab) == n;
}

/* Every element once, each piece dense where it says, none larger than asked for. */
static bool pieces_are_right(const pt_hyperslab_t *slab, const int64_t shape[3],
                             int64_t most)
{
    int64_t expected[MOST], piece[MOST], n = list(slab, shape, expected), seen = 0;
    pt_hyperslab_walk_t walk = pt_hyperslab_walk(slab, 4, 4 * most);

    while (pt_hyperslab_next(&walk)) {
        int64_t count = list(&walk.piece, shape, piece);
        if (walk.piece.local != seen || count > (most > 1 ? most : 1) ||
            count != pt_hyperslab_elements(&walk.piece) ||
            memcmp(piece, expected + seen, (size_t)count * sizeof *piece) != 0)
            return false;
        seen += count;
    }
    return seen == n;
}

static void test_cuts(int ndim, const int64_t shape[3])
{
    int wrong_planes = 0, wrong_pieces = 0, slabs = 0;

    for (int64_t from = 0; from < 3; from++)
        for (int64_t less = 0; less < 3; less++)
            for (int d = 0; d < ndim; d++) {
                pt_hyperslab_t slab = pt_hyperslab_whole(ndim, shape);
                slab.local = 11;
                slab.start[d] = from;
                slab.count[d] -= from + less;
                if (d > 0) /* and of an outer dimension all but the first */
                    slab.start[d - 1] = 1, slab.count[d - 1] -= 1;
                slabs++;
                wrong_planes += !planes_are_right(&slab, ndim, shape);
                for (int64_t most = 0; most < 40; most++)
                    wrong_pieces += !pieces_are_right(&slab, shape, most);
            }
    tap_ok(wrong_planes == 0, "%d dimensions: planes of %d hyperslabs", ndim, slabs);
    tap_ok(wrong_pieces == 0, "%d dimensions: pieces of %d hyperslabs", ndim, slabs);
}

int main(void)
{
    pt_hyperslab_t empty = {.count = {0, 5, 1}};
    pt_hyperslab_walk_t walk = pt_hyperslab_walk(&empty, 4, 64);

    test_cuts(1, (int64_t[]){7, 1, 1});
    test_cuts(2, (int64_t[]){6, 9, 1});
    test_cuts(3, (int64_t[]){5, 6, 7});
    tap_ok(!pt_hyperslab_next(&walk), "an empty one has no piece");
    return tap_done();
}
