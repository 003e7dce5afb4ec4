/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of test_ops.c: ordered and exact sums, AdamW, digest. */
#include "penta/base/digest.h"
#include "penta/base/sum.h"

static void ordered_sum_case(ot_t *t, pt_dtype_t from, pt_dtype_t to, int64_t parts,
                             int64_t n, bool accumulate)
{
    bool wide = pt_dtype_accumulator(to) == PT_F64; /* every step rounded to A */
    ot_tensor_t *src = OT_DENSE(t, from, OT_RANDOM, parts, n);
    ot_tensor_t *dst = OT_DENSE(t, to, accumulate ? OT_RANDOM : OT_POISON, n);
    ot_tensor_t *old = OT_DENSE(t, to, OT_ZERO, n);
    for (int64_t e = 0; accumulate && e < n; e++)
        ot_set(old, e, ot_get(dst, e));
    ot_part_t p = ot_rows_of(n, 1);
    ot_part_t in = {.rows = parts, .col = p.row, .cols = p.rows};
    int64_t pad = t->pad;
    t->pad = 0;
    ot_tensor_t *z = ot_copy(t, dst, &p), *part = ot_copy(t, src, &in);
    t->pad = pad;
    pt_op_ordered_sum_t args = {part->x, z->x, accumulate};
    OT_RUN(t, pt_op_ordered_sum(t->device, t->stream, &args));
    args.src = src->x;
    args.dst = dst->x;
    OT_RUN(t, pt_op_ordered_sum(t->device, t->stream, &args));
    ot_pull(t, dst);
    for (int64_t e = 0; e < n; e++) {
        double want = ot_get(src, e);
        for (int64_t r = 1; r < parts; r++) {
            want += ot_get(src, r * n + e);
            want = wide ? want : (float)want;
        }
        want = accumulate ? ot_get(old, e) + want : want;
        ot_near_in(t, to, ot_get(dst, e), wide ? want : (float)want, 1, 0);
    }
    ot_same_part(t, dst, &p, z);
    ot_reset(t);
}

/* Every type of src that T and A allow. */
static void test_ordered_sum(ot_t *t)
{
    const pt_dtype_t from[] = {t->type, t->sum, PT_F32, PT_BF16, PT_F16};
    for (int s = 0; s < SIZES; s++)
        for (int64_t parts = 1; parts < 9; parts += 3)
            for (int f = 0; f < 5; f++) {
                bool first = f == 0 || from[f] != t->type;
                bool narrower = t->out == t->sum && t->sum != from[f] &&
                                pt_dtype_size(from[f]) < pt_dtype_size(t->sum);
                if (!first || (f > 1 && !narrower))
                    continue;
                ordered_sum_case(t, from[f], t->out, parts, 9 * sizes[s], false);
                ordered_sum_case(t, from[f], t->out, parts, 9 * sizes[s], true);
            }
}

/* The tree of the contract, by recursion: a block of n is the block of n/2 of x[i] +
 * x[i + n/2]. */
static double tree(const double *x, int n)
{
    double half[PT_SUM_BLOCK / 2];
    if (n == 1)
        return x[0];
    for (int i = 0; i < n / 2; i++)
        half[i] = x[i] + x[i + n / 2];
    return tree(half, n / 2);
}

static void sum_add(ot_t *t, const pt_op_sum_t *args, bool square)
{
    if (square)
        OT_RUN(t, pt_op_sum_squares(t->device, t->stream, args));
    else
        OT_RUN(t, pt_op_sum(t->device, t->stream, args));
}

/* Twice x, cut at a block, in another accumulator. */
static double sum_in_parts(ot_t *t, const ot_tensor_t *x, bool square)
{
    ot_tensor_t *bins = OT_DENSE(t, PT_I64, OT_ZERO, PT_SUM_WORDS);
    int64_t n = x->x.shape[0], cut = n > PT_SUM_BLOCK ? PT_SUM_BLOCK : n;
    pt_sum_t got;
    for (int twice = 0; twice < 2; twice++) {
        pt_op_sum_t args = {pt_tensor_slice(x->x, 0, cut, n - cut), bins->x};
        sum_add(t, &args, square);
        args.x = pt_tensor_slice(x->x, 0, 0, cut);
        sum_add(t, &args, square);
    }
    ot_pull(t, bins);
    memcpy(&got, bins->host + bins->first, sizeof got);
    got.positive_inf = 0;
    return pt_sum_value(&got);
}

static void sum_case(ot_t *t, int64_t n, bool square)
{
    ot_tensor_t *x = OT_DENSE(t, t->type, OT_RANDOM, n);
    ot_tensor_t *bins = OT_DENSE(t, PT_I64, OT_ZERO, PT_SUM_WORDS);
    pt_sum_t want, got;
    pt_sum_clear(&want);
    if (n > 2000)
        ot_set(x, 1500, INFINITY);
    ot_push(t, x);
    pt_op_sum_t args = {x->x, bins->x};
    for (int twice = 0; twice < 2; twice++) { /* the accumulator keeps what it had */
        sum_add(t, &args, square);
        for (int64_t first = 0; first < n; first += PT_SUM_BLOCK) {
            double block[PT_SUM_BLOCK] = {0};
            for (int64_t i = first; i < n && i < first + PT_SUM_BLOCK; i++)
                block[i - first] = square ? ot_get(x, i) * ot_get(x, i) : ot_get(x, i);
            pt_sum_add(&want, tree(block, PT_SUM_BLOCK));
        }
    }
    ot_pull(t, bins);
    memcpy(&got, bins->host + bins->first, sizeof got);
    if (pt_sum_nonfinite(&got) != pt_sum_nonfinite(&want) ||
        pt_sum_nonfinite(&got) != (n > 2000 ? 2 : 0))
        ot_fail(t, "%lld non-finite blocks", (long long)pt_sum_nonfinite(&got));
    got.positive_inf = want.positive_inf = 0;
    ot_near(t, pt_sum_value(&got), pt_sum_value(&want), 1, 0);
    ot_near(t, sum_in_parts(t, x, square), pt_sum_value(&want), 1, 0);
    ot_reset(t);
}

static void test_sum(ot_t *t)
{
    static const int64_t counts[] = {0,    1,    3,    511,  512, 513,
                                     1023, 1024, 1025, 2049, 5000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        sum_case(t, counts[i], false);
}

static void test_sum_squares(ot_t *t)
{
    static const int64_t counts[] = {0,    1,    3,    511,  512, 513,
                                     1023, 1024, 1025, 2049, 5000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        sum_case(t, counts[i], true);
}

/* algorithm 2 of Loshchilov and Hutter in long double, step after step. */
static void test_adamw(ot_t *t)
{
    double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1, grad_scale = 0.5;
    pt_dtype_t moments = t->out == PT_BF16 ? PT_BF16 : t->sum;
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 33 * sizes[s];
        ot_tensor_t *w = OT_DENSE(t, t->sum, OT_RANDOM, n);
        ot_tensor_t *m = OT_DENSE(t, moments, OT_RANDOM, n);
        ot_tensor_t *v = OT_DENSE(t, moments, OT_RANDOM, n);
        ot_tensor_t *g = OT_DENSE(t, t->out, OT_RANDOM, n);
        ot_tensor_t *copy = OT_DENSE(t, t->type, OT_POISON, n);
        ot_tensor_t *old = OT_DENSE(t, t->sum, OT_ZERO, 3, n);
        for (int64_t e = 0; e < n; e++) {
            ot_set(v, e, fabs(ot_get(v, e)));
            ot_set(old, e, ot_get(w, e));
            ot_set(old, n + e, ot_get(m, e));
            ot_set(old, 2 * n + e, ot_get(v, e));
        }
        ot_push(t, v);
        pt_op_adamw_t args = {
            w->x,       m->x, v->x, g->x, s % 2 ? copy->x : (pt_tensor_t){0},
            lr,         b1,   b2,   eps,  decay,
            grad_scale, s + 1};
        ot_part_t p = ot_rows_of(n, 1);
        ot_tensor_t *part[] = {ot_copy(t, w, &p), ot_copy(t, m, &p), ot_copy(t, v, &p)};
        OT_RUN(t, pt_op_adamw(t->device, t->stream, &args));
        ot_pull(t, w);
        ot_pull(t, m);
        ot_pull(t, v);
        if (s % 2) {
            ot_pull(t, copy);
            for (int64_t e = 0; e < n; e++)
                ot_near(t, ot_get(copy, e), ot_get(w, e), 1, 0);
        }
        for (int64_t e = 0; e < n; e++) {
            long double grad = (long double)grad_scale * ot_get(g, e);
            long double mean = b1 * (long double)ot_get(old, n + e) + (1 - b1) * grad;
            long double square =
                b2 * (long double)ot_get(old, 2 * n + e) + (1 - b2) * grad * grad;
            long double step = lr * (mean / (1 - powl(b1, s + 1))) /
                               (sqrtl(square / (1 - powl(b2, s + 1))) + eps);
            long double weight = ot_get(old, e);
            ot_near_in(t, moments, ot_get(m, e), mean,
                       fabsl(mean) + fabsl(grad) + fabs(ot_get(old, n + e)), 4);
            ot_near_in(t, moments, ot_get(v, e), square, square, 4);
            ot_near_sum(t, ot_get(w, e), weight * (1 - (long double)lr * decay) - step,
                        fabsl(weight) + 8 * fabsl(step) + lr, 4);
        }
        args.weight = part[0]->x;
        args.exp_avg = part[1]->x;
        args.exp_avg_sq = part[2]->x;
        args.grad = ot_slice(g, &p);
        args.compute = (pt_tensor_t){0};
        OT_RUN(t, pt_op_adamw(t->device, t->stream, &args));
        ot_same_part(t, w, &p, part[0]);
        ot_same_part(t, m, &p, part[1]);
        ot_same_part(t, v, &p, part[2]);
        ot_reset(t);
    }
}

static void test_digest(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 3, c = sizes[s], first = 1000, pitch = 2 * c + 1;
        uint64_t id = pt_mix64(4), want = 12345, got;
        ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *sum = OT_DENSE(t, PT_I64, OT_ZERO, 1);
        ot_set(sum, 0, 12345);
        ot_push(t, sum);
        OT_RUN(t, pt_op_digest(t->device, t->stream,
                               &(pt_op_digest_t){x->x, sum->x, id, first, pitch}));
        ot_pull(t, sum);
        for (int64_t e = 0; e < n * c; e++) {
            uint64_t bits = 0, index = (uint64_t)(first + e / c * pitch + e % c);
            memcpy(&bits, x->host + ot_byte(x, e), pt_dtype_size(t->type));
            want += pt_mix64(pt_mix64(id + index) ^ bits);
        }
        memcpy(&got, sum->host + sum->first, sizeof got);
        if (got != want)
            ot_fail(t, "another digest of %lld columns", (long long)c);
        /* In two calls, by rows. */
        ot_set(sum, 0, 12345);
        ot_push(t, sum);
        for (int64_t row = 0; row < n; row += 2) {
            ot_part_t p = {.row = row, .rows = row ? 1 : 2, .cols = c};
            pt_op_digest_t part = {ot_slice(x, &p), sum->x, id, first + row * pitch,
                                   pitch};
            OT_RUN(t, pt_op_digest(t->device, t->stream, &part));
        }
        ot_pull(t, sum);
        memcpy(&got, sum->host + sum->first, sizeof got);
        if (got != want)
            ot_fail(t, "another digest of %lld columns in two calls", (long long)c);
        ot_reset(t);
    }
}

/* Box and Muller's formula in extended precision. */
static long double normal_of(uint64_t seed, uint64_t id, int64_t index)
{
    uint64_t pair = (uint64_t)index / 2;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, w[4];
    uint32_t counter[4] = {(uint32_t)pair, (uint32_t)(pair >> 32), (uint32_t)id,
                           (uint32_t)(id >> 32)};

    pt_philox4x32(key, counter, w);
    long double turn = 6.2831853071795864769252867665590L * pt_uniform(w[2], w[3]);
    return sqrtl(-2 * logl(pt_uniform(w[0], w[1]))) *
           (index % 2 ? sinl(turn) : cosl(turn));
}

static void test_normal(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 3, c = sizes[s], first = 1001, pitch = 2 * c + 1;
        ot_tensor_t *x = OT_NEW(t, t->type, OT_POISON, n, c);
        pt_op_normal_t whole = {x->x, 0.02, 5, 77, first, pitch};
        OT_RUN(t, pt_op_normal(t->device, t->stream, &whole));
        ot_pull(t, x);
        for (int64_t e = 0; e < n * c; e++) {
            long double want = 0.02 * normal_of(5, 77, first + e / c * pitch + e % c);
            ot_near(t, ot_get(x, e), want, fmaxl(fabsl(want), 1e-4L), 8);
        }
        ot_part_t p = ot_part_of(n, c);
        ot_tensor_t *z = ot_part(t, x, &p, OT_POISON);
        pt_op_normal_t part = whole;
        part.x = z->x;
        part.first = first + p.row * pitch + p.col;
        OT_RUN(t, pt_op_normal(t->device, t->stream, &part));
        ot_same_part(t, x, &p, z);
        ot_reset(t);
    }
}
