/* SPDX-License-Identifier: Apache-2.0 */
/* Normal numbers for initial weights. */
#include "penta/base/normal.h"
#include "src/ops/cpu/kernel.h"

pt_status_t PT_KERNEL(normal)(struct pt_stream *stream, const pt_op_normal_t *a)
{
    enum { PIECE = 2 * PT_NORMAL_PAIRS };
    int64_t cols = pt_cols(&a->x), pieces = (cols + PIECE - 1) / PIECE;
    PT_PARALLEL
    for (int64_t task = 0; task < a->x.shape[0] * pieces; task++) {
        int64_t row = task / pieces, from = task % pieces * PIECE;
        int64_t count = pt_min(PIECE, cols - from);
        double drawn[PIECE];
        pt_normals(a->seed, a->id, a->first + row * a->pitch + from, count, drawn);
        for (int64_t c = 0; c < count; c++)
            drawn[c] *= a->std;
        PT_KERNEL(narrow_f64)
        (a->x.dtype, drawn, PT_ELEMENT(void, a->x, row * a->x.stride[0] + from), count);
    }
    return PT_OK;
}
