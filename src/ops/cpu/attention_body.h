/* SPDX-License-Identifier: Apache-2.0 */
/* attention_body.h — see kernel.h; no include guard. The forward pass, and functions
 * for both passes.
 *
 * Scores are stored transposed, [keys, queries], with QB queries in a row. Queries thus
 * lie in vector lanes: no reduction runs across lanes, and the bits of a query do not
 * depend on other queries. A masked key gives exactly 0, so skipping a block and
 * masking all of it are the same. */
#include "src/ops/cpu/product_body.h"
#include "src/ops/cpu/reduce.h"

#ifndef QB
#define QB PT_QUERY_BLOCK
#endif

typedef struct FN(scratch) {
    A *q_t, *do_t;       /* [width, QB] */
    A *sum;              /* [QB, width] */
    A *p, *dp, *dropped; /* [keys, QB] */
    A *rooms[4]; /* [QB or keys, width]: rows of q, do, k, v, if not of type A */
    A *sums[2];  /* [keys of a sequence, width]: dk, dv, if not of type A */
} FN(scratch_t);

static FN(scratch_t) FN(scratch_of)(const struct pt_stream *stream, int64_t wide,
                                    bool narrow, int64_t keys)
{
    int64_t part = pt_attention_scratch_count(wide, narrow, keys);
    A *base = (A *)(void *)stream->workspace.memory + pt_thread() * part;
    A *blocks = base + 3 * wide * QB, *rooms, *sums;
    int64_t block = (int64_t)PT_KEY_BLOCK * QB;
    rooms = blocks + 3 * block;
    sums = rooms + (narrow ? 4 * wide * QB : 0);
    return (FN(scratch_t)){
        .q_t = base,
        .do_t = base + wide * QB,
        .sum = base + 2 * wide * QB,
        .p = blocks,
        .dp = blocks + block,
        .dropped = blocks + 2 * block,
        .rooms = {rooms, rooms + wide * QB, rooms + 2 * wide * QB,
                  rooms + 3 * wide * QB},
        .sums = {sums, sums + keys * wide},
    };
}

/* Offset of row `row`, head `head` in x [rows, heads, width]. */
#ifndef HEAD
#define HEAD(x, row, head) ((row) * (x).stride[0] + (head) * (x).stride[1])
#endif

/* Rows of a head in type A. */
typedef struct FN(rows) {
    const A *data;
    int64_t row; /* stride */
} FN(rows_t);

/* Returns the rows of x: in place if they are of type A, else widened into `room`. */
static FN(rows_t) FN(rows_of)(const pt_tensor_t *x, int64_t first, int64_t count,
                              int64_t head, A *room)
{
    int64_t at = HEAD(*x, first, head), row = x->stride[0], width = x->shape[2];
    if (x->dtype == A_TYPE)
        return (FN(rows_t)){(const A *)x->data + at, row};
    for (int64_t i = 0; i < count; i++)
        WIDEN(x->dtype, PT_ELEMENT(const void, *x, at + i * row), room + i * width,
              width);
    return (FN(rows_t)){room, width};
}

/* to[d, i] = factor·x[i, d]; lanes without a query are 0. */
static void FN(transpose)(A *to, FN(rows_t) x, const pt_queries_t *queries,
                          int64_t width, A factor)
{
    for (int64_t d = 0; d < width; d++) {
        for (int64_t i = 0; i < queries->count; i++)
            to[d * QB + i] = x.data[i * x.row + d] * factor;
        for (int64_t i = queries->count; i < queries->padded; i++)
            to[d * QB + i] = 0;
    }
}

/* out[j, i] = k[j]·q[i] for the keys of a block. */
static void FN(scores)(A *out, FN(rows_t) k, int64_t keys, const A *q_t, int64_t width,
                       const pt_queries_t *queries)
{
    FN(product)
    (&(FN(product_t)){.rows = keys,
                      .cols = queries->padded,
                      .depth = width,
                      .a = k.data,
                      .a_row = k.row,
                      .a_col = 1,
                      .b = q_t,
                      .b_row = QB,
                      .c = out,
                      .c_row = QB});
}

static void FN(mask)(A *s, const pt_attention_shape_t *shape,
                     const pt_queries_t *queries, const pt_keys_t *keys)
{
    const int32_t *position = (const int32_t *)shape->k_position.data + keys->first;
    const int32_t *document = shape->k_document.data;
    for (int64_t j = 0; j < keys->count; j++) {
        int32_t at = position[j], of = document ? document[keys->first + j] : 0;
        A *row = s + j * QB;
        for (int64_t i = 0; i < queries->count; i++) {
            bool visible = (at <= queries->position[i]) & (of == queries->document[i]);
            row[i] = visible ? row[i] : (A)-INFINITY;
        }
    }
}

/* to = from·1/(1-p) if kept, else 0. In place if to == from. */
static void FN(drop_scores)(A *to, const A *from, const pt_dropout_t *dropout,
                            const pt_queries_t *queries, const pt_keys_t *keys,
                            int64_t head)
{
    pt_draw_t draw[QB];
    uint32_t words[4][QB], threshold = pt_dropout_threshold(dropout->p);
    A scale = (A)(1 / (1 - dropout->p));
    for (int64_t i = 0; i < queries->count; i++)
        draw[i] = pt_draw_of_row(dropout, queries->first + i, head);
    for (int64_t j = 0; j < keys->count; j++) {
        int64_t place = keys->place + j;
        if (j == 0 || place % 4 == 0)
            for (int64_t i = 0; i < queries->count; i++) {
                uint32_t word[4];
                pt_dropout_draw(draw[i].key, (uint32_t)(place / 4), draw[i].place,
                                draw[i].head, draw[i].site_word, word);
                for (int w = 0; w < 4; w++)
                    words[w][i] = word[w];
            }
        const uint32_t *word = words[place % 4];
        PT_IVDEP
        for (int64_t i = 0; i < queries->count; i++) {
            A kept = from[j * QB + i] * scale;
            to[j * QB + i] = word[i] >= threshold ? kept : 0;
        }
    }
}

/* Running maximum and sum of each query, and the factor that rescales earlier
 * blocks. */
typedef struct FN(running) {
    A maximum[QB], sum[QB], shrink[QB];
} FN(running_t);

/* Turns scores into probabilities relative to the new maximum. */
static void FN(softmax_step)(A *s, int64_t keys, int64_t queries, FN(running_t) * run)
{
    A maximum[QB], base[QB], sum[QB];
    for (int64_t i = 0; i < queries; i++)
        maximum[i] = run->maximum[i];
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < queries; i++)
            maximum[i] = s[j * QB + i] > maximum[i] ? s[j * QB + i] : maximum[i];
    for (int64_t i = 0; i < queries; i++) {
        base[i] = maximum[i] == (A)-INFINITY ? 0 : maximum[i];
        run->shrink[i] = OF_A(pt_exp)(run->maximum[i] - base[i]);
        run->maximum[i] = maximum[i];
        sum[i] = 0;
    }
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < queries; i++) {
            A p = OF_A(pt_exp)(s[j * QB + i] - base[i]);
            s[j * QB + i] = p;
            sum[i] += p;
        }
    for (int64_t i = 0; i < queries; i++)
        run->sum[i] = run->sum[i] * run->shrink[i] + sum[i];
}

/* sum[i] = shrink[i]·sum[i] + p[:, i]·v. */
static void FN(add_values)(const FN(scratch_t) * x, const FN(running_t) * run,
                           FN(rows_t) v, int64_t width, const pt_queries_t *queries,
                           const pt_keys_t *keys)
{
    for (int64_t i = 0; i < queries->count; i++)
        for (int64_t d = 0; d < width; d++)
            x->sum[i * width + d] *= run->shrink[i];
    FN(product)
    (&(FN(product_t)){.rows = queries->count,
                      .cols = width,
                      .depth = keys->count,
                      .a = x->p,
                      .a_row = 1,
                      .a_col = QB,
                      .b = v.data,
                      .b_row = v.row,
                      .c = x->sum,
                      .c_row = width,
                      .accumulate = true});
}

static void FN(store_output)(const pt_op_attention_fwd_t *a, const FN(scratch_t) * x,
                             const FN(running_t) * run, const pt_queries_t *queries,
                             int64_t head)
{
    int64_t width = a->v.shape[2];
    for (int64_t i = 0; i < queries->count; i++) {
        int64_t row = queries->first + i;
        A sum = run->sum[i], inverse = sum > 0 || sum != sum ? 1 / sum : 0;
        A *o = x->sum + i * width;
        for (int64_t d = 0; d < width; d++)
            o[d] = o[d] * inverse;
        PUT(&a->o, HEAD(a->o, row, head), o, width, false);
        ((A *)a->lse.data)[row * a->q.shape[1] + head] =
            sum > 0 || sum != sum ? run->maximum[i] + OF_A(pt_log)(sum) : (A)-INFINITY;
    }
}

static void FN(fwd_block)(const pt_op_attention_fwd_t *a, const FN(scratch_t) * x,
                          int64_t sequence, int64_t head, const pt_queries_t *queries)
{
    int64_t length = a->k.shape[0] / a->shape.sequences;
    int64_t kv_head = head / (a->q.shape[1] / a->k.shape[1]);
    FN(running_t) run;
    pt_keys_t keys;

    for (int i = 0; i < QB; i++) {
        run.maximum[i] = (A)-INFINITY;
        run.sum[i] = 0;
    }
    memset(x->sum, 0, (size_t)(queries->count * a->v.shape[2]) * sizeof(A));
    FN(transpose)
    (x->q_t, FN(rows_of)(&a->q, queries->first, queries->count, head, x->rooms[0]),
     queries, a->q.shape[2], (A)a->shape.scale);
    for (int64_t from = 0; from < length; from += keys.count) {
        keys = attention_key_block(&a->shape, sequence, length, from);
        pt_seen_t part = attention_seen(&a->shape, queries, &keys);
        if (part == PT_SEEN_NONE)
            continue;
        FN(scores)
        (x->p, FN(rows_of)(&a->k, keys.first, keys.count, kv_head, x->rooms[2]),
         keys.count, x->q_t, a->q.shape[2], queries);
        if (part == PT_SEEN_SOME)
            FN(mask)(x->p, &a->shape, queries, &keys);
        FN(softmax_step)(x->p, keys.count, queries->padded, &run);
        if (a->dropout.p > 0)
            FN(drop_scores)
        (x->p, x->p, &a->dropout, queries, &keys, a->shape.first_head + head);
        FN(add_values)
        (x, &run, FN(rows_of)(&a->v, keys.first, keys.count, kv_head, x->rooms[3]),
         a->v.shape[2], queries, &keys);
    }
    FN(store_output)(a, x, &run, queries, head);
}

static void FN(attention_fwd)(struct pt_stream *stream, const pt_op_attention_fwd_t *a)
{
    int64_t heads = a->q.shape[1], length = a->q.shape[0] / a->shape.sequences;
    int64_t blocks = (length + QB - 1) / QB,
            tasks = a->shape.sequences * heads * blocks;
    int64_t wide = pt_max(a->q.shape[2], a->v.shape[2]);
    PT_PARALLEL
    for (int64_t task = 0; task < tasks; task++) {
        FN(scratch_t)
        scratch = FN(scratch_of)(stream, wide, a->q.dtype != A_TYPE, 0);
        int64_t block = task % blocks, head = task / blocks % heads;
        int64_t sequence = task / blocks / heads,
                count = pt_min(QB, length - block * QB);
        pt_queries_t queries =
            attention_query_block(&a->shape, sequence * length + block * QB, count);
        FN(fwd_block)(a, &scratch, sequence, head, &queries);
    }
}

#include "src/ops/cpu/attention_bwd_body.h"
