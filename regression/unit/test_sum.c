/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/rng.h"
#include "penta/base/sum.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Reference: numbers are 2,304-bit two's complement in units of 2^-1074, added by
 * schoolbook bits, rounded by comparing distances. Slow and plain. */
enum { BITS = 2304 };
typedef struct big {
    unsigned char bit[BITS];
} big_t;

static void big_negate(big_t *x)
{
    int carry = 1;

    for (int i = 0; i < BITS; i++) {
        int sum = !x->bit[i] + carry;
        x->bit[i] = sum & 1;
        carry = sum >> 1;
    }
}

static void big_add(big_t *x, const big_t *y)
{
    int carry = 0;

    for (int i = 0; i < BITS; i++) {
        int sum = x->bit[i] + y->bit[i] + carry;
        x->bit[i] = sum & 1;
        carry = sum >> 1;
    }
}

static big_t big_from(double value)
{
    big_t x = {{0}};
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* value = fraction 2^exponent */

    for (int place = exponent + 1073; fraction != 0; place--) {
        fraction *= 2;
        if (fraction >= 1) {
            x.bit[place] = 1;
            fraction -= 1;
        }
    }
    if (signbit(value))
        big_negate(&x);
    return x;
}

/* Nearest double, ties to even: the truncated value or the next one away from zero. */
static double big_value(big_t x)
{
    bool negative = x.bit[BITS - 1];
    int top = BITS - 1;
    double low = 0, high;

    if (negative)
        big_negate(&x);
    while (top >= 0 && !x.bit[top])
        top--;
    for (int i = top; i >= 0 && i > top - 53; i--)
        low += x.bit[i] * ldexp(1, i - 1074);
    if (top >= 53) {
        bool half = x.bit[top - 53], more = false;
        for (int i = top - 54; i >= 0; i--)
            more = more || x.bit[i];
        high = nextafter(low, INFINITY);
        if (half && (more || x.bit[top - 52]))
            low = high;
    }
    return negative ? -low : low;
}

static uint64_t state;

static uint64_t next_bits(void)
{
    state += 0x9E3779B97F4A7C15u;
    return pt_mix64(state);
}

/* Finite, exponent field from `low` on within `range`; 0 is subnormal. */
static double next_double(int low, int range)
{
    uint64_t bits = next_bits();
    uint64_t exponent = (uint64_t)low + (bits >> 53) % (uint64_t)range;
    double value;

    bits = (bits & 0x800FFFFFFFFFFFFFu) | exponent << 52;
    if (next_bits() % 8 == 0) /* round numbers make ties */
        bits &= 0xFFFF000000000000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool same(double a, double b)
{
    if (a == b)
        return true;
    tap_note("%a is not %a", a, b);
    return false;
}

static bool random_sum(int low, int range, int count, bool cancel)
{
    pt_sum_t sum;
    big_t exact = {{0}};
    double values[64];

    pt_sum_clear(&sum);
    for (int i = 0; i < count; i++) {
        values[i] = next_double(low, range);
        if (cancel && i % 2 == 1)
            values[i] =
                next_bits() % 4 ? -values[i - 1] : -nextafter(values[i - 1], INFINITY);
        big_t term = big_from(values[i]);
        big_add(&exact, &term);
        pt_sum_add(&sum, values[i]);
    }
    return same(pt_sum_value(&sum), big_value(exact));
}

static void test_random(void)
{
    static const struct {
        int low, range;
        const char *what;
    } rows[] = {{0, 2040, "all exponents"},
                {0, 3, "subnormals"},
                {1020, 8, "near one"},
                {1000, 130, "about a word apart"},
                {2030, 10, "large"}};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int good = 0;
        for (int trial = 0; trial < 300; trial++)
            good += random_sum(rows[r].low, rows[r].range, 2 + trial % 40, trial % 2);
        tap_ok(good == 300, "exact: %s", rows[r].what);
    }
}

static double sum_of(const double *values, int count)
{
    pt_sum_t sum;

    pt_sum_clear(&sum);
    for (int i = 0; i < count; i++)
        pt_sum_add(&sum, values[i]);
    return pt_sum_value(&sum);
}
#define SUM(...)                                                                       \
    sum_of((const double[]){__VA_ARGS__},                                              \
           sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void test_rounding(void)
{
    tap_ok(SUM(0.0) == 0 && SUM(-0.0, 0.0) == 0, "zero");
    tap_ok(SUM(0x1p-1074) == 0x1p-1074 && SUM(-0x1p-1074) == -0x1p-1074,
           "least number");
    tap_ok(SUM(DBL_MAX) == DBL_MAX && SUM(-DBL_MAX) == -DBL_MAX, "largest number");
    tap_ok(SUM(1, 0x1p-53) == 1, "tie to even, down");
    tap_ok(SUM(1, 0x1p-52, 0x1p-53) == 1 + 0x1p-51, "tie to even, up");
    tap_ok(SUM(1, 0x1p-53, 0x1p-1074) == 1 + 0x1p-52, "a hair above a tie");
    tap_ok(SUM(1, 0x1p-53, -0x1p-1074) == 1, "a hair below");
    tap_ok(SUM(-1, -0x1p-53, -0x1p-1074) == -1 - 0x1p-52, "negative");
    tap_ok(SUM(2 - 0x1p-52, 0x1p-53) == 2, "carry into the next power");
    tap_ok(SUM(1e308, 1, -1e308) == 1, "cancellation");
    tap_ok(SUM(1e308, 1e308, 1e308, -1e308, -1e308, 1) == 1e308,
           "beyond range and back");
    tap_ok(SUM(DBL_MAX, DBL_MAX) == INFINITY && SUM(-DBL_MAX, -DBL_MAX) == -INFINITY,
           "overflow is infinite");
    tap_ok(SUM(DBL_MAX, 0x1p970) == INFINITY,
           "half a unit above the largest: infinite");
    tap_ok(SUM(DBL_MAX, 0x1p970, -0x1p-1074) == DBL_MAX, "a hair less: the largest");
    tap_ok(SUM(0x1p-1022, -0x1p-1074) == 0x1p-1022 - 0x1p-1074, "into the subnormals");
}

static void test_nonfinite(void)
{
    pt_sum_t sum;

    pt_sum_clear(&sum);
    pt_sum_add(&sum, 1);
    tap_ok(pt_sum_nonfinite(&sum) == 0, "finite");
    pt_sum_add(&sum, INFINITY);
    tap_ok(pt_sum_value(&sum) == INFINITY, "+Inf");
    pt_sum_add(&sum, -INFINITY);
    tap_ok(isnan(pt_sum_value(&sum)) && pt_sum_nonfinite(&sum) == 2,
           "+Inf - Inf is NaN");
    pt_sum_clear(&sum);
    pt_sum_add(&sum, -INFINITY);
    tap_ok(pt_sum_value(&sum) == -INFINITY, "-Inf");
    pt_sum_add(&sum, -(double)NAN);
    tap_ok(isnan(pt_sum_value(&sum)) && sum.nan == 1, "NaN");
}

enum { COUNT = 3000, PARTS = 7 };

static void test_merge(void)
{
    static double values[COUNT];
    pt_sum_t part[PARTS], forward, backward, words, whole;

    pt_sum_clear(&whole);
    pt_sum_clear(&forward);
    pt_sum_clear(&backward);
    pt_sum_clear(&words);
    memset(part, 0, sizeof part);
    for (int i = 0; i < COUNT; i++) {
        values[i] = next_double(800, 400);
        pt_sum_add(&whole, values[i]);
        pt_sum_add(&part[next_bits() % PARTS], values[i]);
    }
    pt_sum_add(&part[2], INFINITY);
    pt_sum_add(&part[4], NAN);
    for (int i = 0; i < PARTS; i++) {
        pt_sum_merge(&forward, &part[i]);
        pt_sum_merge(&backward, &part[PARTS - 1 - i]);
    }
    tap_ok(memcmp(&forward, &backward, sizeof forward) == 0 && forward.nan == 1 &&
               forward.positive_inf == 1,
           "merging in any order gives the same words");
    part[2].positive_inf = part[4].nan = forward.positive_inf = forward.nan = 0;
    tap_ok(pt_sum_value(&forward) == pt_sum_value(&whole),
           "and the value of one holder");
    tap_ok(sizeof(pt_sum_t) == PT_SUM_WORDS * sizeof(int64_t), "a sum is all words");
    for (int i = 0; i < PARTS; i++)
        for (int w = 0; w < PT_SUM_WORDS; w++)
            ((int64_t *)&words)[w] += ((const int64_t *)&part[i])[w];
    tap_ok(pt_sum_value(&words) == pt_sum_value(&whole),
           "words may be added as integers, as a reduction over ranks does");
}

/* Bins as full as the promised number of additions can make them. */
static void test_capacity(void)
{
    pt_sum_t sum, other;
    const int64_t additions = INT64_C(1) << 31;

    pt_sum_clear(&sum);
    pt_sum_add(&sum, -(2 - 0x1p-52));
    for (int i = 0; i < PT_SUM_BINS; i++)
        sum.bins[i] *= additions;
    tap_ok(pt_sum_value(&sum) == -(2 - 0x1p-52) * 0x1p31, "2^31 equal additions");
    other = sum;
    for (int i = 0; i < 1000; i++)
        pt_sum_merge(&sum, &other);
    tap_ok(pt_sum_value(&sum) == -(2 - 0x1p-52) * 0x1p31 * 1001,
           "a thousand such holders");

    pt_sum_clear(&sum);
    for (int i = 0; i < PT_SUM_BINS - 3; i++)
        sum.bins[i] = -additions * 0xFFFFFFFF;
    other = sum;
    pt_sum_merge(&other, &sum);
    tap_ok(isfinite(pt_sum_value(&sum)) &&
               pt_sum_value(&other) == 2 * pt_sum_value(&sum),
           "every bin full, negative");
    tap_ok(other.bins[PT_SUM_BINS - 1] < 0, "carried up to the sign");
}

int main(void)
{
    test_random();
    test_rounding();
    test_nonfinite();
    test_merge();
    test_capacity();
    return tap_done();
}
