/* attention_body.h — see kernel.h; no include guard. Forward, and what both directions use.
 *
 * Scores are kept transposed, [keys, queries] with QB queries a row: queries lie in vector
 * lanes, so no reduction runs across lanes and a query's bits do not depend on the others. A
 * masked key gives exactly 0, so a block that is skipped and one that is masked are the same. */
#include "src/ops/cpu/product_body.h"
#include "src/ops/cpu/reduce.h"

#ifndef QB
#define QB PT_QUERY_BLOCK
#endif

typedef struct FN(scratch) {
    A *q_t, *do_t;       /* [width, QB] */
    A *sum;              /* [QB, width] */
    A *p, *dp, *dropped; /* [keys, QB] */
} FN(scratch_t);

static FN(scratch_t)
    FN(scratch_of)(const struct pt_stream *stream, int64_t q_width, int64_t v_width)
{
    int64_t wide = pt_max(q_width, v_width), part = pt_attention_scratch_count(wide);
    A *base = (A *)(void *)stream->workspace.memory + pt_thread() * part;
    A *blocks = base + 3 * wide * QB;
    int64_t block = (int64_t)PT_KEY_BLOCK * QB;
    return (FN(scratch_t)){.q_t = base,
                           .do_t = base + wide * QB,
                           .sum = base + 2 * wide * QB,
                           .p = blocks,
                           .dp = blocks + block,
                           .dropped = blocks + 2 * block};
}

/* Pointer to row `row`, head `head` of x [rows, heads, width]. */
#ifndef HEAD
#define HEAD(x, row, head)                                                             \
    ((T *)(x).data + (row) * (x).stride[0] + (head) * (x).stride[1])
#endif

/* to[d, i] = factor·x[i, d]; lanes without a query are 0. */
static void FN(transpose)(A *to, const T *x, int64_t row, const pt_queries_t *queries,
                          int64_t width, A factor)
{
    for (int64_t d = 0; d < width; d++) {
        for (int64_t i = 0; i < queries->count; i++)
            to[d * QB + i] = LOAD(x[i * row + d]) * factor;
        for (int64_t i = queries->count; i < queries->padded; i++)
            to[d * QB + i] = 0;
    }
}

/* out[j, i] = k[j]·q[i] for the keys of a block. */
static void FN(scores)(A *out, const pt_tensor_t *k, const pt_keys_t *keys,
                       int64_t head, const A *q_t, const pt_queries_t *queries)
{
    FN(product)
    (&(FN(product_t)){.rows = keys->count,
                      .cols = queries->padded,
                      .depth = k->shape[2],
                      .a = HEAD(*k, keys->first, head),
                      .a_row = k->stride[0],
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

/* to = from (in place: the same) where kept, scaled, else 0. */
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

/* Running maximum, sum and the factor by which earlier blocks shrink. */
typedef struct FN(running) {
    A maximum[QB], sum[QB], shrink[QB];
} FN(running_t);

/* Scores to probabilities relative to the new maximum. */
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
        run->shrink[i] = FN(pt_exp)(run->maximum[i] - base[i]);
        run->maximum[i] = maximum[i];
        sum[i] = 0;
    }
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < queries; i++) {
            A p = FN(pt_exp)(s[j * QB + i] - base[i]);
            s[j * QB + i] = p;
            sum[i] += p;
        }
    for (int64_t i = 0; i < queries; i++)
        run->sum[i] = run->sum[i] * run->shrink[i] + sum[i];
}

/* sum[i] = shrink[i]·sum[i] + p[:, i]·v. */
static void FN(add_values)(const FN(scratch_t) * x, const FN(running_t) * run,
                           const pt_tensor_t *v, int64_t head,
                           const pt_queries_t *queries, const pt_keys_t *keys)
{
    int64_t width = v->shape[2];
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
                      .b = HEAD(*v, keys->first, head),
                      .b_row = v->stride[0],
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
        T *o = HEAD(a->o, row, head);
        for (int64_t d = 0; d < width; d++)
            o[d] = STORE(x->sum[i * width + d] * inverse);
        ((A *)a->lse.data)[row * a->q.shape[1] + head] =
            sum > 0 || sum != sum ? run->maximum[i] + FN(pt_log)(sum) : (A)-INFINITY;
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
    (x->q_t, HEAD(a->q, queries->first, head), a->q.stride[0], queries, a->q.shape[2],
     (A)a->shape.scale);
    for (int64_t from = 0; from < length; from += keys.count) {
        keys = key_block(&a->shape, sequence, length, from);
        pt_seen_t part = seen(&a->shape, queries, &keys);
        if (part == PT_SEEN_NONE)
            continue;
        FN(scores)(x->p, &a->k, &keys, kv_head, x->q_t, queries);
        if (part == PT_SEEN_SOME)
            FN(mask)(x->p, &a->shape, queries, &keys);
        FN(softmax_step)(x->p, keys.count, queries->padded, &run);
        if (a->dropout.p > 0)
            FN(drop_scores)
        (x->p, x->p, &a->dropout, queries, &keys, a->shape.first_head + head);
        FN(add_values)(x, &run, &a->v, kv_head, queries, &keys);
    }
    FN(store_output)(a, x, &run, queries, head);
}

static void FN(attention_fwd)(struct pt_stream *stream, const pt_op_attention_fwd_t *a)
{
    int64_t heads = a->q.shape[1], length = a->q.shape[0] / a->shape.sequences;
    int64_t blocks = (length + QB - 1) / QB,
            tasks = a->shape.sequences * heads * blocks;
    PT_PARALLEL
    for (int64_t task = 0; task < tasks; task++) {
        FN(scratch_t) scratch = FN(scratch_of)(stream, a->q.shape[2], a->v.shape[2]);
        int64_t block = task % blocks, head = task / blocks % heads;
        int64_t sequence = task / blocks / heads,
                count = pt_min(QB, length - block * QB);
        pt_queries_t queries =
            query_block(&a->shape, sequence * length + block * QB, count);
        FN(fwd_block)(a, &scratch, sequence, head, &queries);
    }
}

#include "src/ops/cpu/attention_bwd_body.h"
