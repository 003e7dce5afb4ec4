/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/rng.h"

#include <string.h>
#include <xxhash.h>

/* Small domains mix slowly, so this is more than the quality of the halves needs. */
enum { FEISTEL_ROUNDS = 12 };

uint64_t pt_name_id(const char *name)
{
    return XXH64(name, strlen(name), 0);
}

/* Permutes the numbers of `bits` bits. Each round XORs one half with a random function
 * of the other, in turns. If `bits` is odd, the upper half has one bit more. */
static uint64_t rng_feistel(const uint32_t key[2], uint64_t round, uint64_t x, int bits)
{
    int low_bits = bits / 2;
    uint32_t low = (uint32_t)(x & ((UINT64_C(1) << low_bits) - 1));
    uint32_t high = (uint32_t)(x >> low_bits);
    uint32_t low_mask = (uint32_t)((UINT64_C(1) << low_bits) - 1);
    uint32_t high_mask = (uint32_t)((UINT64_C(1) << (bits - low_bits)) - 1);

    for (uint32_t turn = 0; turn < FEISTEL_ROUNDS; turn += 2) {
        uint32_t counter[4] = {low, turn, (uint32_t)round, (uint32_t)(round >> 32)};
        uint32_t out[4];
        pt_philox4x32(key, counter, out);
        high ^= out[0] & high_mask;
        counter[0] = high;
        counter[1] = turn + 1;
        pt_philox4x32(key, counter, out);
        low ^= out[0] & low_mask;
    }
    return (uint64_t)high << low_bits | low;
}

int64_t pt_permute(uint64_t seed, uint64_t round, int64_t index, int64_t n)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint64_t x = (uint64_t)index;
    int bits = n > 1 ? 64 - __builtin_clzll((uint64_t)n - 1) : 0;

    /* The network permutes the numbers below the next power of two. Repeating it until
     * the result is below n gives a permutation of [0, n), in fewer than two rounds on
     * average. */
    do
        x = rng_feistel(key, round, x, bits);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
