/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of test_ops.c: softmax statistics and cross entropy over a cut vocabulary. */

typedef struct loss_case {
    ot_tensor_t *logits, *label, *mask, *maximum, *sum, *target, *loss;
    int64_t rows, cols, first, vocab;
} loss_case_t;

static loss_case_t loss_make(ot_t *t, int64_t rows, int64_t cols, int64_t first,
                             int64_t vocab)
{
    loss_case_t a = {.rows = rows, .cols = cols, .first = first, .vocab = vocab};
    a.logits = OT_NEW(t, t->type, OT_RANDOM, rows, cols);
    a.label = OT_DENSE(t, PT_I32, OT_ZERO, rows);
    a.mask = OT_DENSE(t, PT_U8, OT_ZERO, rows);
    a.maximum = OT_DENSE(t, t->sum, OT_POISON, rows);
    a.sum = OT_DENSE(t, t->sum, OT_POISON, rows);
    a.target = OT_DENSE(t, t->sum, OT_POISON, rows);
    a.loss = OT_DENSE(t, t->sum, OT_POISON, rows);
    for (int64_t e = 0; e < rows * cols; e++)
        ot_set(a.logits, e, 4 * ot_get(a.logits, e));
    for (int64_t r = 0; r < rows; r++) {
        ot_set(a.label, r, (double)(pt_mix64((uint64_t)r + 3) % (uint64_t)vocab));
        ot_set(a.mask, r, r % 3 != 1);
    }
    ot_push(t, a.logits);
    ot_push(t, a.label);
    ot_push(t, a.mask);
    return a;
}

static void loss_stats(ot_t *t, const loss_case_t *a)
{
    OT_RUN(t, pt_op_softmax_stats(t->device, t->stream,
                                  &(pt_op_softmax_stats_t){
                                      a->logits->x, a->label->x, a->maximum->x,
                                      a->sum->x, a->target->x, a->first, a->vocab}));
    ot_pull(t, a->maximum);
    ot_pull(t, a->sum);
    ot_pull(t, a->target);
}

static int64_t loss_real(const loss_case_t *a)
{
    int64_t real = a->vocab - a->first;
    return real < 0 ? 0 : real > a->cols ? a->cols : real;
}

static void loss_row(const loss_case_t *a, int64_t r, long double *maximum,
                     long double *sum)
{
    *maximum = -INFINITY;
    *sum = 0;
    for (int64_t c = 0; c < loss_real(a); c++)
        *maximum = fmaxl(*maximum, ot_get(a->logits, r * a->cols + c));
    for (int64_t c = 0; c < loss_real(a); c++)
        *sum += expl(ot_get(a->logits, r * a->cols + c) - *maximum);
}

static void test_softmax_stats(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int mode = 0; mode < 4;
             mode++) { /* whole, second cut, padded, only padding */
            int64_t c = sizes[s], first = mode ? c : 0;
            int64_t vocab = mode == 3   ? c
                            : mode == 2 ? first + (c + 1) / 2
                                        : first + c + 9;
            loss_case_t a = loss_make(t, 7, c, first, vocab);
            loss_stats(t, &a);
            for (int64_t r = 0; r < a.rows; r++) {
                long double maximum, sum;
                int64_t at = (int64_t)ot_get(a.label, r) - first;
                loss_row(&a, r, &maximum, &sum);
                ot_near_sum(t, ot_get(a.maximum, r), maximum, 1, 0);
                ot_near_sum(t, ot_get(a.sum, r), sum, sum + 1e-30L, 12);
                ot_near_sum(t, ot_get(a.target, r),
                            at >= 0 && at < loss_real(&a) ? ot_get(a.logits, r * c + at)
                                                          : 0,
                            1, 0);
            }
            loss_case_t b = loss_make(t, 2, c, first, vocab);
            pt_tensor_t own = b.logits->x;
            b.logits->x = pt_tensor_slice(a.logits->x, 0, 3, 2);
            loss_stats(t, &b);
            b.logits->x = own;
            ot_same_bits(t, a.sum, 3, b.sum, 0, 2);
            ot_reset(t);
        }
}

static void test_cross_entropy_fwd(ot_t *t)
{
    loss_case_t a = loss_make(t, 65, 33, 0, 33);
    loss_stats(t, &a);
    ot_set(a.sum, 1, NAN); /* a masked row: whatever its operands */
    ot_push(t, a.sum);
    OT_RUN(t, pt_op_cross_entropy_fwd(
                  t->device, t->stream,
                  &(pt_op_cross_entropy_fwd_t){a.maximum->x, a.sum->x, a.target->x,
                                               a.mask->x, a.loss->x}));
    ot_pull(t, a.loss);
    for (int64_t r = 0; r < a.rows; r++) {
        long double maximum, sum, want = 0, size = 1;
        loss_row(&a, r, &maximum, &sum);
        if (ot_get(a.mask, r) != 0) {
            long double target = ot_get(a.logits, r * 33 + (int64_t)ot_get(a.label, r));
            want = maximum + logl(sum) - target;
            size = fabsl(maximum) + fabsl(target) + 4;
        }
        ot_near_sum(t, ot_get(a.loss, r), want, size, ot_get(a.mask, r) != 0 ? 4 : 0);
    }
    ot_part_t p = ot_rows_of(65, 1);
    ot_tensor_t *z = ot_part(t, a.loss, &p, OT_POISON);
    pt_op_cross_entropy_fwd_t part = {ot_slice(a.maximum, &p), ot_slice(a.sum, &p),
                                      ot_slice(a.target, &p), ot_slice(a.mask, &p),
                                      z->x};
    OT_RUN(t, pt_op_cross_entropy_fwd(t->device, t->stream, &part));
    ot_same_part(t, a.loss, &p, z);
    ot_reset(t);
}

/* Σ scale·loss of the unmasked rows in long double, for finite differences. */
static long double loss_total(const loss_case_t *a, double scale)
{
    long double total = 0, maximum, sum;
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t at = (int64_t)ot_get(a->label, r);
        loss_row(a, r, &maximum, &sum);
        if (ot_get(a->mask, r) != 0)
            total +=
                scale * (maximum + logl(sum) - ot_get(a->logits, r * a->cols + at));
    }
    return total;
}

static void cross_entropy_bwd(ot_t *t, const loss_case_t *a, double scale)
{
    OT_RUN(t, pt_op_cross_entropy_bwd(
                  t->device, t->stream,
                  &(pt_op_cross_entropy_bwd_t){a->logits->x, a->label->x, a->mask->x,
                                               a->maximum->x, a->sum->x, a->first,
                                               a->vocab, scale}));
    ot_pull(t, a->logits);
}

/* Some rows and columns of the logits before: the same bits. */
static void cross_entropy_part(ot_t *t, const loss_case_t *a, const loss_case_t *before,
                               double scale)
{
    ot_part_t p = ot_part_of(a->rows, a->cols);
    ot_tensor_t *z = ot_copy(t, before->logits, &p);
    pt_op_cross_entropy_bwd_t args = {
        z->x,
        ot_slice(a->label, &p),
        ot_slice(a->mask, &p),
        ot_slice(a->maximum, &p),
        ot_slice(a->sum, &p),
        a->first + p.col,
        a->vocab,
        scale,
    };
    OT_RUN(t, pt_op_cross_entropy_bwd(t->device, t->stream, &args));
    ot_same_part(t, a->logits, &p, z);
}

static void test_cross_entropy_bwd(ot_t *t)
{
    double scale = 0.37;
    for (int s = 0; s < SIZES; s++) {
        int64_t c = sizes[s], vocab = (c + 2) / 2;
        loss_case_t a = loss_make(t, 5, c, 0, vocab);
        ot_tensor_t *want = OT_NEW(t, PT_F64, OT_ZERO, 5, c);
        loss_stats(t, &a);
        if (t->type == PT_F64)
            for (int64_t e = 0; e < 5 * c; e++) {
                double value = ot_get(a.logits, e), h = 0x1p-16;
                ot_set(a.logits, e, value + h);
                long double up = loss_total(&a, scale);
                ot_set(a.logits, e, value - h);
                ot_set(want, e, (double)((up - loss_total(&a, scale)) / (2 * h)));
                ot_set(a.logits, e, value);
            }
        loss_case_t old = a;
        old.logits = OT_NEW(t, t->type, OT_ZERO, 5, c);
        for (int64_t e = 0; e < 5 * c; e++)
            ot_set(old.logits, e, ot_get(a.logits, e));
        cross_entropy_bwd(t, &a, scale);
        cross_entropy_part(t, &a, &old, scale);
        for (int64_t e = 0; e < 5 * c; e++) {
            long double maximum, sum, exact = 0;
            int64_t r = e / c, at = (int64_t)ot_get(a.label, r);
            bool takes_part = ot_get(a.mask, r) != 0 && e % c < vocab;
            loss_row(&old, r, &maximum, &sum);
            if (takes_part)
                exact = scale * (expl(ot_get(old.logits, e) - maximum) / sum -
                                 (e % c == at ? 1 : 0));
            ot_near(t, ot_get(a.logits, e), exact,
                    takes_part ? fabsl(exact) + (e % c == at ? scale : 0) : 1,
                    takes_part ? 12 : 0);
            if (t->type == PT_F64 && fabsl(ot_get(want, e) - exact) > 1e-8L)
                ot_fail(t, "the reference and finite differences disagree");
        }
        ot_reset(t);
    }
}
