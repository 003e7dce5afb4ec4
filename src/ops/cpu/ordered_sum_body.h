/* SPDX-License-Identifier: Apache-2.0 */
/* ordered_sum_body.h — see each_wide.h; no include guard. */

static void FN(ordered_sum)(struct pt_stream *stream, const pt_op_ordered_sum_t *a)
{
    int64_t rows = a->src.shape[0], cols = a->src.shape[1];
    PT_PARALLEL
    for (int64_t first = 0; first < cols; first += PT_CONVERT_CHUNK) {
        int64_t width = pt_min(PT_CONVERT_CHUNK, cols - first);
        A sum[PT_CONVERT_CHUNK] = {0}, room[PT_CONVERT_CHUNK];
        for (int64_t r = 0; r < rows; r++) {
            const A *src = (const A *)a->src.data + r * cols + first;
            if (a->src.dtype != A_TYPE) {
                const void *narrow = PT_ELEMENT(const void, a->src, r *cols + first);
                WIDEN(a->src.dtype, narrow, room, width);
                src = room;
            }
            for (int64_t c = 0; c < width; c++)
                sum[c] = r == 0 ? src[c] : sum[c] + src[c];
        }
        PUT(&a->dst, first, sum, width, a->accumulate);
    }
}
