/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/rng.h"
#include "src/cmd/sample.h"

#include <math.h>
#include <stdbool.h>

/* Separates these random numbers from others with the same seed. */
static const uint32_t stream_of_choices = 0x53414d50;

static double choice_draw(const pt_choice_t *choice, int64_t index)
{
    uint32_t key[2] = {(uint32_t)choice->seed, (uint32_t)(choice->seed >> 32)}, out[4];
    uint32_t counter[4] = {(uint32_t)index, choice->prompt, stream_of_choices,
                           choice->continuation};

    pt_philox4x32(key, counter, out);
    return pt_uniform(out[0], out[1]);
}

static int choice_likeliest(const double *logits)
{
    int best = 0;

    for (int token = 1; token < PT_BYTES; token++)
        if (logits[token] > logits[best])
            best = token;
    return best;
}

/* Sorts tokens by falling logit; of equal ones the lower token comes first. */
static void choice_sort(const double *logits, int order[PT_BYTES])
{
    for (int token = 0; token < PT_BYTES; token++) {
        int place = token;

        for (; place > 0 && logits[order[place - 1]] < logits[token]; place--)
            order[place] = order[place - 1];
        order[place] = token;
    }
}

/* Number of likeliest tokens that together have at least the share top_p of the first
 * `kept` ones. */
static int choice_nucleus(double top_p, const double *weight, const int *order, int kept)
{
    double sum = 0, before = 0;

    for (int i = 0; i < kept; i++)
        sum += weight[order[i]];
    for (int i = 0; i < kept; i++) {
        before += weight[order[i]];
        if (before >= top_p * sum)
            return i + 1;
    }
    return kept;
}

int pt_choose(const pt_choice_t *choice, const double logits[PT_BYTES], int64_t index)
{
    bool all = choice->top_k == 0 || choice->top_k >= PT_BYTES;
    int best = choice_likeliest(logits), kept = all ? PT_BYTES : (int)choice->top_k;
    int order[PT_BYTES];
    double weight[PT_BYTES], sum = 0, target;

    if (choice->temperature == 0)
        return best;
    choice_sort(logits, order);
    for (int token = 0; token < PT_BYTES; token++)
        weight[token] = exp((logits[token] - logits[best]) / choice->temperature);
    if (choice->top_p > 0 && choice->top_p < 1)
        kept = choice_nucleus(choice->top_p, weight, order, kept);
    for (int i = kept; i < PT_BYTES; i++)
        weight[order[i]] = 0;
    for (int token = 0; token < PT_BYTES; token++)
        sum += weight[token];
    target = choice_draw(choice, index) * sum;
    for (int token = 0; token < PT_BYTES; token++) {
        target -= weight[token];
        if (target < 0)
            return token;
    }
    return best; /* rounding left a small rest of target */
}
