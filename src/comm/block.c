/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts vectors into blocks, one a rank: pure arithmetic, constant time. */
#include "src/comm/private.h"

/* The first `multiples` · rank / size, rounded down. */
static int64_t block_start(int64_t multiples, int64_t rank, int64_t size)
{
    return multiples / size * rank + multiples % size * rank / size;
}

static int64_t block_multiples(int64_t count, int64_t granularity)
{
    return (count + granularity - 1) / granularity;
}

pt_rank_block_t pt_rank_block(int64_t count, int64_t granularity, int rank, int size)
{
    int64_t multiples = block_multiples(count, granularity);
    int64_t first = block_start(multiples, rank, size) * granularity;
    int64_t end = block_start(multiples, rank + 1, size) * granularity;

    return (pt_rank_block_t){first, (end < count ? end : count) - first};
}

/* Blocks have one of two lengths; the last is one of the longer, but may lack a part of
 * a multiple of the granularity. */
int64_t pt_rank_block_most(int64_t count, int64_t granularity, int size)
{
    int64_t multiples = block_multiples(count, granularity);
    int64_t others = (multiples / size + (multiples % size > 1)) * granularity;
    pt_rank_block_t last = pt_rank_block(count, granularity, size - 1, size);

    if (others < last.count)
        others = last.count;
    return others < count ? others : count;
}

static int64_t block_divide_up(int64_t count, int64_t piece)
{
    return (count + piece - 1) / piece;
}

int64_t pt_rank_block_pieces(int64_t count, int64_t granularity, int size, int64_t piece)
{
    int64_t multiples = block_multiples(count, granularity);
    int64_t less = multiples / size, longer = multiples % size;
    pt_rank_block_t last = pt_rank_block(count, granularity, size - 1, size);

    return longer * block_divide_up((less + 1) * granularity, piece) +
           (size - longer) * block_divide_up(less * granularity, piece) -
           block_divide_up((less + (longer > 0)) * granularity, piece) +
           block_divide_up(last.count, piece);
}
