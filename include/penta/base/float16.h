/* SPDX-License-Identifier: Apache-2.0 */
/* float16.h — the two 16-bit floating-point types (layer: base).
 *
 * bf16 has 8 bits of exponent, as fp32 has, and 7 of fraction; fp16 has 5 and 10 (IEEE
 * binary16). Widening is exact. Narrowing rounds to nearest, ties to even; values
 * beyond the largest become infinity. A NaN stays a quiet NaN with its sign and the
 * upper bits of its payload. The code uses integer arithmetic without branches:
 * compilers vectorise loops over it, and every instruction set level gives the same
 * bits (the AVX-512 BF16 instruction would flush subnormal numbers). */
#ifndef PENTA_FLOAT16_H
#define PENTA_FLOAT16_H

#include "penta/base/bits.h"

static inline float pt_bf16_to_f32(uint16_t x)
{
    return pt_from_bits_f32((uint32_t)x << 16);
}

static inline uint16_t pt_f32_to_bf16(float x)
{
    uint32_t bits = pt_bits_of_f32(x), up = 0x7fff + (bits >> 16 & 1);
    uint32_t quiet = bits | 0x400000;
    return (uint16_t)((x == x ? bits + up : quiet) >> 16);
}

/* The shifted bits, read as fp32, are 2^-112 times the value. Inf and NaN then get
 * their exponent. */
static inline float pt_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, bits = (uint32_t)(x & 0x7fff) << 13;
    uint32_t wide = pt_bits_of_f32(pt_from_bits_f32(bits) * 0x1p112f);
    uint32_t infinite = bits >= 31 << 23 ? 0x7f800000 : 0;
    return pt_from_bits_f32(wide | infinite | sign);
}

/* Below 2^-14, adding 1/2 rounds the number to units of 2^-24 and leaves it in the low
 * bits. */
static inline uint16_t pt_f32_to_f16(float x)
{
    uint32_t sign = pt_bits_of_f32(x) & 0x80000000, bits = pt_bits_of_f32(x) ^ sign;
    uint32_t normal = (bits - ((127 - 15) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    uint32_t small =
        pt_bits_of_f32(pt_from_bits_f32(bits) + 0.5f) - pt_bits_of_f32(0.5f);
    uint32_t quiet = 0x7e00 | (bits >> 13 & 0x1ff);
    uint32_t narrow = bits < (127 - 14) << 23 ? small : normal;
    narrow = bits >= (127 + 16) << 23 ? 0x7c00 : narrow;
    narrow = bits > 0x7f800000 ? quiet : narrow;
    return (uint16_t)(narrow | sign >> 16);
}

/* Converts fp64 to fp32 on the way to 16 bits. It rounds to odd: of the two neighbours
 * it takes the one whose last bit is 1, so that rounding once more gives the same as
 * one rounding (Boldo, Melquiond 2008). */
static inline float pt_f64_to_odd_f32(double x)
{
    float near = (float)x;
    uint32_t bits = pt_bits_of_f32(near);
    double error = (double)near - x, size = x < 0 ? -error : error;
    uint32_t other = size > 0 ? bits - 1 : bits + 1; /* size: |near| - |x| */
    return (bits & 1) == 0 && (size > 0 || size < 0) ? pt_from_bits_f32(other) : near;
}

#endif
