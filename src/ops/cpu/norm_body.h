/* SPDX-License-Identifier: Apache-2.0 */
/* norm_body.h — see kernel.h; no include guard. */
#include "src/ops/cpu/reduce.h"

static void FN(norm_fwd)(struct pt_stream *stream, const pt_op_norm_fwd_t *a)
{
    int64_t rows = pt_rows(&a->x), cols = pt_cols(&a->x);
    const T *weight = a->weight.data, *bias = a->bias.data;
    bool layer = a->kind == PT_NORM_LAYER;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *x = PT_ROW(T, a->x, r);
        T *restrict y = PT_ROW(T, a->y, r);
        A mean = 0, square;
        if (layer) {
            PT_ROW_SUM(mean, cols, LOAD(x[c]));
            mean /= (A)cols;
            ((A *)a->mean.data)[r] = mean;
        }
        PT_ROW_SUM(square, cols, (LOAD(x[c]) - mean) * (LOAD(x[c]) - mean));
        A rstd = 1 / OF_A(pt_sqrt)(square / (A)cols + (A)a->eps);
        ((A *)a->rstd.data)[r] = rstd;
        if (bias)
            for (int64_t c = 0; c < cols; c++)
                y[c] =
                    STORE((LOAD(x[c]) - mean) * rstd * LOAD(weight[c]) + LOAD(bias[c]));
        else
            for (int64_t c = 0; c < cols; c++)
                y[c] = STORE((LOAD(x[c]) - mean) * rstd * LOAD(weight[c]));
    }
}

/* With x̂ = (x - mean)·rstd and g = dy·weight:
 *   dx = rstd·(g - mean(g) - x̂·mean(g·x̂)), without mean(g) for rms. */
static void FN(norm_bwd_input)(struct pt_stream *stream, const pt_op_norm_bwd_input_t *a)
{
    int64_t rows = pt_rows(&a->x), cols = pt_cols(&a->x);
    const T *weight = a->weight.data;
    bool layer = a->kind == PT_NORM_LAYER;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *dy = PT_ROW(T, a->dy, r), *x = PT_ROW(T, a->x, r);
        T *dx = PT_ROW(T, a->dx, r);
        A mean = layer ? ((const A *)a->mean.data)[r] : 0;
        A rstd = ((const A *)a->rstd.data)[r], along = 0, across;
        if (layer)
            PT_ROW_SUM(along, cols, LOAD(dy[c]) * LOAD(weight[c]));
        PT_ROW_SUM(across, cols,
                   LOAD(dy[c]) * LOAD(weight[c]) * ((LOAD(x[c]) - mean) * rstd));
        along /= (A)cols;
        across /= (A)cols;
        A keep = a->accumulate ? 1 : 0;
        PT_IVDEP
        for (int64_t c = 0; c < cols; c++) {
            A g = LOAD(dy[c]) * LOAD(weight[c]);
            A value = rstd * (g - along - (LOAD(x[c]) - mean) * rstd * across);
            dx[c] = STORE(keep != 0 ? LOAD(dx[c]) + value : value);
        }
    }
}

/* Computes columns [first, first + width), width <= 64. Rows are summed in runs as in
 * bias_bwd. */
static void FN(norm_weight_columns)(const pt_op_norm_bwd_weight_t *a, int64_t first,
                                    int64_t width)
{
    enum { BLOCK = 64, RUN = 64 };
    int64_t rows = pt_rows(&a->x);
    bool layer = a->kind == PT_NORM_LAYER;
    A weight[BLOCK] = {0}, bias[BLOCK] = {0};
    for (int64_t start = 0; start < rows; start += RUN) {
        int64_t end = pt_min(start + RUN, rows);
        A weight_run[BLOCK] = {0}, bias_run[BLOCK] = {0};
        for (int64_t r = start; r < end; r++) {
            const T *dy = PT_ROW(T, a->dy, r) + first, *x = PT_ROW(T, a->x, r) + first;
            A mean = layer ? ((const A *)a->mean.data)[r] : 0;
            A rstd = ((const A *)a->rstd.data)[r];
            for (int64_t c = 0; c < width; c++) {
                weight_run[c] += LOAD(dy[c]) * ((LOAD(x[c]) - mean) * rstd);
                bias_run[c] += LOAD(dy[c]);
            }
        }
        for (int64_t c = 0; c < width; c++) {
            weight[c] += weight_run[c];
            bias[c] += bias_run[c];
        }
    }
    PUT(&a->dweight, first, weight, width, true);
    if (a->dbias.data)
        PUT(&a->dbias, first, bias, width, true);
}

static void FN(norm_bwd_weight)(struct pt_stream *stream,
                                const pt_op_norm_bwd_weight_t *a)
{
    int64_t cols = pt_cols(&a->x);
    PT_PARALLEL
    for (int64_t first = 0; first < cols; first += 64)
        FN(norm_weight_columns)(a, first, pt_min(64, cols - first));
}
