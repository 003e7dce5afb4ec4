/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_body.h — see kernel.h; no include guard. */

static void FN(add)(struct pt_stream *stream, const pt_op_add_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *left = PT_ROW(T, a->a, r), *right = PT_ROW(T, a->b, r);
        T *y = PT_ROW(T, a->y, r);
        PT_IVDEP
        for (int64_t c = 0; c < cols; c++)
            y[c] = STORE(LOAD(left[c]) + LOAD(right[c]));
    }
}

static void FN(bias_fwd)(struct pt_stream *stream, const pt_op_bias_fwd_t *a)
{
    int64_t rows = pt_rows(&a->x), cols = pt_cols(&a->x);
    const T *bias = a->bias.data;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        T *x = PT_ROW(T, a->x, r);
        PT_IVDEP
        for (int64_t c = 0; c < cols; c++)
            x[c] = STORE(LOAD(x[c]) + LOAD(bias[c]));
    }
}

/* Sums rows in runs of 64, then the runs: short chains keep the rounding error
 * small. */
static void FN(bias_bwd)(struct pt_stream *stream, const pt_op_bias_bwd_t *a)
{
    enum { BLOCK = 128, RUN = 64 };
    int64_t rows = pt_rows(&a->dy), cols = pt_cols(&a->dy);
    PT_PARALLEL
    for (int64_t first = 0; first < cols; first += BLOCK) {
        int64_t width = pt_min(BLOCK, cols - first);
        A total[BLOCK] = {0};
        for (int64_t start = 0; start < rows; start += RUN) {
            int64_t end = pt_min(start + RUN, rows);
            A run[BLOCK] = {0};
            for (int64_t r = start; r < end; r++) {
                const T *dy = PT_ROW(T, a->dy, r) + first;
                for (int64_t c = 0; c < width; c++)
                    run[c] += LOAD(dy[c]);
            }
            for (int64_t c = 0; c < width; c++)
                total[c] += run[c];
        }
        PUT(&a->dbias, first, total, width, true);
    }
}

/* A row of y = x + branch + bias. x and bias may be NULL. */
typedef struct FN(sum_row) {
    T *y;
    const T *x, *branch, *bias;
} FN(sum_row_t);

static inline A FN(branch_at)(const FN(sum_row_t) * row, int64_t c)
{
    A branch = LOAD(row->branch[c]);
    return row->bias ? branch + LOAD(row->bias[c]) : branch;
}

/* Computes a row with dropout of branch + bias. */
static void FN(drop_row)(FN(sum_row_t) row, int64_t cols, const pt_dropout_t *dropout,
                         int64_t r)
{
    pt_draw_t draw = pt_draw_of_row(dropout, r, 0);
    uint32_t words[PT_DRAW_CHUNK + 8], threshold = draw.threshold;
    A scale = (A)(1 / (1 - dropout->p));
    for (int64_t first = 0; first < cols; first += PT_DRAW_CHUNK) {
        int64_t count = pt_min(PT_DRAW_CHUNK, cols - first);
        const uint32_t *word =
            pt_draw_words(&draw, dropout->first_col + first, count, words);
        PT_IVDEP
        for (int64_t c = 0; c < count; c++) {
            A kept = FN(branch_at)(&row, first + c) * scale;
            kept = word[c] >= threshold ? kept : 0;
            row.y[first + c] = STORE(row.x ? LOAD(row.x[first + c]) + kept : kept);
        }
    }
}

static void FN(residual)(struct pt_stream *stream, const pt_op_residual_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        FN(sum_row_t)
        row = {PT_ROW(T, a->y, r), PT_ROW(T, a->x, r), PT_ROW(T, a->branch, r),
               a->bias.data};
        if (a->dropout.p > 0) {
            FN(drop_row)(row, cols, &a->dropout, r);
            continue;
        }
        PT_IVDEP
        for (int64_t c = 0; c < cols; c++)
            row.y[c] = STORE(LOAD(row.x[c]) + FN(branch_at)(&row, c));
    }
}

static void FN(dropout)(struct pt_stream *stream, const pt_op_dropout_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        FN(sum_row_t) row = {PT_ROW(T, a->y, r), NULL, PT_ROW(T, a->x, r), NULL};
        if (a->dropout.p > 0)
            FN(drop_row)(row, cols, &a->dropout, r);
        else if (row.y != row.branch)
            memcpy(row.y, row.branch, (size_t)cols * sizeof(T));
    }
}
