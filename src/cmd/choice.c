#include "penta/rng.h"
#include "src/cmd/sample.h"

#include <math.h>
#include <stdbool.h>

/* Keeps these random numbers apart from others of the same seed. */
static const uint32_t stream_of_choices = 0x53414d50;

static double draw(uint64_t seed, int64_t index)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32),
                           stream_of_choices, 0};

    pt_philox4x32(key, counter, out);
    return pt_uniform(out[0], out[1]);
}

/* Tokens in front of this one: likelier, or as likely and lower. */
static int rank_of(const double *logits, int token)
{
    int rank = 0;

    for (int other = 0; other < PT_BYTES; other++)
        rank += logits[other] > logits[token] ||
                (logits[other] == logits[token] && other < token);
    return rank;
}

static int likeliest(const double *logits)
{
    int best = 0;

    for (int token = 1; token < PT_BYTES; token++)
        if (logits[token] > logits[best])
            best = token;
    return best;
}

int pt_choose(const pt_choice_t *choice, const double logits[PT_BYTES], int64_t index)
{
    bool all = choice->top_k == 0 || choice->top_k >= PT_BYTES;
    int best = likeliest(logits);
    double weight[PT_BYTES], sum = 0, target;

    if (choice->temperature == 0)
        return best;
    for (int token = 0; token < PT_BYTES; token++) {
        bool kept = all || rank_of(logits, token) < choice->top_k;

        weight[token] =
            kept ? exp((logits[token] - logits[best]) / choice->temperature) : 0;
        sum += weight[token];
    }
    target = draw(choice->seed, index) * sum;
    for (int token = 0; token < PT_BYTES; token++) {
        target -= weight[token];
        if (target < 0)
            return token;
    }
    return best; /* rounding left a crumb of target */
}
