/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of test_ops.c: layer and RMS normalisation. */

typedef struct norm_case {
    ot_tensor_t *x, *weight, *bias, *y, *mean, *rstd, *dy, *dx, *dweight, *dbias;
    pt_norm_t kind;
    int64_t rows, cols;
} norm_case_t;

static const double norm_eps = 1e-5;

/* x [n,C], or [n,3,C] when `heads`. */
static norm_case_t norm_make(ot_t *t, pt_norm_t kind, int64_t n, int64_t c, bool heads)
{
    norm_case_t a = {.kind = kind, .rows = heads ? 3 * n : n, .cols = c};
    int64_t shape[3] = {n, heads ? 3 : c, c};
    int ndim = heads ? 3 : 2;
    a.x = ot_make(t, t->type, ndim, shape, OT_RANDOM);
    a.y = ot_make(t, t->type, ndim, shape, OT_POISON);
    a.dy = ot_make(t, t->type, ndim, shape, OT_RANDOM);
    a.dx = ot_make(t, t->type, ndim, shape, OT_POISON);
    a.weight = OT_DENSE(t, t->type, OT_RANDOM, c);
    a.bias = OT_DENSE(t, t->type, OT_RANDOM, c);
    a.mean = ot_make_dense(t, t->sum, ndim - 1, shape, OT_POISON);
    a.rstd = ot_make_dense(t, t->sum, ndim - 1, shape, OT_POISON);
    a.dweight = OT_DENSE(t, t->out, OT_RANDOM, c);
    a.dbias = OT_DENSE(t, t->out, OT_RANDOM, c);
    return a;
}

static pt_op_norm_fwd_t norm_args(const norm_case_t *a)
{
    bool layer = a->kind == PT_NORM_LAYER;
    return (pt_op_norm_fwd_t){a->x->x,
                              a->weight->x,
                              layer ? a->bias->x : (pt_tensor_t){0},
                              a->y->x,
                              layer ? a->mean->x : (pt_tensor_t){0},
                              a->rstd->x,
                              a->kind,
                              norm_eps};
}

static void norm_forward(ot_t *t, const void *args)
{
    OT_RUN(t, pt_op_norm_fwd(t->device, t->stream, args));
}

/* Mean (0 for rms) and 1/sqrt(variance + eps) of a row. */
static void norm_stats(const norm_case_t *a, int64_t r, long double *mean,
                       long double *rstd)
{
    long double sum = 0, square = 0;
    for (int64_t c = 0; a->kind == PT_NORM_LAYER && c < a->cols; c++)
        sum += ot_get(a->x, r * a->cols + c);
    *mean = sum / a->cols;
    for (int64_t c = 0; c < a->cols; c++) {
        long double d = ot_get(a->x, r * a->cols + c) - *mean;
        square += d * d;
    }
    *rstd = 1 / sqrtl(square / a->cols + norm_eps);
}

static void norm_fwd_case(ot_t *t, const norm_case_t *a)
{
    bool layer = a->kind == PT_NORM_LAYER;
    pt_op_norm_fwd_t args = norm_args(a);
    norm_forward(t, &args);
    ot_pull(t, a->y);
    ot_pull(t, a->rstd);
    if (layer)
        ot_pull(t, a->mean);
    for (int64_t r = 0; r < a->rows; r++) {
        long double mean, rstd;
        norm_stats(a, r, &mean, &rstd);
        if (layer)
            ot_near_sum(t, ot_get(a->mean, r), mean, 1, 4);
        ot_near_sum(t, ot_get(a->rstd, r), rstd, rstd * (1 + rstd), 8);
        for (int64_t c = 0; c < a->cols; c++) {
            int64_t e = r * a->cols + c;
            long double w = ot_get(a->weight, c), b = layer ? ot_get(a->bias, c) : 0;
            long double want = (ot_get(a->x, e) - mean) * rstd * w + b;
            long double scale = fabsl(want) + fabsl(b) + rstd * fabsl(w) * (1 + rstd);
            ot_near(t, ot_get(a->y, e), want, scale, 8);
        }
    }
}

static void test_norm_fwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int mode = 0; mode < 4; mode++) {
            norm_case_t a = norm_make(t, mode & 1 ? PT_NORM_RMS : PT_NORM_LAYER, 5,
                                      sizes[s], mode >> 1);
            norm_fwd_case(t, &a);
            /* Rows 1…2 alone, in other memory: the same bits. */
            norm_case_t b = norm_make(t, a.kind, 2, sizes[s], mode >> 1);
            pt_op_norm_fwd_t args = norm_args(&b);
            args.x = pt_tensor_slice(a.x->x, 0, 1, 2);
            args.weight = a.weight->x;
            args.bias = args.bias.data ? a.bias->x : args.bias;
            norm_forward(t, &args);
            ot_pull(t, b.y);
            int64_t row = a.rows / 5 * a.cols;
            ot_same_bits(t, a.y, row, b.y, 0, 2 * row);
            ot_reset(t);
        }
}

/* Gradient of x by the chain rule through mean and variance. */
static void norm_bwd_reference(ot_t *t, const norm_case_t *a, const ot_tensor_t *old)
{
    for (int64_t r = 0; r < a->rows; r++) {
        long double mean, rstd, along = 0, across = 0, size = 0;
        norm_stats(a, r, &mean, &rstd);
        for (int64_t c = 0; c < a->cols; c++) {
            int64_t e = r * a->cols + c;
            long double g = (long double)ot_get(a->dy, e) * ot_get(a->weight, c);
            long double hat = (ot_get(a->x, e) - mean) * rstd;
            along += a->kind == PT_NORM_LAYER ? g / a->cols : 0;
            across += g * hat / a->cols;
            size += fabsl(g) * (1 + fabsl(hat)) / a->cols;
        }
        for (int64_t c = 0; c < a->cols; c++) {
            int64_t e = r * a->cols + c;
            long double g = (long double)ot_get(a->dy, e) * ot_get(a->weight, c);
            long double hat = (ot_get(a->x, e) - mean) * rstd;
            long double want = rstd * (g - along - hat * across);
            long double scale =
                rstd * (1 + rstd) * (fabsl(g) + size * (1 + fabsl(hat)));
            long double before = old ? ot_get(old, e) : 0;
            ot_near(t, ot_get(a->dx, e), want + before, scale + fabsl(before), 16);
        }
    }
}

static pt_op_norm_bwd_input_t norm_bwd_args(const norm_case_t *a, bool accumulate)
{
    return (pt_op_norm_bwd_input_t){a->dy->x,          a->x->x,    a->weight->x,
                                    norm_args(a).mean, a->rstd->x, a->dx->x,
                                    a->kind,           accumulate};
}

/* Some rows alone, in other memory: the same bits. */
static void norm_bwd_rows(ot_t *t, const norm_case_t *a,
                          const pt_op_norm_bwd_input_t *whole)
{
    pt_op_norm_bwd_input_t args = *whole;
    ot_part_t p = ot_rows_of(a->x->x.shape[0], a->cols);
    ot_tensor_t *z = ot_part(t, a->dx, &p, OT_POISON);
    args.dy = ot_slice(a->dy, &p);
    args.x = ot_slice(a->x, &p);
    if (args.mean.data)
        args.mean = pt_tensor_slice(args.mean, 0, p.row, p.rows);
    args.rstd = pt_tensor_slice(args.rstd, 0, p.row, p.rows);
    args.dx = z->x;
    OT_RUN(t, pt_op_norm_bwd_input(t->device, t->stream, &args));
    ot_same_part(t, a->dx, &p, z);
}

static void test_norm_bwd_input(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int mode = 0; mode < 4; mode++) {
            int64_t n = 3;
            norm_case_t a = norm_make(t, mode & 1 ? PT_NORM_RMS : PT_NORM_LAYER, n,
                                      sizes[s], mode >> 1);
            pt_op_norm_fwd_t forward = norm_args(&a);
            norm_forward(t, &forward);
            pt_op_norm_bwd_input_t args = norm_bwd_args(&a, false);
            OT_RUN(t, pt_op_norm_bwd_input(t->device, t->stream, &args));
            ot_pull(t, a.dx);
            norm_bwd_reference(t, &a, NULL);
            if (sizes[s] > 1)
                ot_differences(t, a.x, a.dx, a.dy, a.y, norm_forward, &forward);
            norm_forward(t, &forward); /* differences leave other statistics */
            norm_bwd_rows(t, &a, &args);
            ot_tensor_t *old = a.dx;
            a.dx = ot_make(t, t->type, a.x->x.ndim, a.x->x.shape, OT_ZERO);
            for (int64_t e = 0; e < a.rows * a.cols; e++)
                ot_set(a.dx, e, ot_get(old, e));
            ot_push(t, a.dx);
            args = norm_bwd_args(&a, true);
            OT_RUN(t, pt_op_norm_bwd_input(t->device, t->stream, &args));
            ot_pull(t, a.dx);
            norm_bwd_reference(t, &a, old);
            args.accumulate = false;
            args.dx = args.dy; /* in place */
            OT_RUN(t, pt_op_norm_bwd_input(t->device, t->stream, &args));
            ot_pull(t, a.dy);
            ot_same_bits(t, a.dy, 0, old, 0, a.rows * a.cols);
            ot_reset(t);
        }
}

/* All rows, columns elsewhere: the same bits. `old`: dweight and dbias before. */
static void norm_weight_columns(ot_t *t, const norm_case_t *a,
                                const pt_op_norm_bwd_weight_t *whole,
                                const ot_tensor_t *old)
{
    pt_op_norm_bwd_weight_t args = *whole;
    ot_part_t p = {.row = a->cols > 1, .rows = a->cols - (a->cols > 1)};
    ot_part_t in = {.rows = a->x->x.shape[0], .col = p.row, .cols = p.rows};
    ot_tensor_t *dweight = ot_part(t, a->dweight, &p, OT_ZERO);
    ot_tensor_t *dbias = ot_part(t, a->dbias, &p, OT_ZERO);
    for (int64_t i = 0; i < p.rows; i++) {
        ot_set(dweight, i, ot_get(old, p.row + i));
        ot_set(dbias, i, ot_get(old, a->cols + p.row + i));
    }
    ot_push(t, dweight);
    ot_push(t, dbias);
    args.dy = ot_slice(a->dy, &in);
    args.x = ot_slice(a->x, &in);
    args.dweight = dweight->x;
    args.dbias = args.dbias.data ? dbias->x : args.dbias;
    OT_RUN(t, pt_op_norm_bwd_weight(t->device, t->stream, &args));
    ot_same_part(t, a->dweight, &p, dweight);
    if (args.dbias.data)
        ot_same_part(t, a->dbias, &p, dbias);
}

static void norm_weight_case(ot_t *t, pt_norm_t kind, int64_t n, int64_t c, bool heads)
{
    norm_case_t a = norm_make(t, kind, n, c, heads);
    pt_op_norm_fwd_t forward = norm_args(&a);
    norm_forward(t, &forward);
    ot_tensor_t *old = OT_DENSE(t, t->out, OT_ZERO, 2, c);
    for (int64_t i = 0; i < c; i++) {
        ot_set(old, i, ot_get(a.dweight, i));
        ot_set(old, c + i, ot_get(a.dbias, i));
    }
    bool layer = kind == PT_NORM_LAYER;
    pt_op_norm_bwd_weight_t args = {a.dy->x,      a.x->x,
                                    forward.mean, forward.rstd,
                                    a.dweight->x, layer ? a.dbias->x : (pt_tensor_t){0},
                                    kind};
    OT_RUN(t, pt_op_norm_bwd_weight(t->device, t->stream, &args));
    ot_pull(t, a.dweight);
    ot_pull(t, a.dbias);
    for (int64_t i = 0; i < c; i++) {
        long double weight = ot_get(old, i), bias = ot_get(old, c + i);
        long double size = fabsl(weight), plain = fabsl(bias), mean, rstd;
        for (int64_t r = 0; r < a.rows; r++) {
            norm_stats(&a, r, &mean, &rstd);
            long double dy = ot_get(a.dy, r * c + i);
            weight += dy * (ot_get(a.x, r * c + i) - mean) * rstd;
            bias += layer ? dy : 0;
            size += fabsl(dy) * rstd * (1 + rstd);
            plain += fabsl(dy);
        }
        ot_near_out(t, ot_get(a.dweight, i), weight, size, 16);
        ot_near_out(t, ot_get(a.dbias, i), bias, plain, 8);
    }
    norm_weight_columns(t, &a, &args, old);
    /* Weights enter linearly: differences of the forward see the same sums. */
    ot_tensor_t *gradient = OT_DENSE(t, t->type, OT_ZERO, c);
    for (int64_t i = 0; i < c; i++)
        ot_set(gradient, i, ot_get(a.dweight, i) - ot_get(old, i));
    if (n < 10)
        ot_differences(t, a.weight, gradient, a.dy, a.y, norm_forward, &forward);
    ot_reset(t);
}

static void test_norm_bwd_weight(ot_t *t)
{
    for (int s = 0; s < SIZES - 1; s++)
        for (int mode = 0; mode < 4; mode++)
            norm_weight_case(t, mode & 1 ? PT_NORM_RMS : PT_NORM_LAYER,
                             s % 3 == 0 ? 70 : 5, sizes[s], mode >> 1);
}
