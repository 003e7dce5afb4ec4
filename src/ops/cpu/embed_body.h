/* SPDX-License-Identifier: Apache-2.0 */
/* embed_body.h — see kernel.h; no include guard. */

static void FN(embed_fwd)(struct pt_stream *stream, const pt_op_embed_fwd_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    const int32_t *index = a->index.data;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = index[r] - a->first_row;
        bool here = at >= 0 && at < a->table.shape[0];
        T *y = PT_ROW(T, a->y, r);
        if (!here) {
            if (!a->accumulate)
                memset(y, 0, (size_t)cols * sizeof(T));
            continue;
        }
        const T *from = PT_ROW(T, a->table, at);
        if (a->accumulate)
            for (int64_t c = 0; c < cols; c++)
                y[c] = STORE(LOAD(y[c]) + LOAD(from[c]));
        else
            memcpy(y, from, (size_t)cols * sizeof(T));
    }
}

/* Threads share the columns, so that each element adds its rows in ascending order. */
static void FN(embed_bwd_wide)(struct pt_stream *stream, const pt_op_embed_bwd_t *a)
{
    int64_t rows = pt_rows(&a->dy), cols = pt_cols(&a->dy);
    int64_t width = stream->threads > 1 ? (cols / stream->threads + 16) & -16 : cols;
    const int32_t *index = a->index.data;
    PT_PARALLEL
    for (int64_t first = 0; first < cols; first += width) {
        int64_t count = pt_min(width, cols - first);
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = index[r] - a->first_row;
            if (at < 0 || at >= a->dtable.shape[0])
                continue;
            const T *dy = PT_ROW(T, a->dy, r) + first;
            A *to = PT_ROW(A, a->dtable, at) + first;
            for (int64_t c = 0; c < count; c++)
                to[c] += LOAD(dy[c]);
        }
    }
}

/* Sums the rows of dy that belong to row `at` of the table, and adds the sum. */
static void FN(embed_bwd_row)(const pt_op_embed_bwd_t *a, int64_t at, int32_t first_row,
                              const int32_t *next)
{
    enum { BLOCK = 128 };
    int64_t cols = pt_cols(&a->dy);
    for (int64_t first = 0; first < cols; first += BLOCK) {
        int64_t width = pt_min(BLOCK, cols - first);
        A sum[BLOCK] = {0};
        for (int32_t r = first_row; r >= 0; r = next[r]) {
            const T *dy = PT_ROW(T, a->dy, r) + first;
            for (int64_t c = 0; c < width; c++)
                sum[c] += LOAD(dy[c]);
        }
        PUT(&a->dtable, pt_row_offset(&a->dtable, at) + first, sum, width, true);
    }
}

/* A narrow table is rounded once per call. Linked lists hold the rows of dy for each
 * row of the table in ascending order: head[rows of the table] and next[rows of dy]. */
static void FN(embed_bwd_narrow)(struct pt_stream *stream, const pt_op_embed_bwd_t *a)
{
    int64_t table = a->dtable.shape[0];
    int32_t *head = (int32_t *)(void *)stream->workspace.memory, *next = head + table;
    const int32_t *index = a->index.data;
    for (int64_t i = 0; i < table; i++)
        head[i] = -1;
    for (int64_t r = pt_rows(&a->dy) - 1; r >= 0; r--) {
        int64_t at = index[r] - a->first_row;
        if (at < 0 || at >= table)
            continue;
        next[r] = head[at];
        head[at] = (int32_t)r;
    }
    PT_PARALLEL
    for (int64_t i = 0; i < table; i++)
        if (head[i] >= 0)
            FN(embed_bwd_row)(a, i, head[i], next);
}

static void FN(embed_bwd)(struct pt_stream *stream, const pt_op_embed_bwd_t *a)
{
    if (a->dtable.dtype == A_TYPE)
        FN(embed_bwd_wide)(stream, a);
    else
        FN(embed_bwd_narrow)(stream, a);
}
