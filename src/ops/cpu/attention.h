/* attention.h — block sizes and scratch of attention (private to src/ops/cpu). */
#ifndef PT_CPU_ATTENTION_H
#define PT_CPU_ATTENTION_H

#include "src/ops/cpu/stream.h"

/* Keys are cut at multiples of PT_KEY_BLOCK in the numbering of kv_offset. Query blocks are
 * only a matter of speed: bits of a query do not depend on its neighbours. */
enum { PT_KEY_BLOCK = 64, PT_QUERY_BLOCK = 64 };

/* Of one thread, for the widest head in fp64: three blocks [width, queries] and three
 * [keys, queries]. */
static inline int64_t pt_attention_scratch_bytes(void)
{
    int64_t blocks = 3 * (int64_t)PT_CPU_MAX_HEAD * PT_QUERY_BLOCK;
    blocks += 3 * (int64_t)PT_KEY_BLOCK * PT_QUERY_BLOCK;
    return blocks * (int64_t)sizeof(double);
}

#endif
