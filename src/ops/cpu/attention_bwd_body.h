/* SPDX-License-Identifier: Apache-2.0 */
/* attention_bwd_body.h — the backward pass of attention_body.h, which includes this
 * file.
 *
 * Probabilities are recomputed from the log-sum-exp. With
 *   dP = dO·Vᵀ,  delta = rowsum(dO∘O)
 * the gradients are
 *   dV = Pᵀ·dO,  dS = P∘(dP - delta),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q
 * (Dao et al. 2022, alg. 4). One task computes one KV head, so only one thread
 * writes an element of dK or dV, and sums it over query heads and queries in
 * ascending order. */

/* Memory in which dk or dv of a head is summed. Row 0 is the first key of the
 * sequence. */
typedef struct FN(target) {
    A *data;
    int64_t row; /* stride */
} FN(target_t);

/* A KV head of one sequence. */
typedef struct FN(head_task) {
    int64_t sequence, head;
    FN(target_t) dk, dv;
} FN(head_task_t);

/* Log-sum-exp and delta of each query in a block. */
typedef struct FN(known) {
    A lse[QB], delta[QB];
} FN(known_t);

static FN(known_t) FN(known_of)(const pt_op_attention_bwd_t *a, int64_t head,
                                const pt_queries_t *queries, FN(rows_t) dout, A *room)
{
    FN(known_t) known = {{0}, {0}};
    for (int64_t i = 0; i < queries->count; i++) {
        int64_t row = queries->first + i;
        const A *o = FN(rows_of)(&a->o, row, 1, head, room).data;
        const A *slope = dout.data + i * dout.row;
        A lse = ((const A *)a->lse.data)[row * a->q.shape[1] + head];
        /* For a query that sees no key: exp(s - inf) = 0. */
        known.lse[i] = lse == (A)-INFINITY ? (A)INFINITY : lse;
        PT_ROW_SUM(known.delta[i], a->v.shape[2], o[c] * slope[c]);
    }
    return known;
}

/* Turns p from scores into probabilities and dp into dS·scale; stores in dropped the
 * probabilities after dropout, which multiplied v. */
static void FN(score_gradients)(const pt_op_attention_bwd_t *a, const FN(scratch_t) * x,
                                const FN(known_t) * known, const pt_queries_t *queries,
                                const pt_keys_t *keys, int64_t head)
{
    A scale = (A)a->shape.scale;
    for (int64_t j = 0; j < keys->count; j++)
        for (int64_t i = 0; i < queries->padded; i++)
            x->p[j * QB + i] = OF_A(pt_exp)(x->p[j * QB + i] - known->lse[i]);
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

/* to[j] += s[j, :]·rows for the keys of a block: dV from p and dO, dK from dS and Q. */
static void FN(add_to_keys)(FN(target_t) to, int64_t keys, int64_t width, const A *s,
                            FN(rows_t) rows, const pt_queries_t *queries)
{
    FN(product)
    (&(FN(product_t)){.rows = keys,
                      .cols = width,
                      .depth = queries->count,
                      .a = s,
                      .a_row = QB,
                      .a_col = 1,
                      .b = rows.data,
                      .b_row = rows.row,
                      .c = to.data,
                      .c_row = to.row,
                      .accumulate = true});
}

static void FN(add_to_queries)(const FN(scratch_t) * x, const pt_queries_t *queries,
                               int64_t keys, FN(rows_t) k, int64_t width)
{
    FN(product)
    (&(FN(product_t)){.rows = queries->count,
                      .cols = width,
                      .depth = keys,
                      .a = x->dp,
                      .a_row = 1,
                      .a_col = QB,
                      .b = k.data,
                      .b_row = k.row,
                      .c = x->sum,
                      .c_row = width,
                      .accumulate = true});
}

/* Returns `to` from row `from` of the sequence on. */
static FN(target_t) FN(target_at)(FN(target_t) to, int64_t from)
{
    return (FN(target_t)){to.data + from * to.row, to.row};
}

static void FN(bwd_block)(const pt_op_attention_bwd_t *a, const FN(scratch_t) * x,
                          const FN(head_task_t) * task, const pt_queries_t *queries)
{
    int64_t length = a->k.shape[0] / a->shape.sequences, first = queries->first;
    int64_t count = queries->count, q_width = a->q.shape[2], v_width = a->v.shape[2];
    int64_t head = task->head, kv_head = head / (a->q.shape[1] / a->k.shape[1]);
    FN(rows_t) q = FN(rows_of)(&a->q, first, count, head, x->rooms[0]);
    FN(rows_t) dout = FN(rows_of)(&a->do_, first, count, head, x->rooms[1]);
    FN(known_t) known = FN(known_of)(a, head, queries, dout, x->rooms[2]);
    const A *dropped = a->dropout.p > 0 ? x->dropped : x->p;
    pt_keys_t keys;

    memset(x->sum, 0, (size_t)(count * q_width) * sizeof(A));
    FN(transpose)(x->q_t, q, queries, q_width, (A)a->shape.scale);
    FN(transpose)(x->do_t, dout, queries, v_width, 1);
    for (int64_t from = 0; from < length; from += keys.count) {
        keys = attention_key_block(&a->shape, task->sequence, length, from);
        pt_seen_t part = attention_seen(&a->shape, queries, &keys);
        if (part == PT_SEEN_NONE)
            continue;
        FN(rows_t) k = FN(rows_of)(&a->k, keys.first, keys.count, kv_head, x->rooms[2]);
        FN(rows_t) v = FN(rows_of)(&a->v, keys.first, keys.count, kv_head, x->rooms[3]);
        FN(scores)(x->p, k, keys.count, x->q_t, q_width, queries);
        if (part == PT_SEEN_SOME)
            FN(mask)(x->p, &a->shape, queries, &keys);
        FN(scores)(x->dp, v, keys.count, x->do_t, v_width, queries);
        FN(score_gradients)(a, x, &known, queries, &keys, head);
        FN(add_to_keys)
        (FN(target_at)(task->dv, from), keys.count, v_width, dropped, dout, queries);
        FN(add_to_keys)
        (FN(target_at)(task->dk, from), keys.count, q_width, x->dp, q, queries);
        FN(add_to_queries)(x, queries, keys.count, k, q_width);
    }
    for (int64_t i = 0; i < count; i++)
        PUT(&a->dq, HEAD(a->dq, first + i, head), x->sum + i * q_width, q_width,
            a->accumulate);
}

/* Sums in place if x is of type A, else in `sums`. Clears the memory unless the
 * gradients accumulate. */
static FN(target_t) FN(target_of)(const pt_tensor_t *x, int64_t first, int64_t keys,
                                  int64_t head, A *sums, bool accumulate)
{
    bool in_place = x->dtype == A_TYPE;
    FN(target_t) to = {sums, x->shape[2]};
    if (in_place)
        to = (FN(target_t)){(A *)x->data + HEAD(*x, first, head), x->stride[0]};
    for (int64_t r = 0; r < keys && !(in_place && accumulate); r++)
        memset(to.data + r * to.row, 0, (size_t)x->shape[2] * sizeof(A));
    return to;
}

static void FN(store_target)(const pt_tensor_t *x, int64_t first, int64_t keys,
                             int64_t head, FN(target_t) from, bool accumulate)
{
    for (int64_t r = 0; r < keys && x->dtype != A_TYPE; r++)
        PUT(x, HEAD(*x, first + r, head), from.data + r * from.row, x->shape[2],
            accumulate);
}

static void FN(bwd_task)(const pt_op_attention_bwd_t *a, const FN(scratch_t) * x,
                         int64_t sequence, int64_t kv_head)
{
    int64_t group = a->q.shape[1] / a->k.shape[1];
    int64_t length = a->q.shape[0] / a->shape.sequences;
    int64_t keys = a->k.shape[0] / a->shape.sequences, first = sequence * keys;
    FN(head_task_t)
    task = {
        .sequence = sequence,
        .dk = FN(target_of)(&a->dk, first, keys, kv_head, x->sums[0], a->accumulate),
        .dv = FN(target_of)(&a->dv, first, keys, kv_head, x->sums[1], a->accumulate)};
    for (task.head = kv_head * group; task.head < (kv_head + 1) * group; task.head++)
        for (int64_t from = 0; from < length; from += QB) {
            pt_queries_t queries = attention_query_block(
                &a->shape, sequence * length + from, pt_min(QB, length - from));
            FN(bwd_block)(a, x, &task, &queries);
        }
    FN(store_target)(&a->dk, first, keys, kv_head, task.dk, a->accumulate);
    FN(store_target)(&a->dv, first, keys, kv_head, task.dv, a->accumulate);
}

static void FN(attention_bwd)(struct pt_stream *stream, const pt_op_attention_bwd_t *a)
{
    int64_t kv_heads = a->k.shape[1], wide = pt_max(a->q.shape[2], a->v.shape[2]);
    int64_t keys = a->dk.dtype != A_TYPE ? a->k.shape[0] / a->shape.sequences : 0;
    PT_PARALLEL
    for (int64_t task = 0; task < a->shape.sequences * kv_heads; task++) {
        FN(scratch_t)
        scratch = FN(scratch_of)(stream, wide, a->q.dtype != A_TYPE, keys);
        FN(bwd_task)(a, &scratch, task / kv_heads, task % kv_heads);
    }
}
