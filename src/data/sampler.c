/* Which samples there are, and who takes which: pure functions of numbers. */
#include "src/data/private.h"

#include "penta/rng.h"

#include <math.h>

/* Whole samples in a share. 0.29 is not quite a double: its rounding is forgiven. */
static int64_t share_of(int64_t samples, double share)
{
    double part = (double)samples * share;
    int64_t whole = (int64_t)floor(part + fmin(part * 1e-12, 1e-6));

    return whole < samples ? whole : samples;
}

/* Too few tokens for one sample of training: says what would do. */
static pt_status_t too_short(const pt_corpus_t *corpus, double share)
{
    double least = ceil(1 / share * (1 - 1e-12)); /* samples, for one to train on */
    double needed = least * (double)corpus->sequence + 1;
    int64_t longest;

    PT_CHECK(needed < 0x1p53, PT_CONFIG,
             "data.split leaves the training a share of %g, too small for any text",
             share);
    longest = (corpus->tokens - 1) / (int64_t)least;
    PT_CHECK(
        longest > 0, PT_CONFIG,
        "data.path holds %lld tokens, too few to train on: train.sequence=%lld and "
        "a training share of %g (data.split) need %.0f; use more text",
        (long long)corpus->tokens, (long long)corpus->sequence, share, needed);
    return PT_FAIL(
        PT_CONFIG,
        "data.path holds %lld tokens, but train.sequence=%lld and a training "
        "share of %g (data.split) need %.0f; use more text, or at most "
        "train.sequence=%lld",
        (long long)corpus->tokens, (long long)corpus->sequence, share, needed,
        (long long)longest);
}

pt_status_t pt_corpus_cut(pt_corpus_t *corpus, const pt_config_t *config)
{
    double train, validation;
    int64_t samples, cut;

    PT_REQUIRE(corpus->sequence >= 1 && corpus->tokens >= 0);
    samples = corpus->tokens > 0 ? (corpus->tokens - 1) / corpus->sequence : 0;
    pt_config_split(config, &train, &validation);
    PT_CHECK(
        train > 0, PT_CONFIG,
        "data.split leaves nothing for training: its first number is a share above 0");
    corpus->samples[PT_SPLIT_TRAIN] = share_of(samples, train);
    if (corpus->samples[PT_SPLIT_TRAIN] == 0)
        return too_short(corpus, train);
    /* Both cuts round down, so that shares that add up to 1 leave no sample out. */
    cut = validation > 0 ? share_of(samples, 1 - validation) : samples;
    if (cut < corpus->samples[PT_SPLIT_TRAIN])
        cut = corpus->samples[PT_SPLIT_TRAIN];
    corpus->first[PT_SPLIT_VALIDATION] = cut;
    corpus->samples[PT_SPLIT_VALIDATION] = samples - cut;
    return PT_OK;
}

int64_t pt_corpus_samples(const pt_corpus_t *corpus, pt_split_t split)
{
    return corpus->samples[split];
}

int64_t pt_corpus_sample_of(const pt_corpus_t *corpus, int64_t id)
{
    int64_t samples = corpus->samples[PT_SPLIT_TRAIN];
    int64_t epoch = id / samples, index = id % samples;

    if (!corpus->shuffle)
        return index;
    return pt_permute(corpus->seed, (uint64_t)epoch, index, samples);
}

int64_t pt_loader_micro_batches(const pt_loader_options_t *options)
{
    int64_t at_once = options->replicas * options->micro_batch;

    return (options->global_batch - 1) / at_once + 1;
}

int64_t pt_loader_id(const pt_loader_options_t *options, int64_t step,
                     int64_t micro_batch, int64_t sequence)
{
    int64_t turn = micro_batch * options->replicas + options->replica;
    int64_t in_step = turn * options->micro_batch + sequence;

    if (in_step >= options->global_batch)
        return -1;
    return step * options->global_batch + in_step;
}
