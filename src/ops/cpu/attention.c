/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in blocks of queries and keys. */
#include "src/ops/attention.h"
#include "src/ops/cpu/draw.h"
#include "src/ops/cpu/kernel.h"
#include "src/ops/cpu/simd.h"

/* How much of a block of keys the queries of a block see. */
typedef enum pt_seen { PT_SEEN_NONE, PT_SEEN_SOME, PT_SEEN_ALL } pt_seen_t;

/* Positions and documents of the queries in a block, and the range of each. */
typedef struct pt_queries {
    int64_t first, count; /* rows of q */
    int64_t padded;       /* count rounded up to whole vectors */
    int32_t position[PT_QUERY_BLOCK], document[PT_QUERY_BLOCK];
    int32_t low, high, low_document, high_document;
} pt_queries_t;

/* Keys [first, first + count), as rows of k. `place` is the index of the first in the
 * whole sequence. */
typedef struct pt_keys {
    int64_t first, count, place;
} pt_keys_t;

static void attention_range(const int32_t *x, int64_t n, int32_t *low, int32_t *high)
{
    int32_t a = x[0], b = x[0];
    for (int64_t i = 1; i < n; i++) {
        a = x[i] < a ? x[i] : a;
        b = x[i] > b ? x[i] : b;
    }
    *low = a;
    *high = b;
}

static pt_queries_t attention_query_block(const pt_attention_shape_t *shape,
                                          int64_t first, int64_t count)
{
    enum { WIDTH = 2 * PT_VECTOR_BYTES / sizeof(float) };
    pt_queries_t queries = {.first = first, .count = count};
    const int32_t *position = (const int32_t *)shape->q_position.data + first;
    const int32_t *document = shape->q_document.data;
    queries.padded = (count + WIDTH - 1) / WIDTH * WIDTH;
    for (int64_t i = 0; i < count; i++) {
        queries.position[i] = position[i];
        queries.document[i] = document ? document[first + i] : 0;
    }
    attention_range(queries.position, count, &queries.low, &queries.high);
    attention_range(queries.document, count, &queries.low_document,
                    &queries.high_document);
    return queries;
}

/* Returns the block of keys of sequence `sequence` that starts at key `from` of the
 * sequence. */
static pt_keys_t attention_key_block(const pt_attention_shape_t *shape,
                                     int64_t sequence, int64_t length, int64_t from)
{
    int64_t place = shape->kv_offset + from;
    int64_t count = pt_min(PT_KEY_BLOCK - place % PT_KEY_BLOCK, length - from);
    return (pt_keys_t){
        .first = sequence * length + from, .count = count, .place = place};
}

static pt_seen_t attention_seen(const pt_attention_shape_t *shape,
                                const pt_queries_t *queries, const pt_keys_t *keys)
{
    int32_t low, high, low_document = 0, high_document = 0;
    attention_range((const int32_t *)shape->k_position.data + keys->first, keys->count,
                    &low, &high);
    if (shape->k_document.data)
        attention_range((const int32_t *)shape->k_document.data + keys->first,
                        keys->count, &low_document, &high_document);
    if (low > queries->high || low_document > queries->high_document ||
        high_document < queries->low_document)
        return PT_SEEN_NONE;
    bool one_document = low_document == high_document &&
                        queries->low_document == queries->high_document;
    return high <= queries->low && one_document ? PT_SEEN_ALL : PT_SEEN_SOME;
}

#define PT_BODY "src/ops/cpu/attention_body.h"
#include "src/ops/cpu/each_wide.h"

PT_DISPATCH_WIDE(attention_fwd, q)
PT_DISPATCH_WIDE(attention_bwd, q)
