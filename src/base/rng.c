#include "penta/rng.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

/* More rounds than security of the halves needs: small domains mix slowly. */
enum { FEISTEL_ROUNDS = 12 };

uint64_t pt_name_id(const char *name)
{
    return XXH64(name, strlen(name), 0);
}

/* ---- normal numbers --------------------------------------------------------------------------
 * Logarithm, sine and cosine in plain multiplications and additions: libraries differ in their last
 * bits, and with them the models of two machines would. Loops over blocks, so that compilers use
 * vectors; no operation is contracted or reordered. */

enum { PAIRS = 64 }; /* of a block */

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Adding it rounds to an integer n and leaves n in the low bits. */
#define ROUND 0x1.8p52

/* sqrt(-2·log(u)), u in (0,1). With u = 2^k·m, m in [sqrt(1/2), sqrt(2)), s = (m - 1)/(m + 1):
 * log(m) = 2·artanh(s) = 2·(s + s³/3 + s⁵/5 + …), |s| < 0.172. */
static double radius_of(double u)
{
    /* Carries into the exponent from mantissas of sqrt(2) on. */
    uint64_t carried = (to_bits(u) + 0x00095f619980c433u) >> 52;
    double k = from_bits(carried | to_bits(ROUND)) - ROUND - 1023;
    double m = from_bits(to_bits(u) - (carried << 52) + (UINT64_C(1023) << 52));
    double s = (m - 1) / (m + 1), z = s * s, series = 0;
    static const double reciprocal[] = {1. / 23, 1. / 21, 1. / 19, 1. / 17,
                                        1. / 15, 1. / 13, 1. / 11, 1. / 9,
                                        1. / 7,  1. / 5,  1. / 3};
    for (size_t i = 0; i < sizeof reciprocal / sizeof reciprocal[0]; i++)
        series = (series + reciprocal[i]) * z;
    /* ln 2 in two parts, the first short enough for an exact product with k. */
    double log_u =
        k * 0x1.62e42feep-1 + (k * 0x1.a39ef35793c76p-33 + 2 * (s + s * series));
    return __builtin_sqrt(-2 * log_u);
}

/* (cos, sin)(2πu), u in (0,1): Taylor series of what is left of a multiple of π/2, at most π/4. */
static void circle(double u, double *cosine, double *sine)
{
    double shifted = 4 * u + ROUND, r = (u - 0.25 * (shifted - ROUND)) * (2 * M_PI);
    uint64_t quarter = to_bits(shifted);
    double z = r * r, c = 0, s = 0;
    static const double over[] = {1. / (15 * 16), 1. / (13 * 14), 1. / (11 * 12),
                                  1. / (9 * 10),  1. / (7 * 8),   1. / (5 * 6),
                                  1. / (3 * 4),   1. / (1 * 2)};
    static const double odd[] = {1. / (16 * 17), 1. / (14 * 15), 1. / (12 * 13),
                                 1. / (10 * 11), 1. / (8 * 9),   1. / (6 * 7),
                                 1. / (4 * 5),   1. / (2 * 3)};
    for (int i = 0; i < 8; i++) {
        c = -(c + 1) * z * over[i];
        s = -(s + 1) * z * odd[i];
    }
    c = 1 + c;
    s = r + r * s;
    bool swap = quarter & 1;
    uint64_t cos_sign = (quarter + 1) >> 1 << 63, sin_sign = quarter >> 1 << 63;
    *cosine = from_bits(to_bits(swap ? s : c) ^ cos_sign);
    *sine = from_bits(to_bits(swap ? c : s) ^ sin_sign);
}

/* Both numbers of `count` pairs from `pair` on. */
static void normal_block(uint64_t seed, uint64_t id, uint64_t pair, int count,
                         double out[2 * PAIRS])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    double radius[PAIRS], turn[PAIRS];

    for (int i = 0; i < count; i++) {
        uint64_t at = pair + (uint64_t)i;
        uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)id,
                               (uint32_t)(id >> 32)};
        uint32_t bits[4];
        pt_philox4x32(key, counter, bits);
        radius[i] = pt_uniform(bits[0], bits[1]);
        turn[i] = pt_uniform(bits[2], bits[3]);
    }
    for (int i = 0; i < count; i++) {
        double r = radius_of(radius[i]), cosine, sine;
        circle(turn[i], &cosine, &sine);
        out[2 * i] = r * cosine;
        out[2 * i + 1] = r * sine;
    }
}

void pt_normals(uint64_t seed, uint64_t id, int64_t first, int64_t count, double *out)
{
    double block[2 * PAIRS];

    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, skip = at & 1;
        int64_t left = skip + count - done;
        int64_t pairs = left < 2 * PAIRS ? (left + 1) / 2 : PAIRS;
        int64_t take =
            2 * pairs - skip < count - done ? 2 * pairs - skip : count - done;
        normal_block(seed, id, (uint64_t)at >> 1, (int)pairs, block);
        memcpy(out + done, block + skip, (size_t)take * sizeof *out);
        done += take;
    }
}

double pt_normal(uint64_t seed, uint64_t id, int64_t index)
{
    double x;
    pt_normals(seed, id, index, 1, &x);
    return x;
}

/* ---- permutations ---------------------------------------------------------------------------- */

/* Permutes the numbers of `bits` bits: in turns one half is XORed with a random function of
 * the other. Of an odd number of bits the upper half has the odd one. */
static uint64_t feistel(const uint32_t key[2], uint64_t round, uint64_t x, int bits)
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

    /* The network permutes the next power of two. Walking along a cycle until it is back
     * below n leaves a permutation of [0, n); less than two turns on average. */
    do
        x = feistel(key, round, x, bits);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
