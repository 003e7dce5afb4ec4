/* SPDX-License-Identifier: Apache-2.0 */
/* sum_body.h — see kernel.h; no include guard. */

/* Sums up to PT_SUM_BLOCK elements (or squares) in fp64 by halves: element i is added
 * to i + 512, the result to i + 256, … Missing elements count as zero. */
static double FN(block_sum)(const T *x, int64_t n, bool square)
{
    enum { HALF = PT_SUM_BLOCK / 2 };
    double part[PT_SUM_BLOCK], fold[HALF];
    for (int64_t i = 0; i < n; i++)
        part[i] = square ? (double)LOAD(x[i]) * (double)LOAD(x[i]) : (double)LOAD(x[i]);
    for (int64_t i = n; i < PT_SUM_BLOCK; i++)
        part[i] = 0;
    for (int i = 0; i < HALF; i++)
        fold[i] = part[i] + part[i + HALF];
    for (int width = HALF / 2; width > 0; width /= 2) {
        PT_IVDEP
        for (int i = 0; i < width; i++)
            fold[i] += fold[i + width];
    }
    return fold[0];
}

static void FN(exact_sum)(struct pt_stream *stream, const pt_op_sum_t *a, bool square)
{
    int64_t count = pt_tensor_count(&a->x);
    const T *x = a->x.data;
    pt_sum_t *total = a->accumulator.data;
/* Merging carries, so the bins depend on the value only, not on which thread added
 * what. */
#pragma omp parallel num_threads(stream->threads) if (stream->threads > 1)
    {
        pt_sum_t mine;
        pt_sum_clear(&mine);
#pragma omp for schedule(static)
        for (int64_t first = 0; first < count; first += PT_SUM_BLOCK)
            pt_sum_add(
                &mine,
                FN(block_sum)(x + first, pt_min(PT_SUM_BLOCK, count - first), square));
#pragma omp critical
        pt_sum_merge(total, &mine);
    }
}

static void FN(sum)(struct pt_stream *stream, const pt_op_sum_t *a)
{
    FN(exact_sum)(stream, a, false);
}

static void FN(sum_squares)(struct pt_stream *stream, const pt_op_sum_squares_t *a)
{
    FN(exact_sum)(stream, a, true);
}
