/* attention_bwd_body.h — backward of attention_body.h, which includes it.
 *
 * Probabilities are made again from the log-sum-exp. With dP = dO·Vᵀ, delta = rowsum(dO∘O):
 *   dV = Pᵀ·dO,  dS = P∘(dP - delta),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q
 * (Dao et al. 2022, alg. 4). One task has one KV head, so dK and dV have one writer, and their
 * elements are summed over ascending query heads and queries. */

/* What is needed per query of a block: its log-sum-exp and delta. */
typedef struct FN(known) {
    A lse[QB], delta[QB];
} FN(known_t);

static FN(known_t) FN(known_of)(const pt_op_attention_bwd_t *a, int64_t head,
                                const pt_queries_t *queries)
{
    FN(known_t) known = {{0}, {0}};
    for (int64_t i = 0; i < queries->count; i++) {
        int64_t row = queries->first + i;
        const T *o = HEAD(a->o, row, head), *dout = HEAD(a->do_, row, head);
        A lse = ((const A *)a->lse.data)[row * a->q.shape[1] + head];
        /* A query that sees nothing: exp(s - inf) = 0. */
        known.lse[i] = lse == (A)-INFINITY ? (A)INFINITY : lse;
        PT_ROW_SUM(known.delta[i], a->v.shape[2], LOAD(o[c]) * LOAD(dout[c]));
    }
    return known;
}

/* p: scores -> probabilities; dropped: what multiplied v; dp -> dS·scale. */
static void FN(score_gradients)(const pt_op_attention_bwd_t *a, const FN(scratch_t) * x,
                                const FN(known_t) * known, const pt_queries_t *queries,
                                const pt_keys_t *keys, int64_t head)
{
    A scale = (A)a->shape.scale;
    for (int64_t j = 0; j < keys->count; j++)
        for (int64_t i = 0; i < queries->padded; i++)
            x->p[j * QB + i] = FN(pt_exp)(x->p[j * QB + i] - known->lse[i]);
    if (a->dropout.p > 0) {
        int64_t global_head = a->shape.first_head + head;
        FN(drop_scores)(x->dropped, x->p, &a->dropout, queries, keys, global_head);
        FN(drop_scores)(x->dp, x->dp, &a->dropout, queries, keys, global_head);
    }
    for (int64_t j = 0; j < keys->count; j++)
        for (int64_t i = 0; i < queries->padded; i++) {
            A ds = x->p[j * QB + i] * (x->dp[j * QB + i] - known->delta[i]) * scale;
            x->dp[j * QB + i] = ds;
        }
}

/* to[j] += s[j, :]·rows for the keys of a block: dV of p and dO, dK of dS and Q. */
static void FN(add_to_keys)(const pt_tensor_t *to, const pt_keys_t *keys,
                            int64_t kv_head, const A *s, const pt_tensor_t *rows,
                            int64_t head, const pt_queries_t *queries)
{
    FN(product)
    (&(FN(product_t)){.rows = keys->count,
                      .cols = to->shape[2],
                      .depth = queries->count,
                      .a = s,
                      .a_row = QB,
                      .a_col = 1,
                      .b = HEAD(*rows, queries->first, head),
                      .b_row = rows->stride[0],
                      .c = HEAD(*to, keys->first, kv_head),
                      .c_row = to->stride[0],
                      .accumulate = true});
}

static void FN(add_to_queries)(const pt_op_attention_bwd_t *a, const FN(scratch_t) * x,
                               const pt_queries_t *queries, const pt_keys_t *keys,
                               int64_t kv_head)
{
    FN(product)
    (&(FN(product_t)){.rows = queries->count,
                      .cols = a->q.shape[2],
                      .depth = keys->count,
                      .a = x->dp,
                      .a_row = 1,
                      .a_col = QB,
                      .b = HEAD(a->k, keys->first, kv_head),
                      .b_row = a->k.stride[0],
                      .c = x->sum,
                      .c_row = a->q.shape[2],
                      .accumulate = true});
}

static void FN(store_dq)(const pt_op_attention_bwd_t *a, const A *sum,
                         const pt_queries_t *queries, int64_t head)
{
    int64_t width = a->q.shape[2];
    for (int64_t i = 0; i < queries->count; i++) {
        T *dq = HEAD(a->dq, queries->first + i, head);
        for (int64_t d = 0; d < width; d++)
            dq[d] = STORE(a->accumulate ? LOAD(dq[d]) + sum[i * width + d]
                                        : sum[i * width + d]);
    }
}

static void FN(bwd_block)(const pt_op_attention_bwd_t *a, const FN(scratch_t) * x,
                          int64_t sequence, int64_t head, const pt_queries_t *queries)
{
    int64_t length = a->k.shape[0] / a->shape.sequences;
    int64_t kv_head = head / (a->q.shape[1] / a->k.shape[1]);
    FN(known_t) known = FN(known_of)(a, head, queries);
    const A *dropped = a->dropout.p > 0 ? x->dropped : x->p;
    pt_keys_t keys;

    memset(x->sum, 0, (size_t)(queries->count * a->q.shape[2]) * sizeof(A));
    FN(transpose)
    (x->q_t, HEAD(a->q, queries->first, head), a->q.stride[0], queries, a->q.shape[2],
     (A)a->shape.scale);
    FN(transpose)
    (x->do_t, HEAD(a->do_, queries->first, head), a->do_.stride[0], queries,
     a->v.shape[2], 1);
    for (int64_t from = 0; from < length; from += keys.count) {
        keys = key_block(&a->shape, sequence, length, from);
        pt_seen_t part = seen(&a->shape, queries, &keys);
        if (part == PT_SEEN_NONE)
            continue;
        FN(scores)(x->p, &a->k, &keys, kv_head, x->q_t, queries);
        if (part == PT_SEEN_SOME)
            FN(mask)(x->p, &a->shape, queries, &keys);
        FN(scores)(x->dp, &a->v, &keys, kv_head, x->do_t, queries);
        FN(score_gradients)(a, x, &known, queries, &keys, head);
        FN(add_to_keys)(&a->dv, &keys, kv_head, dropped, &a->do_, head, queries);
        FN(add_to_keys)(&a->dk, &keys, kv_head, x->dp, &a->q, head, queries);
        FN(add_to_queries)(a, x, queries, &keys, kv_head);
    }
    FN(store_dq)(a, x->sum, queries, head);
}

static void FN(clear_head)(const pt_tensor_t *x, int64_t first, int64_t count,
                           int64_t head)
{
    for (int64_t r = first; r < first + count; r++)
        memset(HEAD(*x, r, head), 0, (size_t)x->shape[2] * sizeof(T));
}

static void FN(attention_bwd)(struct pt_stream *stream, const pt_op_attention_bwd_t *a)
{
    int64_t kv_heads = a->k.shape[1], group = a->q.shape[1] / kv_heads;
    int64_t length = a->q.shape[0] / a->shape.sequences;
    int64_t keys = a->k.shape[0] / a->shape.sequences;
    PT_PARALLEL
    for (int64_t task = 0; task < a->shape.sequences * kv_heads; task++) {
        FN(scratch_t) scratch = FN(scratch_of)(stream, a->q.shape[2], a->v.shape[2]);
        int64_t sequence = task / kv_heads, kv_head = task % kv_heads;
        if (!a->accumulate) {
            FN(clear_head)(&a->dk, sequence * keys, keys, kv_head);
            FN(clear_head)(&a->dv, sequence * keys, keys, kv_head);
        }
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
            for (int64_t first = 0; first < length; first += QB) {
                pt_queries_t queries = query_block(&a->shape, sequence * length + first,
                                                   pt_min(QB, length - first));
                FN(bwd_block)(a, &scratch, sequence, head, &queries);
            }
    }
}
