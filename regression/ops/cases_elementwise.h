/* Cases of test_ops.c: fill, cast, add, bias, residual, dropout, embeddings, gemm. */

static const int64_t sizes[] = {1, 3, 17, 33, 63, 64, 65, 127, 300};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void test_fill(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        ot_tensor_t *x = OT_NEW(t, t->type, OT_POISON, 3, 2, sizes[s]);
        OT_RUN(t, pt_op_fill(t->device, t->stream, &(pt_op_fill_t){x->x, 0.1}));
        ot_pull(t, x);
        for (int64_t e = 0; e < 6 * sizes[s]; e++)
            ot_near(t, ot_get(x, e), t->type == PT_F64 ? 0.1 : 0.1f, 1, 0);
    }
}

static void test_cast(ot_t *t)
{
    static const pt_dtype_t types[] = {PT_F64, PT_F32};
    for (int s = 0; s < SIZES; s++)
        for (int to = 0; to < 2; to++) {
            ot_tensor_t *x = OT_DENSE(t, t->type, OT_RANDOM, 5, sizes[s]);
            ot_tensor_t *y = OT_DENSE(t, types[to], OT_POISON, 5 * sizes[s]);
            OT_RUN(t, pt_op_cast(t->device, t->stream, &(pt_op_cast_t){x->x, y->x}));
            ot_pull(t, y);
            for (int64_t e = 0; e < 5 * sizes[s]; e++) {
                double want = ot_get(x, e);
                ot_near(t, ot_get(y, e), types[to] == PT_F32 ? (float)want : want, 1, 0);
            }
        }
}

static void test_add(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 4, c = sizes[s];
        ot_tensor_t *a = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *b = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, c);
        OT_RUN(t, pt_op_add(t->device, t->stream, &(pt_op_add_t){a->x, b->x, y->x}));
        ot_pull(t, y);
        for (int64_t e = 0; e < n * c; e++) {
            long double want = (long double)ot_get(a, e) + ot_get(b, e);
            ot_near(t, ot_get(y, e), want, fabsl(want), 0.5);
        }
        OT_RUN(t, pt_op_add(t->device, t->stream, &(pt_op_add_t){a->x, b->x, a->x}));
        ot_pull(t, a);
        ot_same_bits(t, a, 0, y, 0, n * c);
    }
}

static void test_bias_fwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 3, c = sizes[s];
        ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *bias = OT_NEW(t, t->type, OT_RANDOM, c);
        long double *want = NULL;
        OT_RUN(t, pt_alloc("want", (size_t)(n * c), sizeof *want, (void **)&want));
        for (int64_t e = 0; e < n * c; e++)
            want[e] = (long double)ot_get(x, e) + ot_get(bias, e % c);
        OT_RUN(t, pt_op_bias_fwd(t->device, t->stream,
                                 &(pt_op_bias_fwd_t){x->x, bias->x}));
        ot_pull(t, x);
        for (int64_t e = 0; e < n * c; e++)
            ot_near(t, ot_get(x, e), want[e], fabsl(want[e]), 0.5);
        pt_free(want);
    }
}

static void test_bias_bwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int64_t n = 1; n < 400; n = 3 * n + 4) {
            int64_t c = sizes[s];
            ot_tensor_t *dy = OT_NEW(t, t->type, OT_RANDOM, n, c);
            ot_tensor_t *dbias = OT_NEW(t, t->type, OT_RANDOM, c);
            ot_tensor_t *old = OT_NEW(t, t->type, OT_ZERO, c);
            for (int64_t e = 0; e < c; e++)
                ot_set(old, e, ot_get(dbias, e));
            OT_RUN(t, pt_op_bias_bwd(t->device, t->stream,
                                     &(pt_op_bias_bwd_t){dy->x, dbias->x}));
            ot_pull(t, dbias);
            for (int64_t e = 0; e < c; e++) {
                long double want = ot_get(old, e), size = fabsl(want);
                for (int64_t r = 0; r < n; r++) {
                    want += ot_get(dy, r * c + e);
                    size += fabs(ot_get(dy, r * c + e));
                }
                ot_near(t, ot_get(dbias, e), want, size, 8);
            }
            ot_reset(t);
        }
}

/* Sample ids and places for n rows, and the struct. */
static pt_dropout_t dropout_of(ot_t *t, double p, int64_t n)
{
    ot_tensor_t *sample = OT_DENSE(t, PT_I64, OT_ZERO, n);
    ot_tensor_t *place = OT_DENSE(t, PT_I32, OT_ZERO, n);
    for (int64_t r = 0; r < n; r++) {
        ot_set(sample, r, (double)(1000 + r / 7));
        ot_set(place, r, (double)(r % 7));
    }
    ot_push(t, sample);
    ot_push(t, place);
    return (pt_dropout_t){.p = p,
                          .seed = 5,
                          .step = 9,
                          .layer = 2,
                          .site = PT_DROPOUT_FFN_OUT,
                          .sample = sample->x,
                          .place = place->x};
}

/* Kept by the definition in dropout.h, from the written formula. */
static bool kept(const pt_dropout_t *d, int64_t sample, uint32_t place, uint32_t head,
                 int64_t col)
{
    uint64_t key = pt_mix64(pt_mix64(d->seed) ^ (uint64_t)d->step);
    key = pt_mix64(key ^ (uint64_t)sample);
    uint32_t words[4], keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t counter[4] = {(uint32_t)(col / 4), place, head,
                           (uint32_t)d->layer << 8 | (uint32_t)d->site};
    pt_philox4x32(keys, counter, words);
    return words[col % 4] >= d->p * 0x1p32;
}

static void test_dropout(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 17, c = sizes[s], first = s % 2 ? 13 * s : 0;
        pt_dropout_t drop = dropout_of(t, 0.3, n);
        drop.first_col = first;
        ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, c);
        OT_RUN(t, pt_op_dropout(t->device, t->stream,
                                &(pt_op_dropout_t){x->x, y->x, drop}));
        ot_pull(t, y);
        for (int64_t e = 0; e < n * c; e++) {
            int64_t r = e / c;
            bool keep = kept(&drop, 1000 + r / 7, (uint32_t)(r % 7), 0, first + e % c);
            long double want = keep ? ot_get(x, e) / 0.7L : 0;
            ot_near(t, ot_get(y, e), want, fabsl(want) + 1e-30L, 1.5);
        }
        drop.p = 0;
        OT_RUN(t, pt_op_dropout(t->device, t->stream,
                                &(pt_op_dropout_t){x->x, y->x, drop}));
        ot_pull(t, y);
        ot_same_bits(t, x, 0, y, 0, n * c);
    }
    /* Keep rate over 64,000 elements within five standard deviations. */
    pt_dropout_t drop = dropout_of(t, 0.25, 64);
    ot_tensor_t *x = OT_NEW(t, t->type, OT_ZERO, 64, 1000);
    int64_t left = 0;
    for (int64_t e = 0; e < 64000; e++)
        ot_set(x, e, 1);
    ot_push(t, x);
    OT_RUN(t, pt_op_dropout(t->device, t->stream, &(pt_op_dropout_t){x->x, x->x, drop}));
    ot_pull(t, x);
    for (int64_t e = 0; e < 64000; e++)
        left += ot_get(x, e) != 0;
    if (llabs(left - 48000) > 5 * 110)
        ot_fail(t, "kept %lld of 64000 at p = 0.25", (long long)left);
}

static void test_residual(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int with = 0; with < 2; with++) {
            int64_t n = 9, c = sizes[s];
            pt_dropout_t drop = dropout_of(t, with ? 0.4 : 0, n);
            ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, c);
            ot_tensor_t *branch = OT_NEW(t, t->type, OT_RANDOM, n, c);
            ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, c);
            pt_op_residual_t args = {x->x, branch->x, y->x, drop};
            OT_RUN(t, pt_op_residual(t->device, t->stream, &args));
            ot_pull(t, y);
            for (int64_t e = 0; e < n * c; e++) {
                int64_t r = e / c;
                bool keep =
                    !with || kept(&drop, 1000 + r / 7, (uint32_t)(r % 7), 0, e % c);
                long double part = keep ? ot_get(branch, e) / (with ? 0.6L : 1) : 0;
                ot_near(t, ot_get(y, e), ot_get(x, e) + part,
                        fabsl(part) + fabs(ot_get(x, e)), 2);
            }
            args.y = args.branch;
            OT_RUN(t, pt_op_residual(t->device, t->stream, &args));
            ot_pull(t, branch);
            ot_same_bits(t, y, 0, branch, 0, n * c);
            ot_reset(t);
        }
}

static ot_tensor_t *random_index(ot_t *t, int64_t n, int64_t below)
{
    ot_tensor_t *index = OT_DENSE(t, PT_I32, OT_ZERO, n);
    for (int64_t r = 0; r < n; r++)
        ot_set(index, r, (double)(pt_mix64((uint64_t)r + 77) % (uint64_t)below));
    ot_push(t, index);
    return index;
}

static void test_embed_fwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            int64_t n = 40, c = sizes[s], rows = 11, first = 5;
            ot_tensor_t *table = OT_NEW(t, t->type, OT_RANDOM, rows, c);
            ot_tensor_t *index = random_index(t, n, 30);
            ot_tensor_t *y =
                OT_NEW(t, t->type, accumulate ? OT_RANDOM : OT_POISON, n, c);
            ot_tensor_t *old = OT_NEW(t, t->type, OT_ZERO, n, c);
            for (int64_t e = 0; accumulate && e < n * c; e++)
                ot_set(old, e, ot_get(y, e));
            OT_RUN(t, pt_op_embed_fwd(t->device, t->stream,
                                      &(pt_op_embed_fwd_t){index->x, table->x, y->x,
                                                           first, accumulate}));
            ot_pull(t, y);
            for (int64_t e = 0; e < n * c; e++) {
                int64_t at = (int64_t)ot_get(index, e / c) - first;
                long double want = ot_get(old, e);
                if (at >= 0 && at < rows)
                    want += ot_get(table, at * c + e % c);
                ot_near(t, ot_get(y, e), want, fabsl(want) + 1e-30L, 0.5);
            }
            ot_reset(t);
        }
}

static void test_embed_bwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 90, c = sizes[s], rows = 11, first = 5;
        ot_tensor_t *dy = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *index = random_index(t, n, 30);
        ot_tensor_t *dtable = OT_NEW(t, t->type, OT_ZERO, rows, c);
        OT_RUN(t, pt_op_embed_bwd(
                      t->device, t->stream,
                      &(pt_op_embed_bwd_t){index->x, dy->x, dtable->x, first}));
        ot_pull(t, dtable);
        for (int64_t e = 0; e < rows * c; e++) {
            double in_order = 0; /* ascending rows, in T: exact bits */
            for (int64_t r = 0; r < n; r++)
                if ((int64_t)ot_get(index, r) - first == e / c) {
                    in_order += ot_get(dy, r * c + e % c);
                    in_order = t->type == PT_F32 ? (float)in_order : in_order;
                }
            ot_near(t, ot_get(dtable, e), in_order, 1, 0);
        }
        ot_reset(t);
    }
}

static void gemm_case(ot_t *t, const int64_t size[3], int ta, int tb, int accumulate)
{
    int64_t m = size[0], n = size[1], k = size[2];
    ot_tensor_t *a =
        ta ? OT_NEW(t, t->type, OT_RANDOM, k, m) : OT_NEW(t, t->type, OT_RANDOM, m, k);
    ot_tensor_t *b =
        tb ? OT_NEW(t, t->type, OT_RANDOM, n, k) : OT_NEW(t, t->type, OT_RANDOM, k, n);
    ot_tensor_t *c = OT_NEW(t, t->type, accumulate ? OT_RANDOM : OT_POISON, m, n);
    ot_tensor_t *old = OT_NEW(t, t->type, OT_ZERO, m, n);
    for (int64_t e = 0; accumulate && e < m * n; e++)
        ot_set(old, e, ot_get(c, e));
    pt_op_gemm_t args = {a->x, b->x, c->x, ta, tb, accumulate};
    OT_RUN(t, pt_op_gemm(t->device, t->stream, &args));
    ot_pull(t, c);
    for (int64_t e = 0; e < m * n; e++) {
        int64_t i = e / n, j = e % n;
        long double want = ot_get(old, e), scale = fabsl(want) + 1e-30L;
        for (int64_t p = 0; p < k; p++) {
            long double term = (long double)ot_get(a, ta ? p * m + i : i * k + p) *
                               ot_get(b, tb ? j * k + p : p * n + j);
            want += term;
            scale += fabsl(term);
        }
        ot_near(t, ot_get(c, e), want, scale, 8);
    }
    ot_reset(t);
}

static void test_gemm(ot_t *t)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 0},   {17, 33, 65},
                                        {64, 1, 127}, {1, 70, 64}, {63, 65, 33}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int mode = 0; mode < 8; mode++)
            gemm_case(t, shapes[s], mode & 1, mode >> 1 & 1, mode >> 2);
}
