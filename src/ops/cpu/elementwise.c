/* SPDX-License-Identifier: Apache-2.0 */
/* fill, add, bias, residual, dropout. */
#include "src/ops/cpu/draw.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/elementwise_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(add, y)
PT_DISPATCH(bias_fwd, x)
PT_DISPATCH(bias_bwd, dy)
PT_DISPATCH(residual, y)
PT_DISPATCH(dropout, y)

/* Sets all elements to the first bytes of `bits`. */
#define FILL(type)                                                                     \
    do {                                                                               \
        type value;                                                                    \
        memcpy(&value, &bits, sizeof value);                                           \
        PT_PARALLEL                                                                    \
        for (int64_t r = 0; r < rows; r++) {                                           \
            type *x = PT_ROW(type, a->x, r);                                           \
            for (int64_t c = 0; c < cols; c++)                                         \
                x[c] = value;                                                          \
        }                                                                              \
    } while (0)

pt_status_t PT_KERNEL(fill)(struct pt_stream *stream, const pt_op_fill_t *a)
{
    int64_t rows = pt_rows(&a->x), cols = pt_cols(&a->x);
    bits64_t bits = 0;
    if (a->x.dtype == PT_I64)
        bits = (uint64_t)(int64_t)a->value;
    else
        pt_float_set(a->x.dtype, &bits, 0, a->value);
    switch (pt_dtype_size(a->x.dtype)) {
    case 8: FILL(bits64_t); break;
    case 4: FILL(bits32_t); break;
    default: FILL(bits16_t);
    }
    return PT_OK;
}
