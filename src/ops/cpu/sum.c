/* Sums in a fixed order, and exact ones. */
#include "penta/sum.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/sum_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(sum, x)
PT_DISPATCH(sum_squares, x)

enum { SUM_CHUNK = 1024 };

#define ORDERED_SUM(from, to)                                                          \
    PT_PARALLEL                                                                        \
    for (int64_t first = 0; first < cols; first += SUM_CHUNK) {                        \
        int64_t width = pt_min(SUM_CHUNK, cols - first);                               \
        to *dst = (to *)a->dst.data + first;                                           \
        to sum[SUM_CHUNK] = {0};                                                       \
        for (int64_t r = 0; r < rows; r++) {                                           \
            const from *src = (const from *)a->src.data + r * cols + first;            \
            for (int64_t c = 0; c < width; c++)                                        \
                sum[c] = r == 0 ? (to)src[c] : sum[c] + (to)src[c];                    \
        }                                                                              \
        for (int64_t c = 0; c < width; c++)                                            \
            dst[c] = a->accumulate ? dst[c] + sum[c] : sum[c];                         \
    }

pt_status_t PT_KERNEL(ordered_sum)(struct pt_stream *stream,
                                   const pt_op_ordered_sum_t *a)
{
    int64_t rows = a->src.shape[0], cols = a->src.shape[1];
    if (a->src.dtype == PT_F64 && a->dst.dtype == PT_F64) {
        ORDERED_SUM(double, double)
    } else if (a->dst.dtype == PT_F64) {
        ORDERED_SUM(float, double)
    } else {
        ORDERED_SUM(float, float)
    }
    return PT_OK;
}
