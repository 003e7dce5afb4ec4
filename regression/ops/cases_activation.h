/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of test_ops.c: rotary positions, gelu, swiglu. */

static void rotary_case(ot_t *t, int64_t n, int64_t heads, int64_t width, int64_t half)
{
    int64_t places = 40;
    ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, heads, width);
    ot_tensor_t *old = OT_NEW(t, t->type, OT_ZERO, n, heads, width);
    ot_tensor_t *position = random_index(t, n, places);
    ot_tensor_t *cosine = OT_DENSE(t, t->sum, OT_ZERO, places, half);
    ot_tensor_t *sine = OT_DENSE(t, t->sum, OT_ZERO, places, half);
    for (int64_t e = 0; e < n * heads * width; e++)
        ot_set(old, e, ot_get(x, e));
    for (int64_t e = 0; e < places * half; e++) {
        ot_set(cosine, e, cos((double)(e / half) / (double)(e % half + 1)));
        ot_set(sine, e, sin((double)(e / half) / (double)(e % half + 1)));
    }
    ot_push(t, cosine);
    ot_push(t, sine);
    ot_part_t p = ot_rows_of(n, width);
    ot_tensor_t *z = ot_copy(t, x, &p);
    pt_op_rotary_t args = {x->x, position->x, cosine->x, sine->x, false};
    OT_RUN(t, pt_op_rotary(t->device, t->stream, &args));
    ot_pull(t, x);
    for (int64_t e = 0; e < n * heads * width; e++) {
        int64_t i = e % width, p = (int64_t)ot_get(position, e / width / heads);
        long double want = ot_get(old, e), size = fabsl(want);
        if (i < 2 * half) {
            int64_t other = i < half ? e + half : e - half, at = p * half + i % half;
            long double sn = ot_get(sine, at), turned = ot_get(old, other);
            want = want * ot_get(cosine, at) + (i < half ? -turned * sn : turned * sn);
            size += fabsl(turned);
        }
        ot_near(t, ot_get(x, e), want, size, 1.5);
    }
    pt_op_rotary_t part = args;
    part.x = z->x;
    part.position = pt_tensor_slice(position->x, 0, p.row, p.rows);
    OT_RUN(t, pt_op_rotary(t->device, t->stream, &part));
    ot_same_part(t, x, &p, z);
    args.inverse = true;
    OT_RUN(t, pt_op_rotary(t->device, t->stream, &args));
    ot_pull(t, x);
    for (int64_t e = 0; e < n * heads * width; e++)
        ot_near(t, ot_get(x, e), ot_get(old, e), 4, 4 * t->coarse);
    ot_reset(t);
}

static void test_rotary(ot_t *t)
{
    rotary_case(t, 1, 1, 2, 1);
    rotary_case(t, 3, 2, 17, 5);
    rotary_case(t, 33, 3, 64, 32);
    rotary_case(t, 5, 1, 65, 32);
    rotary_case(t, 7, 2, 128, 17);
}

/* (1 + tanh u)/2, without its cancellation where u is far below 0. */
static long double gelu_gate(long double x)
{
    long double u = sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
    return u > -2 ? 0.5L * (1 + tanhl(u)) : 1 / (1 + expl(-2 * u));
}

static long double activation(pt_activation_t kind, long double x, long double up)
{
    if (kind == PT_ACTIVATION_SWIGLU)
        return x / (1 + expl(-x)) * up;
    return x * gelu_gate(x);
}

static long double activation_slope(pt_activation_t kind, long double x)
{
    if (kind == PT_ACTIVATION_SWIGLU) {
        long double s = 1 / (1 + expl(-x));
        return s + x * s * (1 - s);
    }
    long double g = gelu_gate(x), a = sqrtl(2 / acosl(-1));
    return g + 2 * x * g * (1 - g) * a * (1 + 3 * 0.044715L * x * x);
}

/* Values from -12 to 12 in the first columns, random ones after. */
static void placement(ot_t *t, ot_tensor_t *x)
{
    int64_t count = pt_tensor_count(&x->x);
    for (int64_t e = 0; e < count; e += 2)
        ot_set(x, e, -12 + 24.0 * (double)e / (double)count);
    ot_push(t, x);
}

/* With a bias: x becomes x + bias, and y is what it would be of that x. */
static void test_activation_bias(ot_t *t, pt_activation_t kind, int64_t f)
{
    int64_t n = 4, wide = kind ? 2 * f : f;
    ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, wide);
    ot_tensor_t *old = OT_NEW(t, t->type, OT_ZERO, n, wide);
    ot_tensor_t *bias = OT_DENSE(t, t->type, OT_RANDOM, wide);
    ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, f);
    ot_tensor_t *again = OT_NEW(t, t->type, OT_POISON, n, f);
    for (int64_t e = 0; e < n * wide; e++)
        ot_set(old, e, ot_get(x, e));
    pt_op_activation_fwd_t args = {x->x, y->x, kind, bias->x};
    OT_RUN(t, pt_op_activation_fwd(t->device, t->stream, &args));
    ot_pull(t, x);
    ot_pull(t, y);
    for (int64_t e = 0; e < n * wide; e++) {
        long double want = (long double)ot_get(old, e) + ot_get(bias, e % wide);
        ot_near(t, ot_get(x, e), want, fabsl(want), 0.5);
    }
    args = (pt_op_activation_fwd_t){x->x, again->x, kind, {0}};
    OT_RUN(t, pt_op_activation_fwd(t->device, t->stream, &args));
    ot_pull(t, again);
    ot_same_bits(t, y, 0, again, 0, n * f);
    ot_reset(t);
}

static void test_activation_fwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int kind = 0; kind < 2; kind++) {
            int64_t n = 4, f = sizes[s], wide = kind ? 2 * f : f;
            ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, wide);
            ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, f);
            placement(t, x);
            pt_op_activation_fwd_t args = {x->x, y->x, (pt_activation_t)kind, {0}};
            OT_RUN(t, pt_op_activation_fwd(t->device, t->stream, &args));
            ot_pull(t, y);
            for (int64_t e = 0; e < n * f; e++) {
                int64_t at = e / f * wide + e % f;
                long double v = ot_get(x, at), up = kind ? ot_get(x, at + f) : 1;
                long double want = activation((pt_activation_t)kind, v, up);
                /* The error of the exponent u grows with its size. */
                long double slack =
                    kind ? 6 : 6 + 4 * fabsl(v * (1 + 0.044715L * v * v));
                ot_near(t, ot_get(y, e), want,
                        fabsl(want) + (t->type == PT_F64 ? 1e-290L : 1e-30L),
                        (double)slack);
            }
            /* The halves of swiglu stay side by side: rows only. */
            ot_part_t p = kind ? ot_rows_of(n, f) : ot_part_of(n, f), in = p;
            in.cols = kind ? wide : p.cols;
            ot_tensor_t *z = ot_part(t, y, &p, OT_POISON);
            args.x = ot_slice(x, &in);
            args.y = z->x;
            OT_RUN(t, pt_op_activation_fwd(t->device, t->stream, &args));
            ot_same_part(t, y, &p, z);
            ot_reset(t);
            test_activation_bias(t, (pt_activation_t)kind, f);
        }
}

static void activation_forward(ot_t *t, const void *args)
{
    OT_RUN(t, pt_op_activation_fwd(t->device, t->stream, args));
}

static void test_activation_bwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int kind = 0; kind < 2; kind++) {
            int64_t n = 3, f = sizes[s], wide = kind ? 2 * f : f;
            ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, wide);
            ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, f);
            ot_tensor_t *dy = OT_NEW(t, t->type, OT_RANDOM, n, f);
            ot_tensor_t *dx = OT_NEW(t, t->type, OT_POISON, n, wide);
            placement(t, x);
            pt_op_activation_fwd_t forward = {x->x, y->x, (pt_activation_t)kind, {0}};
            pt_op_activation_bwd_t args = {dy->x, x->x, dx->x, (pt_activation_t)kind};
            OT_RUN(t, pt_op_activation_bwd(t->device, t->stream, &args));
            ot_pull(t, dx);
            for (int64_t e = 0; e < n * f; e++) {
                int64_t at = e / f * wide + e % f;
                long double v = ot_get(x, at), up = kind ? ot_get(x, at + f) : 1;
                long double d = ot_get(dy, e);
                long double slope = activation_slope((pt_activation_t)kind, v) * up;
                long double scale = fabsl(d * up) * (1 + fabsl(v) + v * v) + 1e-30L;
                ot_near(t, ot_get(dx, at), d * slope, scale, 8);
                if (kind)
                    ot_near(t, ot_get(dx, at + f),
                            d * activation(PT_ACTIVATION_SWIGLU, v, 1),
                            fabsl(d) * (fabsl(v) + 1e-30L), 6);
            }
            if (s == 2)
                ot_differences(t, x, dx, dy, y, activation_forward, &forward);
            ot_part_t p = kind ? ot_rows_of(n, f) : ot_part_of(n, f), in = p;
            in.cols = kind ? wide : p.cols;
            ot_tensor_t *z = ot_part(t, dx, &in, OT_POISON);
            pt_op_activation_bwd_t part = {ot_slice(dy, &p), ot_slice(x, &in), z->x,
                                           args.kind};
            OT_RUN(t, pt_op_activation_bwd(t->device, t->stream, &part));
            ot_same_part(t, dx, &in, z);
            args.dx = args.x;
            OT_RUN(t, pt_op_activation_bwd(t->device, t->stream, &args));
            ot_pull(t, x);
            ot_same_bits(t, x, 0, dx, 0, n * wide);
            ot_reset(t);
        }
}
