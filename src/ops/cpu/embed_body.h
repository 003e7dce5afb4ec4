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

/* Threads share the columns, so that each element sees its rows in ascending order. */
static void FN(embed_bwd)(struct pt_stream *stream, const pt_op_embed_bwd_t *a)
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
            T *to = PT_ROW(T, a->dtable, at) + first;
            for (int64_t c = 0; c < count; c++)
                to[c] = STORE(LOAD(to[c]) + LOAD(dy[c]));
        }
    }
}
