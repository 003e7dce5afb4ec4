/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BIN_BITS = 32, FRACTION_BITS = 52, DIGITS = 53, LEAST_EXPONENT = -1074 };

static const int64_t bin_mask = (INT64_C(1) << BIN_BITS) - 1;

void pt_sum_clear(pt_sum_t *sum)
{
    memset(sum, 0, sizeof *sum);
}

static void sum_add_nonfinite(pt_sum_t *sum, double value)
{
    if (isnan(value))
        sum->nan++;
    else if (value > 0)
        sum->positive_inf++;
    else
        sum->negative_inf++;
}

void pt_sum_add(pt_sum_t *sum, double value)
{
    uint64_t bits, digits;
    int exponent, bin;
    int64_t sign;
    unsigned __int128 shifted;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 63 ? -1 : 1;
    exponent = (int)(bits >> FRACTION_BITS & 0x7FF);
    digits = bits & ((UINT64_C(1) << FRACTION_BITS) - 1);
    if (exponent == 0x7FF) {
        sum_add_nonfinite(sum, value);
        return;
    }
    if (exponent > 0) {
        digits |= UINT64_C(1) << FRACTION_BITS;
        exponent--; /* now the position of the lowest digit, counted from 2^-1074 */
    }
    bin = exponent / BIN_BITS;
    shifted = (unsigned __int128)digits << exponent % BIN_BITS;
    sum->bins[bin] += sign * (int64_t)(shifted & (uint64_t)bin_mask);
    sum->bins[bin + 1] += sign * (int64_t)(shifted >> BIN_BITS & (uint64_t)bin_mask);
    sum->bins[bin + 2] += sign * (int64_t)(shifted >> 2 * BIN_BITS);
}

void pt_sum_carry(pt_sum_t *sum)
{
    for (int i = 0; i < PT_SUM_BINS - 1; i++) {
        int64_t low = sum->bins[i] & bin_mask;
        sum->bins[i + 1] += (sum->bins[i] - low) / (bin_mask + 1);
        sum->bins[i] = low;
    }
}

void pt_sum_merge(pt_sum_t *sum, const pt_sum_t *other)
{
    pt_sum_t added = *other;

    pt_sum_carry(&added);
    pt_sum_carry(sum);
    for (int i = 0; i < PT_SUM_BINS; i++)
        sum->bins[i] += added.bins[i];
    pt_sum_carry(sum);
    sum->positive_inf += other->positive_inf;
    sum->negative_inf += other->negative_inf;
    sum->nan += other->nan;
}

/* Number of binary digits of the sum. Its bins must be carried and not negative. */
static int sum_length_of(const pt_sum_t *sum)
{
    for (int i = PT_SUM_BINS - 1; i >= 0; i--)
        if (sum->bins[i] != 0)
            return BIN_BITS * i + 64 - __builtin_clzll((uint64_t)sum->bins[i]);
    return 0;
}

static bool sum_digit_at(const pt_sum_t *sum, int place)
{
    int bin = place / BIN_BITS;

    if (bin > PT_SUM_BINS - 1)
        bin = PT_SUM_BINS - 1;
    return sum->bins[bin] >> (place - BIN_BITS * bin) & 1;
}

static bool sum_any_below(const pt_sum_t *sum, int place)
{
    for (int i = 0; i < place / BIN_BITS; i++)
        if (sum->bins[i] != 0)
            return true;
    for (int i = place / BIN_BITS * BIN_BITS; i < place; i++)
        if (sum_digit_at(sum, i))
            return true;
    return false;
}

/* The sum is an integer times 2^-1074. If it has at most 53 digits, it is a double.
 * Otherwise the first 53 are kept, and the rest decides how to round. A result with
 * more than 53 digits is never subnormal, so it is rounded once only. */
static double sum_round_even(const pt_sum_t *sum)
{
    int length = sum_length_of(sum);
    int drop = length > DIGITS ? length - DIGITS : 0;
    uint64_t digits = 0;

    for (int place = length - 1; place >= drop; place--)
        digits = digits << 1 | sum_digit_at(sum, place);
    if (drop > 0 && sum_digit_at(sum, drop - 1) &&
        ((digits & 1) != 0 || sum_any_below(sum, drop - 1)))
        digits++;
    return ldexp((double)digits, drop + LEAST_EXPONENT);
}

double pt_sum_value(const pt_sum_t *sum)
{
    pt_sum_t exact = *sum;

    if (sum->nan > 0 || (sum->positive_inf > 0 && sum->negative_inf > 0))
        return NAN;
    if (sum->positive_inf > 0 || sum->negative_inf > 0)
        return sum->positive_inf > 0 ? INFINITY : -INFINITY;
    pt_sum_carry(&exact);
    if (exact.bins[PT_SUM_BINS - 1] >= 0)
        return sum_round_even(&exact);
    for (int i = 0; i < PT_SUM_BINS; i++)
        exact.bins[i] = -exact.bins[i];
    pt_sum_carry(&exact);
    return -sum_round_even(&exact);
}

int64_t pt_sum_nonfinite(const pt_sum_t *sum)
{
    return sum->positive_inf + sum->negative_inf + sum->nan;
}
