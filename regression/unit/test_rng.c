/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/normal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* kat_vectors of the Random123 distribution, philox4x32, 10 rounds. */
static void test_philox(void)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        pt_philox4x32(rows[i].key, rows[i].counter, out);
        tap_ok(memcmp(out, rows[i].want, sizeof out) == 0, "Philox known answer %zu", i);
    }
}

/* SplitMix64 is mix 13 of a counter; its first outputs from seed 0 are published
 * widely. */
static void test_mix(void)
{
    const uint64_t gamma = 0x9E3779B97F4A7C15u;

    tap_ok(pt_mix64(gamma) == 0xE220A8397B1DCDAFu &&
               pt_mix64(2 * gamma) == 0x6E789E6AA1B965F4u &&
               pt_mix64(3 * gamma) == 0x06C45D188009454Fu,
           "mix64 gives SplitMix64");
    tap_ok(pt_uniform(0, 0) > 0 && pt_uniform(0, 0) == 0x1p-53 &&
               pt_uniform(0xffffffff, 0xffffffff) == 1 - 0x1p-53,
           "uniform never is 0 or 1");
}

/* XXH64 from its specification, for texts shorter than 32 bytes. */
static uint64_t rotate(uint64_t x, int r)
{
    return x << r | x >> (64 - r);
}

static uint64_t short_xxh64(const char *text)
{
    const uint64_t p1 = 11400714785074694791u, p2 = 14029467366897019727u,
                   p3 = 1609587929392839161u, p4 = 9650029242287828579u,
                   p5 = 2870177450012600261u;
    size_t left = strlen(text);
    uint64_t h = p5 + left, lane = 0;

    for (; left >= 8; left -= 8, text += 8) {
        memcpy(&lane, text, 8);
        h = rotate(h ^ rotate(lane * p2, 31) * p1, 27) * p1 + p4;
    }
    if (left >= 4) {
        uint32_t word;
        memcpy(&word, text, 4);
        h = rotate(h ^ word * p1, 23) * p2 + p3;
        left -= 4, text += 4;
    }
    for (; left > 0; left--, text++)
        h = rotate(h ^ (unsigned char)*text * p5, 11) * p1;
    h = (h ^ h >> 33) * p2;
    h = (h ^ h >> 29) * p3;
    return h ^ h >> 32;
}

static void test_name_id(void)
{
    tap_ok(pt_name_id("") == 0xEF46DB3751D8E999u, "XXH64 of nothing as published");
    tap_ok(pt_name_id("layers.0.attn.wq") == short_xxh64("layers.0.attn.wq") &&
               pt_name_id("embedding.w") == short_xxh64("embedding.w"),
           "ids are XXH64");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

enum { DRAWS = 200000 };
static double draws[DRAWS];

static void test_normal_shape(void)
{
    double mean = 0, m2 = 0, m3 = 0, m4 = 0, pair = 0, square = 0, ks = 0;
    uint64_t id = pt_name_id("w");

    for (int i = 0; i < DRAWS; i++) {
        double x = draws[i] = pt_normal(7, id, i);
        mean += x / DRAWS, m2 += x * x / DRAWS;
        m3 += x * x * x / DRAWS, m4 += x * x * x * x / DRAWS;
    }
    /* Limits: five standard deviations of each estimate. */
    double unit = 5 / sqrt(DRAWS);
    tap_ok(fabs(mean) < unit, "mean %.5f", mean);
    tap_ok(fabs(m2 - 1) < unit * sqrt(2), "variance %.5f", m2);
    tap_ok(fabs(m3) < unit * sqrt(15), "third moment %.5f", m3);
    tap_ok(fabs(m4 - 3) < unit * sqrt(96), "fourth moment %.5f", m4);
    for (int i = 0; i < DRAWS; i += 2) {
        pair += draws[i] * draws[i + 1] / (DRAWS / 2);
        square +=
            (draws[i] * draws[i] - 1) * (draws[i + 1] * draws[i + 1] - 1) / (DRAWS / 2);
    }
    tap_ok(fabs(pair) < unit * sqrt(2) && fabs(square) < unit * sqrt(2) * 2,
           "two of one block are independent: %.5f, squares %.5f", pair, square);
    pair = 0;
    for (int i = 0; i + 1 < DRAWS; i++)
        pair += draws[i] * draws[i + 1] / DRAWS;
    tap_ok(fabs(pair) < unit, "so are neighbours: %.5f", pair);
    qsort(draws, DRAWS, sizeof *draws, by_value);
    for (int i = 0; i < DRAWS; i++) {
        double p = 0.5 * erfc(-draws[i] / sqrt(2));
        ks = fmax(ks, fmax(fabs(p - (double)i / DRAWS), fabs(p - (i + 1.0) / DRAWS)));
    }
    tap_ok(ks * sqrt(DRAWS) < 1.95, "Kolmogorov-Smirnov %.3f, 1.95 at 0.1 %%",
           ks * sqrt(DRAWS));
}

/* The formula written out: the counter is (index / 2, id), the key is the seed. */
static long double formula(uint64_t seed, uint64_t id, int64_t index)
{
    uint64_t half = (uint64_t)index / 2;
    const uint32_t key[2] = {seed & 0xffffffff, seed >> 32};
    const uint32_t counter[4] = {half & 0xffffffff, half >> 32, id & 0xffffffff,
                                 id >> 32};
    uint32_t w[4];

    pt_philox4x32(key, counter, w);
    double u = ((((uint64_t)w[0] << 32) + w[1]) / 4096 + 0.5) / 4503599627370496.0;
    double v = ((((uint64_t)w[2] << 32) + w[3]) / 4096 + 0.5) / 4503599627370496.0;
    long double turn = 6.2831853071795864769252867665590L * v;
    return sqrtl(-2 * logl(u)) * (index % 2 ? sinl(turn) : cosl(turn));
}

/* Against extended precision. */
static double error(uint64_t seed, uint64_t id, int64_t index)
{
    long double expected = formula(seed, id, index);
    return (double)(fabsl(pt_normal(seed, id, index) - expected) /
                    fmaxl(fabsl(expected), 1e-3L));
}

static void test_normal_keys(void)
{
    static const int64_t far[] = {0, 1, 2, 3, 1ll << 33, (1ll << 33) + 1, INT64_MAX};
    double worst = error(42ull << 40, 5, 9);

    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        worst = fmax(worst, error(42, 0x123456789abcdefu, far[i]));
    for (int64_t i = 0; i < DRAWS; i++)
        worst = fmax(worst, error(3, 8, i));
    tap_ok(worst < 8 * 0x1p-52, "the formula's numbers to %.1f units in the last place",
           worst * 0x1p52);
    bool same = true;
    for (int64_t first = 0; first < 4; first++)
        for (int64_t count = 1; count < 300; count += 7) {
            double range[300];
            pt_normals(3, 8, first, count, range);
            for (int64_t i = 0; i < count; i++)
                same = same && range[i] == pt_normal(3, 8, first + i);
        }
    tap_ok(same, "an element's bits do not depend on the range it is drawn in");
    tap_ok(pt_normal(1, 5, 9) != pt_normal(2, 5, 9) &&
               pt_normal(1, 5, 9) != pt_normal(1ull << 32 | 1, 5, 9) &&
               pt_normal(1, 5, 9) != pt_normal(1, 6, 9) &&
               pt_normal(1, 5, 9) != pt_normal(1, 5ull << 32, 9) &&
               pt_normal(1, 5, 9) != pt_normal(1, 5, 9 + (1ll << 33)),
           "every half of seed, id and index matters");
}

static bool is_bijection(uint64_t seed, uint64_t round, int64_t n)
{
    static unsigned char seen[1 << 20];

    memset(seen, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t image = pt_permute(seed, round, i, n);
        if (image < 0 || image >= n || seen[image]++)
            return false;
    }
    return true;
}

static void test_bijection(void)
{
    int good = 0, large = 1;

    for (int64_t n = 1; n <= 300; n++)
        good += is_bijection((uint64_t)n * 77, (uint64_t)n % 5, n);
    tap_ok(good == 300, "bijections of 1 to 300 elements");
    tap_ok(is_bijection(3, 1, 99991) && is_bijection(3, 1, 65536), "and of many");
    for (int64_t i = 0; i < 1000; i++) {
        int64_t image = pt_permute(3, 1, INT64_MAX - 1 - i, INT64_MAX);
        large = large && image >= 0 && image < INT64_MAX;
        large =
            large && (image = pt_permute(3, 1, i, 1ll << 32)) < 1ll << 32 && image >= 0;
        large = large && pt_permute(3, 1, i, (1ll << 40) + 1) <= 1ll << 40;
    }
    tap_ok(large, "in range for n beyond 32 bits");
}

static int fixed_points(uint64_t seed, uint64_t round, uint64_t seed2, uint64_t round2)
{
    int same = 0;

    for (int64_t i = 0; i < 1000; i++)
        same += pt_permute(seed, round, i, 1000) == pt_permute(seed2, round2, i, 1000);
    return same;
}

static void test_streams(void)
{
    /* Two random permutations agree at one place on average; ten has odds of 1e-7. */
    tap_ok(fixed_points(1, 0, 2, 0) < 10, "seeds differ");
    tap_ok(fixed_points(1, 0, 1ull << 32 | 1, 0) < 10, "in their upper half, too");
    tap_ok(fixed_points(1, 0, 1, 1) < 10, "rounds differ");
    tap_ok(fixed_points(1, 0, 1, 1ull << 32) < 10, "in their upper half, too");
}

/* Chi-square of the n! orders of n = 3, 4 and of the images of one index of 100. */
static double order_chi2(int n, int orders, int trials)
{
    int count[256] = {0};
    double chi2 = 0, want = (double)trials / orders;

    for (int seed = 0; seed < trials; seed++) {
        int code = 0;
        for (int i = 0; i < n; i++)
            code = code * n + (int)pt_permute((uint64_t)seed, 9, i, n);
        count[code % 256]++; /* n <= 4: the code is below 256 */
    }
    for (int code = 0, found = 0; code < 256; code++) {
        chi2 +=
            count[code] > 0 ? (count[code] - want) * (count[code] - want) / want : 0;
        found += count[code] > 0;
        if (code == 255 && found != orders)
            return INFINITY;
    }
    return chi2;
}

static void test_uniformity(void)
{
    int count[100] = {0}, next[100] = {0};
    double chi2 = 0, chi2_next = 0;
    /* Limits: odds of 1e-4 with 5, 23 and 99 degrees of freedom. */
    double three = order_chi2(3, 6, 12000), four = order_chi2(4, 24, 48000);

    tap_ok(three < 25.7, "orders of three: chi-square %.1f", three);
    tap_ok(four < 58.6, "orders of four: chi-square %.1f", four);
    for (int seed = 0; seed < 20000; seed++) {
        int64_t a = pt_permute((uint64_t)seed, 0, 17, 100);
        int64_t b = pt_permute((uint64_t)seed, 0, 18, 100);
        count[a]++;
        next[(b - a + 100) % 100]++;
    }
    for (int i = 0; i < 100; i++)
        chi2 += (count[i] - 200) * (count[i] - 200) / 200.0;
    for (int i = 1; i < 100; i++)
        chi2_next +=
            (next[i] - 20000 / 99.0) * (next[i] - 20000 / 99.0) / (20000 / 99.0);
    tap_ok(chi2 < 161.3, "images of one of a hundred: chi-square %.1f", chi2);
    tap_ok(next[0] == 0 && chi2_next < 160,
           "distance of two neighbours: chi-square %.1f", chi2_next);
}

int main(void)
{
    test_philox();
    test_mix();
    test_name_id();
    test_normal_shape();
    test_normal_keys();
    test_bijection();
    test_streams();
    test_uniformity();
    return tap_done();
}
