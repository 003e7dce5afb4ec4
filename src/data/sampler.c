/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of a corpus and their order: pure functions. */
#include "src/data/private.h"

#include "penta/base/rng.h"

#include <math.h>

/* Whole samples in a share. The tolerance compensates the rounding of a share such as
 * 0.29 to fp64. */
static int64_t sampler_share_of(int64_t samples, double share)
{
    double part = (double)samples * share;
    int64_t whole = (int64_t)floor(part + fmin(part * 1e-12, 1e-6));

    return whole < samples ? whole : samples;
}

/* Raises: too few tokens for one training sample, with the number needed. */
static pt_status_t sampler_too_short(const pt_corpus_t *corpus,
                                     const pt_corpus_part_t *part, double share)
{
    /* samples, of which one is for training */
    double least = ceil(1 / share * (1 - 1e-12));
    double needed = least * (double)corpus->sequence + 1;
    int64_t longest;

    PT_CHECK(needed < 0x1p53, PT_CONFIG,
             "data.split leaves the training a share of %g, too small for any text",
             share);
    longest = (part->tokens - 1) / (int64_t)least;
    PT_CHECK(longest > 0, PT_CONFIG,
             "%s holds %lld tokens, too few to train on: train.sequence=%lld and "
             "a training share of %g (data.split) need %.0f; use more text",
             part->name, (long long)part->tokens, (long long)corpus->sequence, share,
             needed);
    return PT_FAIL(PT_CONFIG,
                   "%s holds %lld tokens, but train.sequence=%lld and a training "
                   "share of %g (data.split) need %.0f; use more text, or at most "
                   "train.sequence=%lld",
                   part->name, (long long)part->tokens, (long long)corpus->sequence,
                   share, needed, (long long)longest);
}

static pt_status_t sampler_cut_part(const pt_corpus_t *corpus, double train,
                                    double validation, pt_corpus_part_t *part)
{
    int64_t samples, cut;

    PT_REQUIRE(corpus->sequence >= 1 && part->tokens >= 0);
    samples = part->tokens > 0 ? (part->tokens - 1) / corpus->sequence : 0;
    PT_CHECK(train > 0 || samples > 0, PT_CONFIG,
             "%s: %s holds %lld tokens, but train.sequence=%lld needs %lld: use more",
             corpus->option, part->name, (long long)part->tokens,
             (long long)corpus->sequence, (long long)corpus->sequence + 1);
    part->samples[PT_SPLIT_TRAIN] = sampler_share_of(samples, train);
    if (train > 0 && part->samples[PT_SPLIT_TRAIN] == 0)
        return sampler_too_short(corpus, part, train);
    /* Both are rounded down, so that shares that sum to 1 leave no sample out. */
    cut = validation > 0 ? sampler_share_of(samples, 1 - validation) : samples;
    if (cut < part->samples[PT_SPLIT_TRAIN])
        cut = part->samples[PT_SPLIT_TRAIN];
    part->first[PT_SPLIT_VALIDATION] = cut;
    part->samples[PT_SPLIT_VALIDATION] = samples - cut;
    return PT_OK;
}

pt_status_t pt_corpus_cut(pt_corpus_t *corpus, double train, double validation)
{
    for (int p = 0; p < corpus->part_count; p++) {
        pt_corpus_part_t *part = &corpus->parts[p];
        PT_TRY(sampler_cut_part(corpus, train, validation, part));
        for (int split = 0; split < PT_SPLITS; split++) {
            part->before[split] = corpus->samples[split];
            corpus->samples[split] += part->samples[split];
        }
    }
    return PT_OK;
}

int64_t pt_corpus_samples(const pt_corpus_t *corpus, pt_split_t split)
{
    return corpus->samples[split];
}

int64_t pt_corpus_sample_of(const pt_corpus_t *corpus, int64_t id)
{
    int64_t use;
    int p = pt_corpus_turn(corpus, id, &use);
    const pt_corpus_part_t *part = &corpus->parts[p];
    int64_t samples = part->samples[PT_SPLIT_TRAIN];
    int64_t epoch = use / samples, index = use % samples;
    /* Parts of equal length get different orders. */
    uint64_t seed = corpus->seed + (uint64_t)p * UINT64_C(0x9E3779B97F4A7C15);

    if (corpus->shuffle)
        index = pt_permute(seed, (uint64_t)epoch, index, samples);
    return part->before[PT_SPLIT_TRAIN] + index;
}

int64_t pt_corpus_first_token(const pt_corpus_t *corpus, pt_split_t split, int64_t index)
{
    const pt_corpus_part_t *part = corpus->parts;

    /* So that a validation on the first samples uses samples of every file. */
    if (corpus->period > 0 && split == PT_SPLIT_VALIDATION)
        index = pt_permute(corpus->seed, 0, index, corpus->samples[split]);
    while (index - part->before[split] >= part->samples[split])
        part++;
    index += part->first[split] - part->before[split];
    return part->start + index * corpus->sequence;
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
