/* normal_body.h — see kernel.h; no include guard. */

static void FN(normal)(struct pt_stream *stream, const pt_op_normal_t *a)
{
    enum { PIECE = 2 * PT_NORMAL_PAIRS };
    int64_t cols = pt_cols(&a->x), pieces = (cols + PIECE - 1) / PIECE;
    PT_PARALLEL
    for (int64_t task = 0; task < a->x.shape[0] * pieces; task++) {
        int64_t row = task / pieces, from = task % pieces * PIECE;
        int64_t count = pt_min(PIECE, cols - from);
        double drawn[PIECE];
        T *x = PT_ROW(T, a->x, row) + from;
        pt_normals(a->seed, a->id, a->first + row * a->pitch + from, count, drawn);
        for (int64_t c = 0; c < count; c++)
            x[c] = STORE((A)(a->std * drawn[c]));
    }
}
