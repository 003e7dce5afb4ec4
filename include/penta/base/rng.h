/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h — stateless random numbers (layer: base; inline, for kernels).
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers:
 * As Easy as 1, 2, 3", SC 2011). A number is a function of its purpose only, so it does
 * not depend on which rank computes it, when, or in what order. Streams: initialisation
 * (seed, tensor id, global element), dropout (seed, step, sample, layer, site,
 * coordinate), shuffling, and sampling. */
#ifndef PENTA_RNG_H
#define PENTA_RNG_H

#include <stdint.h>

static inline void pt_philox4x32(const uint32_t key[2], const uint32_t counter[4],
                                 uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0,
                 n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* 64-bit finaliser with full avalanche (Stafford's mix 13, as in SplitMix64). */
static inline uint64_t pt_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform on (0,1): an odd multiple of 2^-53 from 52 bits, so never 0 or 1. */
static inline double pt_uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

/* Stable id of a name: XXH64 of the text, seed 0. */
uint64_t pt_name_id(const char *name);

/* Returns element `index` of a permutation of [0, n), which depends on `seed` and
 * `round` (the epoch). A Feistel network over Philox with cycle walking: sample i of a
 * shuffled epoch costs O(1) time and no memory. n >= 1. */
int64_t pt_permute(uint64_t seed, uint64_t round, int64_t index, int64_t n);

#endif
