/* fill, cast, add, bias, residual, dropout. */
#include "src/ops/cpu/draw.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/elementwise_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(add, y)
PT_DISPATCH(bias_fwd, x)
PT_DISPATCH(bias_bwd, dy)
PT_DISPATCH(residual, y)
PT_DISPATCH(dropout, y)

static void fill_integers(struct pt_stream *stream, const pt_op_fill_t *a)
{
    int64_t rows = pt_rows(&a->x), cols = pt_cols(&a->x);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        int64_t *x = PT_ROW(int64_t, a->x, r);
        for (int64_t c = 0; c < cols; c++)
            x[c] = (int64_t)a->value;
    }
}

pt_status_t PT_KERNEL(fill)(struct pt_stream *stream, const pt_op_fill_t *a)
{
    if (a->x.dtype == PT_F64)
        PT_PASTE(fill, _f64)(stream, a);
    else if (a->x.dtype == PT_F32)
        PT_PASTE(fill, _f32)(stream, a);
    else
        fill_integers(stream, a);
    return PT_OK;
}

enum { CAST_CHUNK = 4096 };

#define CAST(from, to)                                                                 \
    PT_PARALLEL                                                                        \
    for (int64_t first = 0; first < count; first += CAST_CHUNK) {                      \
        int64_t end = pt_min(first + CAST_CHUNK, count);                               \
        for (int64_t i = first; i < end; i++)                                          \
            ((to *)a->y.data)[i] = (to)((const from *)a->x.data)[i];                   \
    }

pt_status_t PT_KERNEL(cast)(struct pt_stream *stream, const pt_op_cast_t *a)
{
    int64_t count = pt_tensor_count(&a->x);
    if (a->x.dtype == PT_F64 && a->y.dtype == PT_F64) {
        CAST(double, double)
    } else if (a->x.dtype == PT_F64) {
        CAST(double, float)
    } else if (a->y.dtype == PT_F64) {
        CAST(float, double)
    } else {
        CAST(float, float)
    }
    return PT_OK;
}
