/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of test_ops.c: attention, against the formula, in parts, and backward. */

typedef struct attention_case {
    ot_tensor_t *q, *k, *v, *o, *lse, *dout, *dq, *dk, *dv;
    ot_tensor_t *q_position, *k_position, *q_document, *k_document;
    pt_attention_shape_t shape;
    pt_dropout_t dropout;
    int64_t sequences, tq, tk, heads, kv_heads, width, value_width;
} attention_case_t;

typedef struct attention_sizes {
    int64_t sequences, tq, tk, heads, kv_heads, width, value_width;
    int documents;  /* documents in a sequence; 0: no arrays */
    int64_t offset; /* place of the first query beyond the first key's */
    double p;
} attention_sizes_t;

static void attention_arrays(ot_t *t, attention_case_t *a, const attention_sizes_t *z)
{
    int64_t n = z->sequences * z->tq, m = z->sequences * z->tk;
    a->q_position = OT_DENSE(t, PT_I32, OT_ZERO, n);
    a->k_position = OT_DENSE(t, PT_I32, OT_ZERO, m);
    a->q_document = OT_DENSE(t, PT_I32, OT_ZERO, n);
    a->k_document = OT_DENSE(t, PT_I32, OT_ZERO, m);
    int64_t whole = z->tk > z->tq + z->offset ? z->tk : z->tq + z->offset;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = i % z->tq + z->offset;
        ot_set(a->q_position, i, (double)place);
        ot_set(a->q_document, i, (double)(place * z->documents / whole));
    }
    for (int64_t j = 0; j < m; j++) {
        int64_t place = j % z->tk;
        ot_set(a->k_position, j, (double)place);
        ot_set(a->k_document, j, (double)(place * z->documents / whole));
    }
    ot_push(t, a->q_position);
    ot_push(t, a->k_position);
    ot_push(t, a->q_document);
    ot_push(t, a->k_document);
}

static attention_case_t attention_make(ot_t *t, const attention_sizes_t *z)
{
    attention_case_t a = {.sequences = z->sequences,
                          .tq = z->tq,
                          .tk = z->tk,
                          .heads = z->heads,
                          .kv_heads = z->kv_heads,
                          .width = z->width,
                          .value_width = z->value_width};
    int64_t n = z->sequences * z->tq, m = z->sequences * z->tk;
    a.q = OT_NEW(t, t->type, OT_RANDOM, n, z->heads, z->width);
    a.k = OT_NEW(t, t->type, OT_RANDOM, m, z->kv_heads, z->width);
    a.v = OT_NEW(t, t->type, OT_RANDOM, m, z->kv_heads, z->value_width);
    a.o = OT_NEW(t, t->out, OT_POISON, n, z->heads, z->value_width);
    a.dout = OT_NEW(t, t->type, OT_RANDOM, n, z->heads, z->value_width);
    a.dq = OT_NEW(t, t->out, OT_POISON, n, z->heads, z->width);
    a.dk = OT_NEW(t, t->out, OT_POISON, m, z->kv_heads, z->width);
    a.dv = OT_NEW(t, t->out, OT_POISON, m, z->kv_heads, z->value_width);
    a.lse = OT_DENSE(t, t->sum, OT_POISON, n, z->heads);
    attention_arrays(t, &a, z);
    a.dropout = dropout_of(t, z->p, n);
    a.dropout.site = PT_DROPOUT_ATTENTION;
    a.shape = (pt_attention_shape_t){.sequences = z->sequences,
                                     .scale = 1 / sqrt((double)z->width),
                                     .q_position = a.q_position->x,
                                     .k_position = a.k_position->x,
                                     .first_head = 3};
    if (z->documents > 0) {
        a.shape.q_document = a.q_document->x;
        a.shape.k_document = a.k_document->x;
    }
    return a;
}

static pt_op_attention_fwd_t attention_args(const attention_case_t *a)
{
    return (pt_op_attention_fwd_t){a->q->x,   a->k->x,  a->v->x,   a->o->x,
                                   a->lse->x, a->shape, a->dropout};
}

static pt_op_attention_bwd_t attention_bwd_args(const attention_case_t *a)
{
    return (pt_op_attention_bwd_t){a->q->x,   a->k->x,    a->v->x,    a->o->x,
                                   a->lse->x, a->dout->x, a->dq->x,   a->dk->x,
                                   a->dv->x,  a->shape,   a->dropout, false};
}

static void attention_forward(ot_t *t, const void *args)
{
    OT_RUN_LENT(t, pt_op_attention_fwd(t->device, t->stream, args));
}

static bool attention_sees(const attention_case_t *a, int64_t row, int64_t key)
{
    if (ot_get(a->k_position, key) > ot_get(a->q_position, row))
        return false;
    return !a->shape.q_document.data ||
           ot_get(a->k_document, key) == ot_get(a->q_document, row);
}

/* Scores, probabilities (0 where unseen) and their dropped form of one query and
 * head. */
static long double attention_row(const attention_case_t *a, int64_t row, int64_t head,
                                 long double *p, long double *dropped)
{
    int64_t group = a->heads / a->kv_heads, start = row / a->tq * a->tk;
    long double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->tk; j++) {
        p[j] = 0;
        for (int64_t d = 0; d < a->width; d++)
            p[j] +=
                (long double)ot_get(a->q, (row * a->heads + head) * a->width + d) *
                ot_get(a->k, ((start + j) * a->kv_heads + head / group) * a->width + d);
        p[j] *= a->shape.scale;
        if (attention_sees(a, row, start + j))
            maximum = fmaxl(maximum, p[j]);
    }
    for (int64_t j = 0; j < a->tk; j++) {
        p[j] = attention_sees(a, row, start + j) ? expl(p[j] - maximum) : 0;
        sum += p[j];
    }
    for (int64_t j = 0; j < a->tk; j++) {
        p[j] = sum > 0 ? p[j] / sum : 0;
        bool keep =
            a->dropout.p == 0 ||
            kept(&a->dropout, 1000 + row / 7, (uint32_t)(row % 7),
                 (uint32_t)(a->shape.first_head + head), a->shape.kv_offset + j);
        dropped[j] = keep ? p[j] / (1 - (long double)a->dropout.p) : 0;
    }
    return sum > 0 ? maximum + logl(sum) : -INFINITY;
}

static void attention_fwd_check(ot_t *t, const attention_case_t *a)
{
    long double p[512], dropped[512];
    int64_t group = a->heads / a->kv_heads;
    for (int64_t row = 0; row < a->sequences * a->tq; row++)
        for (int64_t head = 0; head < a->heads; head++) {
            long double lse = attention_row(a, row, head, p, dropped);
            ot_near_sum(t, ot_get(a->lse, row * a->heads + head), lse,
                        isinf((double)lse) ? 1 : fabsl(lse) + 4, 16);
            for (int64_t d = 0; d < a->value_width; d++) {
                long double want = 0, size = 1e-30L;
                for (int64_t j = 0; j < a->tk; j++) {
                    int64_t at = (row / a->tq * a->tk + j) * a->kv_heads + head / group;
                    long double term =
                        dropped[j] * ot_get(a->v, at * a->value_width + d);
                    want += term;
                    size += fabsl(term) * 4;
                }
                ot_near_out(t,
                            ot_get(a->o, (row * a->heads + head) * a->value_width + d),
                            want, size, 16);
            }
        }
}

static const attention_sizes_t attention_shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0, 0},       {2, 3, 3, 2, 1, 17, 5, 0, 0, 0},
    {1, 65, 65, 2, 2, 33, 33, 0, 0, 0},   {2, 64, 64, 4, 2, 16, 24, 3, 0, 0},
    {1, 127, 200, 3, 1, 8, 9, 2, 70, 0},  {1, 40, 150, 2, 2, 64, 64, 5, 100, 0.3},
    {2, 67, 67, 2, 1, 12, 12, 2, 0, 0.2}, {1, 9, 80, 1, 1, 4, 4, 4, -3, 0},
};
enum { ATTENTION_SHAPES = sizeof attention_shapes / sizeof attention_shapes[0] };

static void attention_cut_queries(pt_attention_shape_t *shape, pt_dropout_t *dropout,
                                  int64_t first, int64_t count)
{
    shape->q_position = pt_tensor_slice(shape->q_position, 0, first, count);
    if (shape->q_document.data)
        shape->q_document = pt_tensor_slice(shape->q_document, 0, first, count);
    dropout->sample = pt_tensor_slice(dropout->sample, 0, first, count);
    dropout->place = pt_tensor_slice(dropout->place, 0, first, count);
}

static void attention_cut_keys(pt_attention_shape_t *shape, int64_t first, int64_t count)
{
    shape->k_position = pt_tensor_slice(shape->k_position, 0, first, count);
    if (shape->k_document.data)
        shape->k_document = pt_tensor_slice(shape->k_document, 0, first, count);
    shape->kv_offset = first;
}

/* The last queries of one sequence alone: the same bits. */
static void attention_split_queries(ot_t *t, const attention_case_t *a)
{
    int64_t first = a->tq / 3, count = a->tq - first;
    ot_tensor_t *o = OT_NEW(t, t->out, OT_POISON, count, a->heads, a->value_width);
    ot_tensor_t *lse = OT_DENSE(t, t->sum, OT_POISON, count, a->heads);
    pt_op_attention_fwd_t args = attention_args(a);
    args.q = pt_tensor_slice(args.q, 0, first, count);
    args.o = o->x;
    args.lse = lse->x;
    attention_cut_queries(&args.shape, &args.dropout, first, count);
    attention_forward(t, &args);
    ot_pull(t, o);
    ot_pull(t, lse);
    ot_same_bits(t, a->o, first * a->heads * a->value_width, o, 0,
                 count * a->heads * a->value_width);
    ot_same_bits(t, a->lse, first * a->heads, lse, 0, count * a->heads);
}

/* Keys in two calls, merged: o = Σ exp(lse_i - lse)·o_i with lse = log Σ exp(lse_i). */
static void attention_split_keys(ot_t *t, const attention_case_t *a)
{
    int64_t n = a->tq, cut = a->tk / 2 - 1;
    ot_tensor_t *o[2], *lse[2];
    for (int part = 0; part < 2; part++) {
        int64_t first = part ? cut : 0, count = part ? a->tk - cut : cut;
        o[part] = OT_NEW(t, t->sum, OT_POISON, n, a->heads, a->value_width);
        lse[part] = OT_DENSE(t, t->sum, OT_POISON, n, a->heads);
        pt_op_attention_fwd_t args = attention_args(a);
        args.o = o[part]->x;
        args.lse = lse[part]->x;
        args.k = pt_tensor_slice(args.k, 0, first, count);
        args.v = pt_tensor_slice(args.v, 0, first, count);
        attention_cut_keys(&args.shape, first, count);
        attention_forward(t, &args);
        ot_pull(t, o[part]);
        ot_pull(t, lse[part]);
    }
    for (int64_t r = 0; r < n * a->heads; r++) {
        long double one = ot_get(lse[0], r), two = ot_get(lse[1], r);
        long double top = fmaxl(one, two), whole = -INFINITY;
        if (!isinf((double)top))
            whole = top + logl(expl(one - top) + expl(two - top));
        ot_near_sum(t, ot_get(a->lse, r), whole,
                    isinf((double)whole) ? 1 : fabsl(whole) + 4, 16);
        for (int64_t d = 0; d < a->value_width; d++) {
            int64_t e = r * a->value_width + d;
            long double want = 0;
            if (!isinf((double)whole))
                want = expl(one - whole) * ot_get(o[0], e) +
                       expl(two - whole) * ot_get(o[1], e);
            ot_near_out(t, ot_get(a->o, e), want, 4, 16);
        }
    }
}

static void test_attention_fwd(ot_t *t)
{
    for (int s = 0; s < ATTENTION_SHAPES; s++) {
        attention_case_t a = attention_make(t, &attention_shapes[s]);
        pt_op_attention_fwd_t args = attention_args(&a);
        attention_forward(t, &args);
        ot_pull(t, a.o);
        ot_pull(t, a.lse);
        attention_fwd_check(t, &a);
        if (a.sequences == 1 && a.tk > 2) {
            attention_split_queries(t, &a);
            attention_split_keys(t, &a);
        }
        ot_reset(t);
    }
}

/* Gradients by the formulas dV = Pᵀ·dO, dS = P∘(dP - rowsum(P∘dP)), … in long double:
 * dq, dk, dv, one after the other. The caller frees them. */
static long double *attention_bwd_want(ot_t *t, const attention_case_t *a)
{
    long double p[512], dropped[512], ds[512], *want = NULL;
    int64_t group = a->heads / a->kv_heads;
    int64_t n_dq = pt_tensor_count(&a->dq->x), n_dk = pt_tensor_count(&a->dk->x);
    int64_t count = n_dq + n_dk + pt_tensor_count(&a->dv->x);
    OT_RUN(t, pt_alloc("want", (size_t)count, sizeof *want, (void **)&want));
    for (int64_t row = 0; row < a->sequences * a->tq; row++)
        for (int64_t head = 0; head < a->heads; head++) {
            int64_t q = row * a->heads + head, start = row / a->tq * a->tk;
            long double delta = 0, *dq = want + q * a->width;
            (void)attention_row(a, row, head, p, dropped);
            for (int64_t j = 0; j < a->tk; j++) {
                int64_t k = (start + j) * a->kv_heads + head / group;
                long double dp = 0, *dv = want + n_dq + n_dk + k * a->value_width;
                for (int64_t d = 0; p[j] != 0 && d < a->value_width; d++) {
                    long double dout = ot_get(a->dout, q * a->value_width + d);
                    dp += dout * ot_get(a->v, k * a->value_width + d);
                    dv[d] += dropped[j] * dout;
                }
                ds[j] = dropped[j] * dp;
                delta += ds[j];
            }
            for (int64_t j = 0; j < a->tk; j++) {
                int64_t k = (start + j) * a->kv_heads + head / group;
                long double s = (ds[j] - p[j] * delta) * a->shape.scale;
                long double *dk = want + n_dq + k * a->width;
                for (int64_t d = 0; p[j] != 0 && d < a->width; d++) {
                    dq[d] += s * ot_get(a->k, k * a->width + d);
                    dk[d] += s * ot_get(a->q, q * a->width + d);
                }
            }
        }
    return want;
}

/* Gradients are `times` the wanted ones; o rounded to T, of which delta is made, and
 * what was there before add errors of T. */
static void attention_bwd_check(ot_t *t, const attention_case_t *a,
                                const long double *want, double times)
{
    const ot_tensor_t *got[] = {a->dq, a->dk, a->dv};
    for (int i = 0; i < 3; i++)
        for (int64_t e = 0; e < pt_tensor_count(&got[i]->x); e++, want++)
            ot_near_out(t, ot_get(got[i], e), times * *want,
                        8 + (i == 0 ? 0 : fabsl(*want)),
                        t->out == t->sum ? 64 : 64 + t->coarse);
}

static void attention_backward(ot_t *t, const attention_case_t *a, bool accumulate)
{
    pt_op_attention_bwd_t args = attention_bwd_args(a);
    args.accumulate = accumulate;
    OT_RUN_LENT(t, pt_op_attention_bwd(t->device, t->stream, &args));
    ot_pull(t, a->dq);
    ot_pull(t, a->dk);
    ot_pull(t, a->dv);
}

/* The last queries of one sequence alone give their dq, the last keys their dk and
 * dv. */
static void attention_bwd_parts(ot_t *t, const attention_case_t *a)
{
    ot_part_t queries = {.row = a->tq / 3, .rows = a->tq - a->tq / 3, .cols = a->width};
    ot_part_t keys = {.row = a->tk / 2 - 1, .rows = a->tk - a->tk / 2 + 1};
    ot_part_t values = keys, all_keys = {.rows = a->tk}, all_queries = {.rows = a->tq};
    keys.cols = all_keys.cols = all_queries.cols = a->width;
    values.cols = a->value_width;
    ot_part_t outs = queries, all_values = all_keys;
    outs.cols = all_values.cols = a->value_width;
    ot_tensor_t *dq = ot_part(t, a->dq, &queries, OT_POISON);
    pt_op_attention_bwd_t args = attention_bwd_args(a);
    args.q = ot_slice(a->q, &queries);
    args.o = ot_slice(a->o, &outs);
    args.do_ = ot_slice(a->dout, &outs);
    args.lse = pt_tensor_slice(a->lse->x, 0, queries.row, queries.rows);
    args.dq = dq->x;
    args.dk = ot_part(t, a->dk, &all_keys, OT_POISON)->x;
    args.dv = ot_part(t, a->dv, &all_values, OT_POISON)->x;
    attention_cut_queries(&args.shape, &args.dropout, queries.row, queries.rows);
    OT_RUN_LENT(t, pt_op_attention_bwd(t->device, t->stream, &args));
    ot_same_part(t, a->dq, &queries, dq);
    ot_tensor_t *dk = ot_part(t, a->dk, &keys, OT_POISON);
    ot_tensor_t *dv = ot_part(t, a->dv, &values, OT_POISON);
    args = attention_bwd_args(a);
    args.k = ot_slice(a->k, &keys);
    args.v = ot_slice(a->v, &values);
    args.dq = ot_part(t, a->dq, &all_queries, OT_POISON)->x;
    args.dk = dk->x;
    args.dv = dv->x;
    attention_cut_keys(&args.shape, keys.row, keys.rows);
    OT_RUN_LENT(t, pt_op_attention_bwd(t->device, t->stream, &args));
    ot_same_part(t, a->dk, &keys, dk);
    ot_same_part(t, a->dv, &values, dv);
}

static void test_attention_bwd(ot_t *t)
{
    for (int s = 0; s < ATTENTION_SHAPES; s++) {
        attention_case_t a = attention_make(t, &attention_shapes[s]);
        pt_op_attention_fwd_t args = attention_args(&a);
        attention_forward(t, &args);
        ot_pull(t, a.o);
        attention_backward(t, &a, false);
        long double *want = attention_bwd_want(t, &a);
        attention_bwd_check(t, &a, want, 1);
        if (a.sequences == 1 && a.tk > 2)
            attention_bwd_parts(t, &a);
        if (s == 1 || s == 6 || s == 7) {
            ot_differences(t, a.q, a.dq, a.dout, a.o, attention_forward, &args);
            ot_differences(t, a.k, a.dk, a.dout, a.o, attention_forward, &args);
            ot_differences(t, a.v, a.dv, a.dout, a.o, attention_forward, &args);
            attention_forward(t, &args);
        }
        attention_backward(t, &a, true);
        attention_bwd_check(t, &a, want, 2);
        pt_free(want);
        ot_reset(t);
    }
}
