/* SPDX-License-Identifier: Apache-2.0 */
/* activation_body.h — see kernel.h; no include guard. */

static void FN(rotary)(struct pt_stream *stream, const pt_op_rotary_t *a)
{
    int64_t rows = a->x.shape[0], heads = a->x.shape[1], half = a->cos.shape[1];
    const int32_t *position = a->position.data;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const A *cosine = (const A *)a->cos.data + position[r] * half;
        const A *sine = (const A *)a->sin.data + position[r] * half;
        A sign = a->inverse ? -1 : 1;
        for (int64_t h = 0; h < heads; h++) {
            T *restrict low = (T *)a->x.data + r * a->x.stride[0] + h * a->x.stride[1];
            T *restrict high = low + half;
            for (int64_t i = 0; i < half; i++) {
                A u = LOAD(low[i]), v = LOAD(high[i]);
                A cs = cosine[i], sn = sign * sine[i];
                low[i] = STORE(u * cs - v * sn);
                high[i] = STORE(v * cs + u * sn);
            }
        }
    }
}

/* gelu(x) = x/2·(1 + tanh u) = x·s with s = 1/(1 + exp(-2u)) and
 *   u = sqrt(2/π)·(x + 0.044715·x³) */
#ifndef PT_GELU_A
#define PT_GELU_A 0.79788456080286535588
#define PT_GELU_B 0.044715
#endif

static inline A FN(sigmoid)(A x)
{
    return 1 / (1 + OF_A(pt_exp)(-x));
}

static inline A FN(gelu_gate)(A x)
{
    return FN(sigmoid)(2 * (A)PT_GELU_A * (x + (A)PT_GELU_B * x * x * x));
}

/* Computes one row. x becomes x + bias while it is in the L1 cache. */
static void FN(activate_row)(T *x, const T *bias, T *restrict y, int64_t cols,
                             pt_activation_t kind)
{
    int64_t wide = kind == PT_ACTIVATION_GELU ? cols : 2 * cols;
    if (bias) {
        PT_IVDEP
        for (int64_t c = 0; c < wide; c++)
            x[c] = STORE(LOAD(x[c]) + LOAD(bias[c]));
    }
    if (kind == PT_ACTIVATION_GELU)
        for (int64_t c = 0; c < cols; c++)
            y[c] = STORE(LOAD(x[c]) * FN(gelu_gate)(LOAD(x[c])));
    else
        for (int64_t c = 0; c < cols; c++) {
            A gate = LOAD(x[c]);
            y[c] = STORE(gate * FN(sigmoid)(gate) * LOAD(x[cols + c]));
        }
}

static void FN(activation_fwd)(struct pt_stream *stream, const pt_op_activation_fwd_t *a)
{
    int64_t rows = pt_rows(&a->y), cols = pt_cols(&a->y);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        FN(activate_row)
        (PT_ROW(T, a->x, r), a->bias.data, PT_ROW(T, a->y, r), cols, a->kind);
    }
}

static void FN(gelu_bwd_row)(const T *dy, const T *x, T *dx, int64_t cols)
{
    PT_IVDEP
    for (int64_t c = 0; c < cols; c++) {
        A value = LOAD(x[c]), s = FN(gelu_gate)(value);
        A slope = 2 * (A)PT_GELU_A * (1 + 3 * (A)PT_GELU_B * value * value);
        dx[c] = STORE(LOAD(dy[c]) * (s + value * s * (1 - s) * slope));
    }
}

static void FN(swiglu_bwd_row)(const T *dy, const T *x, T *dx, int64_t cols)
{
    PT_IVDEP
    for (int64_t c = 0; c < cols; c++) {
        A gate = LOAD(x[c]), up = LOAD(x[cols + c]), dout = LOAD(dy[c]);
        A s = FN(sigmoid)(gate);
        dx[c] = STORE(dout * up * (s + gate * s * (1 - s)));
        dx[cols + c] = STORE(dout * gate * s);
    }
}

static void FN(activation_bwd)(struct pt_stream *stream, const pt_op_activation_bwd_t *a)
{
    int64_t rows = pt_rows(&a->dy), cols = pt_cols(&a->dy);
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++) {
        const T *dy = PT_ROW(T, a->dy, r), *x = PT_ROW(T, a->x, r);
        T *dx = PT_ROW(T, a->dx, r);
        if (a->kind == PT_ACTIVATION_GELU)
            FN(gelu_bwd_row)(dy, x, dx, cols);
        else
            FN(swiglu_bwd_row)(dy, x, dx, cols);
    }
}
