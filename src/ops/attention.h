/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h — block sizes and scratch of attention on the CPU (private to
 * src/ops). */
#ifndef PT_OPS_ATTENTION_H
#define PT_OPS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks of keys start at multiples of PT_KEY_BLOCK, counted as kv_offset is. The size
 * of query blocks affects speed only: the bits of a query do not depend on other
 * queries. */
enum { PT_KEY_BLOCK = 64, PT_QUERY_BLOCK = 64 };

/* Scratch of one thread, in elements of type A, for heads of up to `wide` columns:
 * three blocks [wide, queries] and three [keys, queries]. If the operands are narrow,
 * four blocks [64, wide] hold them widened, and two blocks [keys, wide] hold the sums
 * of narrow dk and dv. The result is a whole number of cache lines. */
static inline int64_t pt_attention_scratch_count(int64_t wide, bool narrow, int64_t keys)
{
    int64_t blocks = 3 * PT_QUERY_BLOCK * (wide + PT_KEY_BLOCK);
    int64_t widened = narrow ? 4 * PT_QUERY_BLOCK * wide : 0;
    return blocks + widened + (2 * keys * wide + 15) / 16 * 16;
}

#endif
