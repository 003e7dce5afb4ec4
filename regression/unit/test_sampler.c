/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes which sample: every id once, whatever the batch and the replicas. */
#include "penta/data/data.h"
#include "penta/base/rng.h"
#include "regression/tap.h"

#include <string.h>

enum { MOST = 4096, T = 8 };

static pt_config_t config;

static pt_corpus_t *open_samples(int64_t samples, const char *split, bool shuffle)
{
    pt_corpus_t *corpus = NULL;

    pt_config_defaults(&config);
    config.train.sequence = T;
    config.data.shuffle = shuffle;
    pt_config_set(&config, "data.split", split, "test");
    if (pt_corpus_open_dry(&config, samples * T + 1, &corpus) != PT_OK) {
        tap_ok(0, "%s", pt_error_last()->text);
        exit(1);
    }
    return corpus;
}

/* Counts the ids that all replicas take in a step; returns the padding sequences. */
static int64_t take_step(pt_loader_options_t options, int64_t step, uint8_t *taken)
{
    int64_t padding = 0;

    for (options.replica = 0; options.replica < options.replicas; options.replica++)
        for (int64_t m = 0; m < pt_loader_micro_batches(&options); m++)
            for (int64_t b = 0; b < options.micro_batch; b++) {
                int64_t id = pt_loader_id(&options, step, m, b);
                if (id < 0)
                    padding++;
                else if (id < MOST)
                    taken[id]++;
            }
    return padding;
}

/* The number of replicas changes; ids [0, steps·G) must come once each. */
static void test_union(int64_t G, int64_t B, int replicas, int replicas_later)
{
    pt_loader_options_t options = {.global_batch = G, .micro_batch = B, .contexts = 1};
    uint8_t taken[MOST] = {0};
    int64_t steps = 12, wrong = 0;

    for (int64_t step = 0; step < steps; step++) {
        int64_t sequences;
        options.replicas = step < 5 ? replicas : replicas_later;
        sequences = options.replicas * B;
        while (sequences < G)
            sequences += options.replicas * B;
        wrong += pt_loader_micro_batches(&options) * options.replicas * B != sequences;
        wrong += take_step(options, step, taken) != sequences - G;
        for (int64_t id = 0; id < MOST; id++)
            wrong += taken[id] != (id < (step + 1) * G);
    }
    tap_ok(wrong == 0, "batch %lld by %lld on %d, later %d replicas", (long long)G,
           (long long)B, replicas, replicas_later);
}

static void test_numbering(void)
{
    pt_loader_options_t options = {.global_batch = 20,
                                   .micro_batch = 3,
                                   .replicas = 2,
                                   .replica = 1,
                                   .contexts = 1};

    /* Micro-batch i of replica r of W: ids sG + (iW + r)B … + B - 1. */
    tap_ok(pt_loader_id(&options, 0, 0, 0) == 3 &&
               pt_loader_id(&options, 7, 2, 1) == 156,
           "ids by the formula");
    tap_ok(pt_loader_id(&options, 7, 3, 0) == -1 &&
               pt_loader_id(&options, 7, 2, 2) == 157,
           "ids past the end of a step are padding");
    options.global_batch = INT64_C(1) << 40;
    tap_ok(pt_loader_id(&options, (1 << 22) - 1, 0, 2) ==
               (INT64_C(1) << 62) - (INT64_C(1) << 40) + 5,
           "ids beyond 2^61");
}

static int64_t order_of(const pt_corpus_t *corpus, int64_t epoch, int64_t samples,
                        int64_t *order)
{
    uint8_t seen[MOST] = {0};
    int64_t wrong = 0;

    for (int64_t i = 0; i < samples; i++) {
        order[i] = pt_corpus_sample_of(corpus, epoch * samples + i);
        if (order[i] < 0 || order[i] >= samples || seen[order[i]]++)
            wrong++;
    }
    return wrong;
}

static void test_epochs(int64_t samples)
{
    static int64_t order[MOST], before[MOST];
    pt_corpus_t *corpus = open_samples(samples, "1,0", true);
    int64_t wrong = 0, same = 0;

    for (int64_t epoch = 0; epoch < 8; epoch++) {
        wrong += order_of(corpus, epoch, samples, order);
        same += memcmp(order, before, (size_t)samples * sizeof *order) == 0;
        memcpy(before, order, sizeof order);
    }
    tap_ok(wrong == 0, "each of %lld samples once in every epoch", (long long)samples);
    if (samples >= 16)
        tap_ok(same == 0, "every epoch has its order");
    pt_corpus_close(corpus);
}

/* Chi-square of (place, sample) over many epochs: 16 degrees of freedom; beyond 45.9
 * with probability 1e-4, and the seed is fixed. */
static void test_uniform(void)
{
    enum { SAMPLES = 5, EPOCHS = 4000 };
    pt_corpus_t *corpus = open_samples(SAMPLES, "1,0", true);
    int64_t order[SAMPLES], count[SAMPLES][SAMPLES] = {{0}};
    double expected = (double)EPOCHS / SAMPLES, distance = 0;

    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        order_of(corpus, epoch, SAMPLES, order);
        for (int i = 0; i < SAMPLES; i++)
            count[i][order[i]]++;
    }
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < SAMPLES; k++) {
            double off = (double)count[i][k] - expected;
            distance += off * off / expected;
        }
    tap_ok(distance < 45.9, "places are uniform: chi-square %.1f", distance);
    pt_corpus_close(corpus);
}

static void test_order_options(void)
{
    pt_corpus_t *corpus = open_samples(100, "1,0", false), *other;
    int64_t wrong = 0, same = 0;

    for (int64_t id = 0; id < 300; id++)
        wrong += pt_corpus_sample_of(corpus, id) != id % 100;
    tap_ok(wrong == 0, "without shuffling the order is that of the text");
    pt_corpus_close(corpus);
    corpus = open_samples(100, "1,0", true);
    config.train.seed++;
    if (pt_corpus_open_dry(&config, 100 * T + 1, &other) != PT_OK)
        return;
    for (int64_t id = 0; id < 100; id++)
        same += pt_corpus_sample_of(corpus, id) == pt_corpus_sample_of(other, id);
    tap_ok(same < 20, "another seed, another order");
    pt_corpus_close(other);
    pt_corpus_close(corpus);
}

static void test_splits(void)
{
    static const struct {
        int64_t samples;
        const char *split;
        int64_t train, validation;
    } rows[] = {
        {100, "0.95,0.05", 95, 5},
        {39, "0.95,0.05", 37, 2},
        {100, "0.29,0.71", 29, 71},
        {10, "0.9,0.1", 9, 1},
        {10, "0.3,0.7", 3, 7},
        {10, "1,0", 10, 0},
        {10, "0.5,0.2", 5, 2},
        {11, "0.5,0.25", 5, 3},
        {2, "0.5,0.5", 1, 1},
        {1000000, "0.999,0.001", 999000, 1000},
        {7, "0.5,0", 3, 0},
        {INT64_C(1) << 50, "0.75,0.25", INT64_C(3) << 48, INT64_C(1) << 48},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pt_corpus_t *corpus = open_samples(rows[i].samples, rows[i].split, true);
        int64_t train = pt_corpus_samples(corpus, PT_SPLIT_TRAIN);
        int64_t validation = pt_corpus_samples(corpus, PT_SPLIT_VALIDATION);
        tap_ok(train == rows[i].train && validation == rows[i].validation,
               "%lld samples split %s: %lld, %lld", (long long)rows[i].samples,
               rows[i].split, (long long)train, (long long)validation);
        pt_corpus_close(corpus);
    }
}

static void test_dry(void)
{
    pt_corpus_t *corpus = open_samples(10, "1,0", true);
    int32_t numbers[5][T];
    int64_t sample[T], valid = 0, sum = 0;
    uint8_t mask[T];
    pt_sequence_t out = {numbers[0], numbers[1], numbers[2], numbers[3],
                         numbers[4], sample,     mask};

    memset(numbers, 1, sizeof numbers);
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 3, 3, &out, &valid) == PT_OK &&
               valid == T,
           "a dry sequence is wholly valid");
    for (int t = 0; t < T; t++)
        sum += numbers[0][t] + numbers[1][t] + (mask[t] != 1);
    tap_ok(sum == 0, "a dry sequence is zeros");
    tap_ok(pt_corpus_tokens(corpus) == 81 && pt_corpus_documents(corpus) == 1,
           "a dry corpus is one document");
    pt_corpus_close(corpus);
    tap_ok(pt_corpus_open_dry(&config, T, &corpus) == PT_CONFIG && !corpus, "%s",
           pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_corpus_open_dry(&config, 0, &corpus) == PT_CONFIG && !corpus, "%s",
           pt_error_last()->text);
    pt_error_clear();
}

int main(void)
{
    static const int64_t batches[][2] = {{1, 1}, {7, 2},  {16, 4},
                                         {5, 8}, {30, 3}, {13, 1}};
    static const int64_t sizes[] = {1, 2, 3, 16, 17, 1000, 4096};

    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++)
        for (int replicas = 1; replicas <= 5; replicas++)
            test_union(batches[i][0], batches[i][1], replicas, 1 + 3 * replicas % 7);
    test_numbering();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        test_epochs(sizes[i]);
    test_uniform();
    test_order_options();
    test_splits();
    test_dry();
    return tap_done();
}
