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

/* Rows are summed in runs of 64, the runs then: short chains keep the rounding small. */
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

/* y = x + branch without x where it is NULL, the branch dropped. */
static void FN(drop_row)(T *y, const T *x, const T *branch, int64_t cols,
                         const pt_dropout_t *dropout, int64_t row)
{
    pt_draw_t draw = pt_draw_of_row(dropout, row, 0);
    uint32_t words[PT_DRAW_CHUNK + 8], threshold = draw.threshold;
    A scale = (A)(1 / (1 - dropout->p));
    for (int64_t first = 0; first < cols; first += PT_DRAW_CHUNK) {
        int64_t count = pt_min(PT_DRAW_CHUNK, cols - first);
        const uint32_t *word =
            pt_draw_words(&draw, dropout->first_col + first, count, words);
        if (x) {
            PT_IVDEP
            for (int64_t c = 0; c < count; c++) {
                A kept = LOAD(branch[first + c]) * scale;
                kept = word[c] >= threshold ? kept : 0;
                y[first + c] = STORE(LOAD(x[first + c]) + kept);
            }
        } else {
            PT_IVDEP
            for (int64_t c = 0; c < count; c++) {
                A kept = LOAD(branch[first + c]) * scale;
                y[first + c] = STORE(word[c] >= threshold ? kept : 0);
            }
        }
    }
}

static void FN(residual)(struct pt_stream *stream, const pt_op_residual_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *x = PT_ROW(T, a->x, r), *branch = PT_ROW(T, a->branch, r);
        T *y = PT_ROW(T, a->y, r);
        if (a->dropout.p > 0) {
            FN(drop_row)(y, x, branch, cols, &a->dropout, r);
            continue;
        }
        PT_IVDEP
        for (int64_t c = 0; c < cols; c++)
            y[c] = STORE(LOAD(x[c]) + LOAD(branch[c]));
    }
}

static void FN(dropout)(struct pt_stream *stream, const pt_op_dropout_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *x = PT_ROW(T, a->x, r);
        T *y = PT_ROW(T, a->y, r);
        if (a->dropout.p > 0)
            FN(drop_row)(y, NULL, x, cols, &a->dropout, r);
        else if (y != x)
            memcpy(y, x, (size_t)cols * sizeof(T));
    }
}
