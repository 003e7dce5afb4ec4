/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a token: which, how often, and of what it depends. */
#include "regression/tap.h"
#include "src/cmd/sample.h"

#include <math.h>

enum { DRAWS = 40000 };

/* A few likely tokens among many unlikely ones; 7 and 9 are equally likely. */
static void fill(double logits[PT_BYTES])
{
    for (int token = 0; token < PT_BYTES; token++)
        logits[token] = -2 - 0.01 * token;
    logits[3] = 1;
    logits[7] = 2;
    logits[9] = 2;
    logits[200] = 0.5;
}

/* Pearson's statistic of what was drawn against exp(logit / temperature) over
 * `allowed`. */
static double chi_square(const pt_choice_t *choice, const double logits[PT_BYTES],
                         const bool allowed[PT_BYTES], int *cells)
{
    int64_t count[PT_BYTES] = {0};
    double sum = 0, statistic = 0;

    *cells = 0;
    for (int token = 0; token < PT_BYTES; token++)
        sum += allowed[token] ? exp(logits[token] / choice->temperature) : 0;
    for (int64_t i = 0; i < DRAWS; i++)
        count[pt_choose(choice, logits, i)]++;
    for (int token = 0; token < PT_BYTES; token++) {
        double share =
            allowed[token] ? exp(logits[token] / choice->temperature) / sum : 0;
        double expected = DRAWS * share;

        if (!allowed[token] && count[token] > 0)
            return INFINITY;
        if (!allowed[token])
            continue;
        statistic += pow((double)count[token] - expected, 2) / expected;
        (*cells)++;
    }
    return statistic;
}

/* Mean + 5 standard deviations of the statistic: exceeded by chance about once in 10^5
 * seeds. */
static bool fits(double statistic, int cells)
{
    double degrees = cells - 1;

    return statistic < degrees + 5 * sqrt(2 * degrees) + 5;
}

static void test_frequencies(void)
{
    double logits[PT_BYTES];
    bool all[PT_BYTES], best[PT_BYTES] = {false};
    int cells;

    fill(logits);
    for (int token = 0; token < PT_BYTES; token++)
        all[token] = true;
    best[3] = best[7] = best[9] = true;
    for (int t = 0; t < 2; t++) {
        pt_choice_t choice = {.temperature = t == 0 ? 1 : 3.5, .seed = 11};
        double statistic = chi_square(&choice, logits, all, &cells);

        tap_ok(fits(statistic, cells), "temperature %g gives the softmax (%.1f of %d)",
               choice.temperature, statistic, cells);
        choice.top_k = 3;
        statistic = chi_square(&choice, logits, best, &cells);
        tap_ok(fits(statistic, cells), "... and of the three likeliest (%.1f of %d)",
               statistic, cells);
    }
}

/* The definition, by another way: a token is in the nucleus iff those in front of it
 * have less than top_p. Holtzman et al. 2020, section 3.1: the smallest set that has
 * it. */
static void define(const pt_choice_t *choice, const double *logits, bool *allowed)
{
    for (int token = 0; token < PT_BYTES; token++) {
        long double front = 0, all = 0;
        int64_t rank = 0;

        for (int other = 0; other < PT_BYTES; other++) {
            int64_t others = 0;
            long double weight = expl((long double)logits[other] / choice->temperature);
            bool before = logits[other] > logits[token] ||
                          (logits[other] == logits[token] && other < token);

            for (int third = 0; third < PT_BYTES; third++)
                others += logits[third] > logits[other] ||
                          (logits[third] == logits[other] && third < other);
            if (choice->top_k == 0 || others < choice->top_k)
                all += weight;
            if (before)
                front += weight;
            rank += before;
        }
        allowed[token] =
            front < choice->top_p * all && (choice->top_k == 0 || rank < choice->top_k);
    }
}

static void test_nucleus(void)
{
    static const double shares[] = {1e-9, 0.2, 0.5, 0.8, 0.95};
    double logits[PT_BYTES];
    bool allowed[PT_BYTES];

    fill(logits);
    for (int s = 0; s < 5; s++)
        for (int k = 0; k < 2; k++) {
            pt_choice_t choice = {.temperature = 1.3, .top_p = shares[s], .seed = 3};
            int cells, wanted = 0;

            choice.top_k = k == 0 ? 0 : 90;
            define(&choice, logits, allowed);
            for (int token = 0; token < PT_BYTES; token++)
                wanted += allowed[token];
            double statistic = chi_square(&choice, logits, allowed, &cells);
            tap_ok(wanted > 0 && wanted < (k == 0 ? PT_BYTES : 90) &&
                       (wanted == 1 ? statistic == 0 : fits(statistic, cells)),
                   "top_p %g, top_k %lld: %d tokens (%.1f)", shares[s],
                   (long long)choice.top_k, wanted, statistic);
        }
}

/* 0 and 1 leave all; a bound met exactly needs no more tokens. */
static void test_bounds(void)
{
    double logits[PT_BYTES];
    pt_choice_t off = {.temperature = 2, .seed = 8}, one = off, half = off;
    int64_t low = 0;
    bool same = true;

    fill(logits);
    one.top_p = 1;
    for (int64_t i = 0; i < 1000; i++)
        same = same && pt_choose(&off, logits, i) == pt_choose(&one, logits, i);
    tap_ok(same, "top_p 0 and 1 are all tokens");
    for (int token = 0; token < PT_BYTES; token++)
        logits[token] = 0;
    half.top_p = 0.5;
    for (int64_t i = 0; i < 5000; i++)
        low += pt_choose(&half, logits, i) < PT_BYTES / 2;
    tap_ok(low == 5000, "half of equal tokens are the lower half");
}

static void test_likeliest(void)
{
    double logits[PT_BYTES];
    pt_choice_t cold = {.seed = 5}, one = {.temperature = 2, .top_k = 1, .seed = 5};
    pt_choice_t cool = {.temperature = 1e-300, .seed = 5};
    bool same = true;

    fill(logits);
    for (int64_t i = 0; i < 100; i++)
        same =
            same && pt_choose(&cold, logits, i) == 7 && pt_choose(&one, logits, i) == 7;
    tap_ok(same, "temperature 0 and top_k 1 take the lowest of the likeliest");
    logits[7] += 1e-6;
    same = true;
    for (int64_t i = 0; i < 100; i++)
        same = same && pt_choose(&cool, logits, i) == 7;
    tap_ok(same, "a temperature near 0 comes near that");
    logits[7] = -400, logits[9] = 700, logits[3] = -1e30;
    cool.temperature = 1000;
    tap_ok(pt_choose(&cool, logits, 3) >= 0, "huge logits do no harm");
}

static void test_seed(void)
{
    double logits[PT_BYTES];
    pt_choice_t a = {.temperature = 1, .seed = 1}, b = a, c = a;
    pt_choice_t prompt = a, continuation = a, swapped = a;
    int other = 0, prompts = 0, high = 0, continuations = 0, sides = 0;
    bool same = true;

    fill(logits);
    b.seed = 2;
    c.seed = 1 + (UINT64_C(1) << 32);
    prompt.prompt = 3;
    continuation.continuation = swapped.prompt = 70;
    for (int64_t i = 0; i < 1000; i++) {
        int token = pt_choose(&a, logits, i);

        same = same && token == pt_choose(&a, logits, i);
        other += token != pt_choose(&b, logits, i);
        high += token != pt_choose(&c, logits, i);
        prompts += token != pt_choose(&prompt, logits, i);
        continuations += token != pt_choose(&continuation, logits, i);
        sides += pt_choose(&swapped, logits, i) != pt_choose(&continuation, logits, i);
    }
    tap_ok(same, "the same seed and index give the same token");
    tap_ok(other > 100 && high > 100, "another seed gives others (%d, %d)", other, high);
    tap_ok(prompts > 100 && continuations > 100 && sides > 100,
           "so does another prompt or continuation (%d, %d, %d)", prompts,
           continuations, sides);
}

int main(void)
{
    test_frequencies();
    test_nucleus();
    test_bounds();
    test_likeliest();
    test_seed();
    return tap_done();
}
