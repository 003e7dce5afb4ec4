/* SPDX-License-Identifier: Apache-2.0 */
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
            ot_near(t, ot_get(x, e), t->type == PT_F32 ? 0.1f : 0.1, 1, 0);
    }
}

static void test_cast(ot_t *t)
{
    static const pt_dtype_t types[] = {PT_F64, PT_F32, PT_BF16, PT_F16};
    for (int s = 0; s < SIZES; s++)
        for (int to = 0; to < 4; to++) {
            ot_tensor_t *x = OT_DENSE(t, t->type, OT_RANDOM, 5, sizes[s]);
            ot_tensor_t *y = OT_DENSE(t, types[to], OT_POISON, 5 * sizes[s]);
            OT_RUN(t, pt_op_cast(t->device, t->stream, &(pt_op_cast_t){x->x, y->x}));
            ot_pull(t, y);
            for (int64_t e = 0; e < 5 * sizes[s]; e++) {
                double want = ot_get(x, e);
                want = types[to] == PT_F32 ? (float)want : want;
                ot_near_in(t, types[to], ot_get(y, e), want, 1, 0);
            }
            ot_part_t p = ot_rows_of(5 * sizes[s], 1);
            ot_tensor_t *z = ot_part(t, y, &p, OT_POISON);
            pt_tensor_t flat =
                pt_tensor_1d(x->x.data, t->type, PT_MEMORY_DEVICE, 5 * sizes[s]);
            flat = pt_tensor_slice(flat, 0, p.row, p.rows);
            OT_RUN(t, pt_op_cast(t->device, t->stream, &(pt_op_cast_t){flat, z->x}));
            ot_same_part(t, y, &p, z);
            ot_reset(t);
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
        ot_part_t p = ot_part_of(n, c);
        ot_tensor_t *z = ot_part(t, y, &p, OT_POISON);
        pt_op_add_t part = {ot_slice(a, &p), ot_slice(b, &p), z->x};
        OT_RUN(t, pt_op_add(t->device, t->stream, &part));
        ot_same_part(t, y, &p, z);
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
        ot_part_t p = ot_part_of(n, c);
        ot_tensor_t *z = ot_copy(t, x, &p);
        pt_op_bias_fwd_t args = {x->x, bias->x};
        OT_RUN(t, pt_op_bias_fwd(t->device, t->stream, &args));
        ot_pull(t, x);
        for (int64_t e = 0; e < n * c; e++)
            ot_near(t, ot_get(x, e), want[e], fabsl(want[e]), 0.5);
        args.x = z->x;
        args.bias = pt_tensor_slice(bias->x, 0, p.col, p.cols);
        OT_RUN(t, pt_op_bias_fwd(t->device, t->stream, &args));
        ot_same_part(t, x, &p, z);
        pt_free(want);
    }
}

static void test_bias_bwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++)
        for (int64_t n = 1; n < 400; n = 3 * n + 4) {
            int64_t c = sizes[s];
            ot_tensor_t *dy = OT_NEW(t, t->type, OT_RANDOM, n, c);
            ot_tensor_t *dbias = OT_NEW(t, t->out, OT_RANDOM, c);
            ot_tensor_t *old = OT_NEW(t, t->out, OT_ZERO, c);
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
                ot_near_out(t, ot_get(dbias, e), want, size, 8);
            }
            /* Columns elsewhere, all rows. */
            ot_part_t p = {.row = c > 1, .rows = c - (c > 1)};
            ot_tensor_t *z = ot_copy(t, old, &p);
            pt_op_bias_bwd_t part = {pt_tensor_slice(dy->x, 1, p.row, p.rows), z->x};
            OT_RUN(t, pt_op_bias_bwd(t->device, t->stream, &part));
            ot_same_part(t, dbias, &p, z);
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

/* The same of a part of the rows and columns. */
static pt_dropout_t dropout_part(const pt_dropout_t *whole, const ot_part_t *p)
{
    pt_dropout_t drop = *whole;
    drop.sample = pt_tensor_slice(drop.sample, 0, p->row, p->rows);
    drop.place = pt_tensor_slice(drop.place, 0, p->row, p->rows);
    drop.first_col += p->col;
    return drop;
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
        ot_part_t p = ot_part_of(n, c);
        ot_tensor_t *z = ot_part(t, y, &p, OT_POISON);
        pt_op_dropout_t part = {ot_slice(x, &p), z->x, dropout_part(&drop, &p)};
        OT_RUN(t, pt_op_dropout(t->device, t->stream, &part));
        ot_same_part(t, y, &p, z);
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
        for (int variant = 0; variant < 4; variant++) {
            int64_t n = 9, c = sizes[s];
            bool with = variant % 2;
            pt_dropout_t drop = dropout_of(t, with ? 0.4 : 0, n);
            ot_tensor_t *bias = OT_DENSE(t, t->type, OT_RANDOM, c);
            ot_tensor_t *x = OT_NEW(t, t->type, OT_RANDOM, n, c);
            ot_tensor_t *branch = OT_NEW(t, t->type, OT_RANDOM, n, c);
            ot_tensor_t *y = OT_NEW(t, t->type, OT_POISON, n, c);
            pt_op_residual_t args = {x->x, branch->x, y->x, drop, {0}};
            if (variant >= 2)
                args.bias = bias->x;
            OT_RUN(t, pt_op_residual(t->device, t->stream, &args));
            ot_pull(t, y);
            for (int64_t e = 0; e < n * c; e++) {
                int64_t r = e / c;
                bool keep =
                    !with || kept(&drop, 1000 + r / 7, (uint32_t)(r % 7), 0, e % c);
                long double added = variant >= 2 ? ot_get(bias, e % c) : 0,
                            whole = added;
                whole += ot_get(branch, e);
                long double part = keep ? whole / (with ? 0.6L : 1) : 0;
                ot_near(t, ot_get(y, e), ot_get(x, e) + part,
                        fabsl(part) + fabsl(added) + fabs(ot_get(x, e)), 3);
            }
            ot_part_t p = ot_part_of(n, c);
            ot_tensor_t *z = ot_part(t, y, &p, OT_POISON);
            pt_op_residual_t part = {ot_slice(x, &p),
                                     ot_slice(branch, &p),
                                     z->x,
                                     dropout_part(&drop, &p),
                                     {0}};
            if (variant >= 2)
                part.bias = pt_tensor_slice(bias->x, 0, p.col, p.cols);
            OT_RUN(t, pt_op_residual(t->device, t->stream, &part));
            ot_same_part(t, y, &p, z);
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
            ot_part_t p = ot_part_of(n, c);
            ot_tensor_t *z = ot_copy(t, y, &p);
            pt_op_embed_fwd_t args = {index->x, table->x, y->x, first, accumulate};
            OT_RUN(t, pt_op_embed_fwd(t->device, t->stream, &args));
            ot_pull(t, y);
            for (int64_t e = 0; e < n * c; e++) {
                int64_t at = (int64_t)ot_get(index, e / c) - first;
                long double want = ot_get(old, e);
                if (at >= 0 && at < rows)
                    want += ot_get(table, at * c + e % c);
                ot_near(t, ot_get(y, e), want, fabsl(want) + 1e-30L, 0.5);
            }
            args.index = pt_tensor_slice(index->x, 0, p.row, p.rows);
            args.table = pt_tensor_slice(table->x, 1, p.col, p.cols);
            args.y = z->x;
            OT_RUN(t, pt_op_embed_fwd(t->device, t->stream, &args));
            ot_same_part(t, y, &p, z);
            ot_reset(t);
        }
}

static void embed_backward(ot_t *t, const pt_op_embed_bwd_t *args)
{
    OT_RUN_LENT_IF(t->out != t->sum, t, pt_op_embed_bwd(t->device, t->stream, args));
}

/* Rows in two calls, columns elsewhere; a narrow table is rounded after each call. */
static void embed_bwd_parts(ot_t *t, const pt_op_embed_bwd_t *whole, ot_tensor_t *dtable)
{
    int64_t n = whole->dy.shape[0], c = whole->dy.shape[1];
    int64_t step = t->out == t->sum ? n / 2 : n;
    ot_part_t p = {.rows = dtable->x.shape[0], .col = c > 1, .cols = c - (c > 1)};
    ot_tensor_t *z = ot_part(t, dtable, &p, OT_ZERO);
    for (int64_t from = 0; from < n; from += step) {
        pt_op_embed_bwd_t part = *whole;
        part.index = pt_tensor_slice(whole->index, 0, from, step);
        part.dy = pt_tensor_slice(whole->dy, 0, from, step);
        part.dy = pt_tensor_slice(part.dy, 1, p.col, p.cols);
        part.dtable = z->x;
        embed_backward(t, &part);
    }
    ot_same_part(t, dtable, &p, z);
}

static void test_embed_bwd(ot_t *t)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t n = 90, c = sizes[s], rows = 11, first = 5;
        ot_tensor_t *dy = OT_NEW(t, t->type, OT_RANDOM, n, c);
        ot_tensor_t *index = random_index(t, n, 30);
        ot_tensor_t *dtable = OT_NEW(t, t->out, OT_ZERO, rows, c);
        pt_op_embed_bwd_t args = {index->x, dy->x, dtable->x, first};
        embed_backward(t, &args);
        ot_pull(t, dtable);
        for (int64_t e = 0; e < rows * c; e++) {
            double in_order = 0; /* ascending rows, in A: exact bits */
            for (int64_t r = 0; r < n; r++)
                if ((int64_t)ot_get(index, r) - first == e / c) {
                    in_order += ot_get(dy, r * c + e % c);
                    in_order = t->sum == PT_F32 ? (float)in_order : in_order;
                }
            ot_near_out(t, ot_get(dtable, e), in_order, 1, 0);
        }
        embed_bwd_parts(t, &args, dtable);
        /* Once more: added to what is there. */
        ot_tensor_t *old = OT_NEW(t, t->out, OT_ZERO, rows, c);
        for (int64_t e = 0; e < rows * c; e++)
            ot_set(old, e, ot_get(dtable, e));
        embed_backward(t, &args);
        ot_pull(t, dtable);
        for (int64_t e = 0; e < rows * c; e++)
            ot_near_out(t, ot_get(dtable, e), 2 * (long double)ot_get(old, e), 20,
                        8 + (t->out == t->sum ? 0 : t->coarse));
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
    ot_tensor_t *c = OT_NEW(t, t->out, accumulate ? OT_RANDOM : OT_POISON, m, n);
    ot_tensor_t *old = OT_NEW(t, t->out, OT_ZERO, m, n);
    for (int64_t e = 0; accumulate && e < m * n; e++)
        ot_set(old, e, ot_get(c, e));
    pt_op_gemm_t args = {a->x, b->x, c->x, ta, tb, accumulate};
    OT_RUN_LENT_IF(t->type != t->sum, t, pt_op_gemm(t->device, t->stream, &args));
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
        ot_near_out(t, ot_get(c, e), want, scale, 8);
    }
    ot_reset(t);
}

static void test_gemm(ot_t *t)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 0},   {17, 33, 65},
                                        {64, 1, 127}, {1, 70, 64}, {63, 65, 33},
                                        {515, 3, 5},  {3, 517, 5}, {5, 3, 1030}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int mode = 0; mode < 8; mode++)
            gemm_case(t, shapes[s], mode & 1, mode >> 1 & 1, mode >> 2);
}
