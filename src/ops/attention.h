/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h — block sizes and scratch of attention on the CPU (private to src/ops). */
#ifndef PT_OPS_ATTENTION_H
#define PT_OPS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Keys are cut at multiples of PT_KEY_BLOCK in the numbering of kv_offset. Query blocks are
 * only a matter of speed: bits of a query do not depend on its neighbours. */
enum { PT_KEY_BLOCK = 64, PT_QUERY_BLOCK = 64 };

/* Elements (of type A) one thread uses for heads of up to `wide` columns: three blocks
 * [wide, queries] and three [keys, queries]. Narrow operands are widened into four more [64, wide],
 * and narrow dk, dv summed in two [keys, wide]. Whole cache lines. */
static inline int64_t pt_attention_scratch_count(int64_t wide, bool narrow, int64_t keys)
{
    int64_t blocks = 3 * PT_QUERY_BLOCK * (wide + PT_KEY_BLOCK);
    int64_t widened = narrow ? 4 * PT_QUERY_BLOCK * wide : 0;
    return blocks + widened + (2 * keys * wide + 15) / 16 * 16;
}

#endif
