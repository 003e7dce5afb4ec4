/* SPDX-License-Identifier: Apache-2.0 */
/* loss_body.h — see kernel.h; no include guard. */
#include "src/ops/cpu/reduce.h"

/* Number of columns on this rank that are not padding. */
static inline int64_t FN(real_columns)(const pt_tensor_t *logits, int64_t first_col,
                                       int64_t vocab)
{
    return pt_max(0, pt_min(logits->shape[1], vocab - first_col));
}

static A FN(row_maximum)(const T *x, int64_t n)
{
    A lane[LANES];
    for (int l = 0; l < LANES; l++)
        lane[l] = (A)-INFINITY;
    int64_t whole = n - n % LANES;
    for (int64_t first = 0; first < whole; first += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = LOAD(x[first + l]) > lane[l] ? LOAD(x[first + l]) : lane[l];
    for (int64_t c = whole; c < n; c++)
        lane[c - whole] = LOAD(x[c]) > lane[c - whole] ? LOAD(x[c]) : lane[c - whole];
    for (int l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static void FN(softmax_stats)(struct pt_stream *stream, const pt_op_softmax_stats_t *a)
{
    int64_t rows = pt_rows(&a->logits);
    int64_t cols = FN(real_columns)(&a->logits, a->first_col, a->vocab);
    const int32_t *label = a->label.data;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *x = PT_ROW(T, a->logits, r);
        int64_t at = label[r] - a->first_col;
        A maximum = FN(row_maximum)(x, cols), sum;
        A base = maximum == (A)-INFINITY ? 0 : maximum;
        PT_ROW_SUM(sum, cols, OF_A(pt_exp)(LOAD(x[c]) - base));
        ((A *)a->maximum.data)[r] = maximum;
        ((A *)a->sum.data)[r] = sum;
        ((A *)a->target.data)[r] = at >= 0 && at < cols ? LOAD(x[at]) : 0;
    }
}

static void FN(cross_entropy_bwd)(struct pt_stream *stream,
                                  const pt_op_cross_entropy_bwd_t *a)
{
    int64_t rows = pt_rows(&a->logits), width = pt_cols(&a->logits);
    int64_t cols = FN(real_columns)(&a->logits, a->first_col, a->vocab);
    const int32_t *label = a->label.data;
    const uint8_t *mask = a->mask.data;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        T *x = PT_ROW(T, a->logits, r);
        int64_t real = mask[r] ? cols : 0, at = label[r] - a->first_col;
        A maximum = ((const A *)a->maximum.data)[r];
        A factor = (A)a->scale / ((const A *)a->sum.data)[r];
        A value = at >= 0 && at < real ? LOAD(x[at]) : 0;
        for (int64_t c = 0; c < real; c++)
            x[c] = STORE(OF_A(pt_exp)(LOAD(x[c]) - maximum) * factor);
        if (at >= 0 && at < real)
            x[at] = STORE(OF_A(pt_exp)(value - maximum) * factor - (A)a->scale);
        for (int64_t c = real; c < width; c++)
            x[c] = STORE(0);
    }
}
