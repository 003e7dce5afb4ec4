/* SPDX-License-Identifier: Apache-2.0 */
/* normal.h — stateless standard normal numbers (layer: base; inline, for kernels).
 *
 * A number is a function of `seed`, tensor `id` and element `index`. The transformation
 * of Box and Muller (1958) turns one Philox block into the numbers of two neighbouring
 * elements. Logarithm, sine and cosine consist of plain multiplications and additions,
 * because libraries differ in the last bits, which would make models differ between
 * machines. The code loops over blocks, so that compilers vectorise it. Nothing may be
 * contracted or reordered. */
#ifndef PENTA_NORMAL_H
#define PENTA_NORMAL_H

#include "penta/base/bits.h"
#include "penta/base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { PT_NORMAL_PAIRS = 64 }; /* pairs in a block */

/* Adding this rounds to an integer n and leaves n in the low bits. */
#define PT_NORMAL_ROUND 0x1.8p52

/* sqrt(-2·log(u)), u in (0,1). With u = 2^k·m, m in [sqrt(1/2), sqrt(2)), and s = (m -
 * 1)/(m + 1): log(m) = 2·artanh(s) = 2·(s + s³/3 + s⁵/5 + …), |s| < 0.172. */
static inline double pt_normal_radius(double u)
{
    /* The sum carries into the exponent if the mantissa is sqrt(2) or more. */
    uint64_t carried = (pt_bits_of_f64(u) + 0x00095f619980c433u) >> 52;
    double k = pt_from_bits_f64(carried | pt_bits_of_f64(PT_NORMAL_ROUND)) -
               PT_NORMAL_ROUND - 1023;
    double m =
        pt_from_bits_f64(pt_bits_of_f64(u) - (carried << 52) + (UINT64_C(1023) << 52));
    double s = (m - 1) / (m + 1), z = s * s, series = 0;
    static const double reciprocal[] = {1. / 23, 1. / 21, 1. / 19, 1. / 17,
                                        1. / 15, 1. / 13, 1. / 11, 1. / 9,
                                        1. / 7,  1. / 5,  1. / 3};
    for (size_t i = 0; i < sizeof reciprocal / sizeof reciprocal[0]; i++)
        series = (series + reciprocal[i]) * z;
    /* ln 2 has two parts; the first is so short that its product with k is exact. */
    double log_u =
        k * 0x1.62e42feep-1 + (k * 0x1.a39ef35793c76p-33 + 2 * (s + s * series));
    return __builtin_sqrt(-2 * log_u);
}

/* (cos, sin)(2πu), u in (0,1): Taylor series of the remainder modulo π/2, which is at
 * most π/4 in size. */
static inline void pt_normal_circle(double u, double *cosine, double *sine)
{
    double shifted = 4 * u + PT_NORMAL_ROUND,
           r = (u - 0.25 * (shifted - PT_NORMAL_ROUND)) * (2 * M_PI);
    uint64_t quarter = pt_bits_of_f64(shifted);
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
    *cosine = pt_from_bits_f64(pt_bits_of_f64(swap ? s : c) ^ cos_sign);
    *sine = pt_from_bits_f64(pt_bits_of_f64(swap ? c : s) ^ sin_sign);
}

/* Computes both numbers of `count` pairs, beginning with pair `pair`. */
static inline void pt_normal_block(uint64_t seed, uint64_t id, uint64_t pair, int count,
                                   double out[2 * PT_NORMAL_PAIRS])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    double radius[PT_NORMAL_PAIRS], turn[PT_NORMAL_PAIRS];

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
        double r = pt_normal_radius(radius[i]), cosine, sine;
        pt_normal_circle(turn[i], &cosine, &sine);
        out[2 * i] = r * cosine;
        out[2 * i + 1] = r * sine;
    }
}

/* Computes elements [first, first + count) of tensor `id`. The bits do not depend on
 * how a range is divided among calls. */
static inline void pt_normals(uint64_t seed, uint64_t id, int64_t first, int64_t count,
                              double *out)
{
    double block[2 * PT_NORMAL_PAIRS];

    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, skip = at & 1;
        int64_t left = skip + count - done;
        int64_t pairs = left < 2 * PT_NORMAL_PAIRS ? (left + 1) / 2 : PT_NORMAL_PAIRS;
        int64_t take =
            2 * pairs - skip < count - done ? 2 * pairs - skip : count - done;
        pt_normal_block(seed, id, (uint64_t)at >> 1, (int)pairs, block);
        memcpy(out + done, block + skip, (size_t)take * sizeof *out);
        done += take;
    }
}

static inline double pt_normal(uint64_t seed, uint64_t id, int64_t index)
{
    double x;
    pt_normals(seed, id, index, 1, &x);
    return x;
}

#undef PT_NORMAL_ROUND

#endif
