/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a vector over ranks, and the pieces they go in, against a walk over all
 * blocks. */
#include "regression/tap.h"

#include "src/comm/private.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks follow each other, begin at multiples of the grain, cover all, and differ by a
 * grain at most. */
static bool is_cut(int64_t count, int64_t grain, int size)
{
    int64_t at = 0, most = 0, fewest = count;

    for (int r = 0; r < size; r++) {
        pt_rank_block_t block = pt_rank_block(count, grain, r, size);
        if (block.first != at || block.count < 0 || (block.count > 0 && at % grain != 0))
            return false;
        at += block.count;
        most = block.count > most ? block.count : most;
        fewest = least(fewest, block.count);
    }
    return at == count && most == pt_rank_block_most(count, grain, size) &&
           most - fewest < 2 * grain;
}

static bool are_pieces(int64_t count, int64_t grain, int size, int64_t piece)
{
    int64_t pieces = 0;

    for (int r = 0; r < size; r++)
        pieces += (pt_rank_block(count, grain, r, size).count + piece - 1) / piece;
    return pieces == pt_rank_block_pieces(count, grain, size, piece);
}

int main(void)
{
    const int64_t grains[] = {1, 7, 1024}, pieces[] = {1, 5, 1024, 4000};
    bool cut = true, counted = true;

    for (int size = 1; size <= 40; size++)
        for (int64_t count = 0; count < 9000; count += 1 + count / 7)
            for (int g = 0; g < 3; g++) {
                cut = cut && is_cut(count, grains[g], size);
                for (int p = 0; p < 4; p++)
                    counted = counted && are_pieces(count, grains[g], size, pieces[p]);
            }
    tap_ok(cut, "blocks cover a vector evenly");
    tap_ok(counted, "pieces of all blocks");
    /* 2^50 elements over 16 million ranks: nothing overflows. */
    pt_rank_block_t last =
        pt_rank_block((INT64_C(1) << 50) + 5, 1024, (1 << 24) - 1, 1 << 24);
    tap_ok(last.first == (INT64_C(1) << 50) - (INT64_C(1) << 26) + 1024 - 1024 &&
               last.first + last.count == (INT64_C(1) << 50) + 5,
           "large counts: the last block begins at %lld", (long long)last.first);
    tap_ok(pt_ring_peer_bytes(16384) == 65536 && pt_ring_peer_bytes(1) >= 65536,
           "a piece carries at least 64 KiB a peer");
    return tap_done();
}
