/* SPDX-License-Identifier: Apache-2.0 */
/* math.h — exp and log whose bits are the same for a scalar and in a vector (private to
 * src/ops/cpu).
 *
 * The code has no branches, so that compilers vectorise loops that call it, and no
 * contraction, so that the scalar remainder of such a loop computes the same bits.
 * regression/ops/test_math.c measures the errors. Levels without fused multiply-add
 * give other bits than levels with it. NaN gives NaN; exp overflows to +inf and
 * underflows gradually. */
#ifndef PT_CPU_MATH_H
#define PT_CPU_MATH_H

#include "penta/base/bits.h"
#include <math.h>

#ifdef __FMA__
#define PT_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#define PT_FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#else
#define PT_FMA_F64(a, b, c) ((a) * (b) + (c))
#define PT_FMA_F32(a, b, c) ((a) * (b) + (c))
#endif

static inline double pt_fma_f64(double a, double b, double c)
{
    return PT_FMA_F64(a, b, c);
}

static inline float pt_fma_f32(float a, float b, float c)
{
    return PT_FMA_F32(a, b, c);
}

static inline double pt_sqrt_f64(double x)
{
    return __builtin_sqrt(x);
}

static inline float pt_sqrt_f32(float x)
{
    return __builtin_sqrtf(x);
}

/* Adding 1.5·2^52 (2^23) rounds to an integer n and leaves it in the low bits. These
 * bits, shifted into the exponent field and added to the bits of 1, give 2^n. */
#define PT_ROUND_F64 0x1.8p52
#define PT_ROUND_F32 0x1.8p23f

static inline double pt_power_of_two_f64(double shifted)
{
    return pt_from_bits_f64((pt_bits_of_f64(shifted) << 52) + 0x3ff0000000000000u);
}

static inline float pt_power_of_two_f32(float shifted)
{
    return pt_from_bits_f32((pt_bits_of_f32(shifted) << 23) + 0x3f800000u);
}

/* exp(x) = 2^n·exp(r), n = round(x/ln 2), |r| <= ln(2)/2; exp(r) = 1 + r + r²·q(r),
 * where q is the Chebyshev interpolant. 2^n is computed as two factors, because n may
 * exceed the exponents of normal numbers. ln 2 has two parts; the first is so short
 * that its product with n is exact. */
static inline double pt_exp_f64(double x)
{
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? -746.0 : x;
    double n = PT_FMA_F64(x, 0x1.71547652b82fep+0, PT_ROUND_F64) - PT_ROUND_F64;
    double r = PT_FMA_F64(n, -0x1.62e42feep-1, x);
    r = PT_FMA_F64(n, -0x1.a39ef35793c76p-33, r);
    double q = 0x1.af38a9b0ec855p-26;
    q = PT_FMA_F64(q, r, 0x1.289185613a3d6p-22);
    q = PT_FMA_F64(q, r, 0x1.71de0dae63bb3p-19);
    q = PT_FMA_F64(q, r, 0x1.a019b90d2ae7ap-16);
    q = PT_FMA_F64(q, r, 0x1.a01a01a7c41d5p-13);
    q = PT_FMA_F64(q, r, 0x1.6c16c1788bd90p-10);
    q = PT_FMA_F64(q, r, 0x1.11111111109b3p-7);
    q = PT_FMA_F64(q, r, 0x1.5555555553d63p-5);
    q = PT_FMA_F64(q, r, 0x1.5555555555556p-3);
    q = PT_FMA_F64(q, r, 0x1.0000000000001p-1);
    double y = 1.0 + PT_FMA_F64(r * r, q, r);
    double half = PT_FMA_F64(n, 0.5, PT_ROUND_F64);
    double rest = n - (half - PT_ROUND_F64) + PT_ROUND_F64;
    return y * pt_power_of_two_f64(half) * pt_power_of_two_f64(rest);
}

static inline float pt_exp_f32(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float n = PT_FMA_F32(x, 0x1.715476p+0f, PT_ROUND_F32) - PT_ROUND_F32;
    float r = PT_FMA_F32(n, -0x1.63p-1f, x);
    r = PT_FMA_F32(n, 0x1.bd0106p-13f, r);
    float q = 0x1.6d110ap-10f;
    q = PT_FMA_F32(q, r, 0x1.120b6ep-7f);
    q = PT_FMA_F32(q, r, 0x1.55551ap-5f);
    q = PT_FMA_F32(q, r, 0x1.5554dcp-3f);
    q = PT_FMA_F32(q, r, 0x1p-1f);
    float y = 1.0f + PT_FMA_F32(r * r, q, r);
    float half = PT_FMA_F32(n, 0.5f, PT_ROUND_F32);
    float rest = n - (half - PT_ROUND_F32) + PT_ROUND_F32;
    return y * pt_power_of_two_f32(half) * pt_power_of_two_f32(rest);
}

/* log(x) = k·ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)); with s = f/(2 + f),
 * log(1 + f) = 2·artanh(s) = f - (f²/2 - s·(f²/2 + R)), R = 2·(s²/3 + s⁴/5 + …). Called
 * once per row, so not written for vectors. */
static inline double pt_log_f64(double x)
{
    int exponent;
    double m = __builtin_frexp(x, &exponent);
    if (!(x > 0) || x > 0x1.fffffffffffffp1023)
        return x == 0 ? -INFINITY : x < 0 ? NAN : x;
    if (m < 0.70710678118654752440) {
        m *= 2;
        exponent--;
    }
    double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f, series = 0;
    for (int i = 23; i >= 3; i -= 2)
        series = (series + 2.0 / i) * z;
    double low = PT_FMA_F64(exponent, 0x1.a39ef35793c76p-33, s * (half + series));
    return exponent * 0x1.62e42feep-1 - ((half - low) - f);
}

static inline float pt_log_f32(float x)
{
    return (float)pt_log_f64(x);
}

#endif
