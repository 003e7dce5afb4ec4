/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The 16-bit types against their definition: (-1)^s · 2^(e - bias) · (1 + f), computed
 * with ldexp, and rounding by searching the two neighbours. */
#include "penta/base/dtype.h"
#include "penta/base/float16.h"
#include "penta/base/rng.h"
#include "regression/tap.h"
#include <math.h>

typedef struct format {
    const char *name;
    pt_dtype_t dtype;
    int fraction, bias, top; /* bits of the fraction; exponent field of Inf and NaN */
} format_t;

static const format_t formats[] = {{"bf16", PT_BF16, 7, 127, 255},
                                   {"fp16", PT_F16, 10, 15, 31}};

static double value_of(const format_t *f, unsigned bits)
{
    int exponent = (int)(bits >> f->fraction) & f->top;
    int fraction = (int)(bits & ((1u << f->fraction) - 1));
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == f->top)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - f->bias - f->fraction);
    return sign * ldexp(fraction + (1 << f->fraction), exponent - f->bias - f->fraction);
}

/* The number of the format nearest to x, found by bisection over its non-negative bits;
 * the one behind the largest counts as infinite. */
static unsigned nearest(const format_t *f, double x)
{
    unsigned sign = signbit(x) ? 0x8000 : 0, low = 0;
    unsigned high = (unsigned)f->top << f->fraction;
    double size = fabs(x), up;
    if (isnan(x))
        return 0x7fff;
    if (isinf(x))
        return high | sign;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (value_of(f, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    up = high == (unsigned)f->top << f->fraction ? ldexp(1, f->top - f->bias)
                                                 : value_of(f, high);
    double below = size - value_of(f, low), above = up - size;
    bool take_high = above < below || (above == below && (high & 1) == 0);
    return (take_high ? high : low) | sign;
}

static unsigned narrow_f32(const format_t *f, float x)
{
    return f->dtype == PT_BF16 ? pt_f32_to_bf16(x) : pt_f32_to_f16(x);
}

static unsigned narrow_f64(const format_t *f, double x)
{
    uint16_t bits = 0;
    pt_float_set(f->dtype, &bits, 0, x);
    return bits;
}

static bool is_nan(const format_t *f, unsigned bits)
{
    return isnan(value_of(f, bits));
}

static void test_all_values(const format_t *f)
{
    int wrong = 0, changed = 0;
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        uint16_t element = (uint16_t)bits;
        double want = value_of(f, bits), got = pt_float_get(f->dtype, &element, 0);
        float single =
            f->dtype == PT_BF16 ? pt_bf16_to_f32(element) : pt_f16_to_f32(element);
        wrong += isnan(want) ? !isnan(got) || !isnan(single)
                             : got != want || (double)single != want ||
                                   signbit(got) != signbit(want);
        unsigned back = narrow_f32(f, single), far = narrow_f64(f, got);
        changed += isnan(want) ? !is_nan(f, back) || !is_nan(f, far)
                               : back != bits || far != bits;
    }
    tap_ok(wrong == 0, "%s: 65536 values, %d differ from the definition", f->name,
           wrong);
    tap_ok(changed == 0, "%s: to fp32 or fp64 and back, %d changed", f->name, changed);
}

/* x in both precisions. */
static int wrong_at(const format_t *f, double x)
{
    unsigned want = nearest(f, x), got = narrow_f64(f, x);
    int wrong = isnan(x) ? !is_nan(f, got) : got != want;
    float single = (float)x;
    want = nearest(f, (double)single);
    got = narrow_f32(f, single);
    return wrong + (isnan(single) ? !is_nan(f, got) : got != want);
}

/* Every value, every midpoint of neighbours, and the closest fp32 and fp64 beside
 * them. */
static void test_ties(const format_t *f)
{
    int wrong = 0;
    unsigned top = (unsigned)f->top << f->fraction;
    for (unsigned bits = 0; bits < top; bits++) {
        double low = value_of(f, bits);
        double high =
            bits + 1 < top ? value_of(f, bits + 1) : ldexp(1, f->top - f->bias);
        double middle = (low + high) / 2;
        const double near[] = {low,
                               middle,
                               nextafter(middle, 0),
                               nextafter(middle, INFINITY),
                               (double)nextafterf((float)middle, 0),
                               (double)nextafterf((float)middle, INFINITY)};
        for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
            wrong += wrong_at(f, near[i]) + wrong_at(f, -near[i]);
    }
    tap_ok(wrong == 0, "%s: nearest, ties to even: %d wrong", f->name, wrong);
}

static void test_special(const format_t *f)
{
    static const double special[] = {
        0,         -0.0,     INFINITY, -INFINITY,      NAN,        1e300,    -1e300,
        1e-300,    -1e-300,  0x1p-149, -0x1p-149,      0x1.8p-134, 0x1p-134, 0x1p-25,
        0x1.8p-25, 65519.99, 65520,    0x1.fffffep127, 0x1.ffp127, 0x1p1023, 0x1p-1074};
    int wrong = 0;
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        wrong += wrong_at(f, special[i]);
    tap_ok(wrong == 0, "%s: %d special values wrong", f->name, wrong);
    for (int i = 0; i < 1000000; i++) {
        double x;
        seed = pt_mix64(seed + 1);
        uint64_t bits = i % 2 ? seed
                              : (seed & ~(UINT64_C(0x7ff) << 52)) |
                                    (UINT64_C(1003) + seed % 41) << 52;
        memcpy(&x, &bits, sizeof x);
        wrong += wrong_at(f, x);
    }
    tap_ok(wrong == 0, "%s: %d of a million random values wrong", f->name, wrong);
}

int main(void)
{
    for (int i = 0; i < 2; i++) {
        test_all_values(&formats[i]);
        test_ties(&formats[i]);
        test_special(&formats[i]);
    }
    return tap_done();
}
