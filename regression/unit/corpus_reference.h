/* SPDX-License-Identifier: Apache-2.0 */
/* What a corpus should hold, told token by token, and every sample of it compared with
 * that. */
#ifndef PT_REGRESSION_CORPUS_REFERENCE_H
#define PT_REGRESSION_CORPUS_REFERENCE_H

#include "penta/base/rng.h"
#include "regression/unit/corpus_files.h"

enum { REFERENCE_ROOM = 10 << 20, REFERENCE_LONGEST = 4096 };

static struct {
    int32_t token[REFERENCE_ROOM];
    int32_t document[REFERENCE_ROOM]; /* of each token */
    uint8_t masked[REFERENCE_ROOM];   /* by data.mask */
    int64_t tokens, files;
    int64_t documents, empty; /* with tokens, and without */
} reference;

static uint64_t draw(uint64_t below)
{
    static uint64_t state = 1;

    state += 0x9E3779B97F4A7C15u;
    return pt_mix64(state) % below;
}

__attribute__((unused)) static void expect_nothing(void)
{
    reference.tokens = reference.files = 0;
    reference.documents = reference.empty = 0;
}

/* In the newest document. */
__attribute__((unused)) static void expect_token(int64_t token)
{
    reference.token[reference.tokens] = (int32_t)token;
    reference.masked[reference.tokens] = 0;
    reference.document[reference.tokens++] = (int32_t)(reference.documents - 1);
}

/* The sample whose first token is number `first`. */
static int64_t check_sample(const pt_corpus_t *corpus, pt_split_t split, int64_t index,
                            int64_t first)
{
    enum { LONG = REFERENCE_LONGEST };
    static int32_t token[LONG], label[LONG], place[LONG], position[LONG], number[LONG];
    static int64_t sample[LONG];
    static uint8_t mask[LONG];
    pt_sequence_t out = {token, label, place, position, number, sample, mask};
    int64_t valid = -1, expected = 0, wrong = 0, id = 1000 + index;

    if (pt_corpus_fill(corpus, split, index, id, &out, &valid) != PT_OK)
        return 1;
    for (int64_t t = 0; t < config.train.sequence; t++) {
        const int32_t *here = &reference.document[first + t];
        int counts = (!config.data.document_mask || here[0] == here[1]) &&
                     !reference.masked[first + t + 1];
        expected += counts;
        wrong += token[t] != reference.token[first + t];
        wrong += label[t] != reference.token[first + t + 1];
        wrong += place[t] != t || position[t] != t || sample[t] != id;
        wrong += mask[t] != counts;
        wrong += config.data.document_mask &&
                 number[t] != here[0] - reference.document[first];
    }
    return wrong + (valid != expected);
}

/* Opens the corpus: every sample of both splits, the first from 0 and the other to the
 * end. Returns what is wrong. */
__attribute__((unused)) static int64_t check_corpus(int64_t vocab)
{
    pt_corpus_t *corpus;
    int64_t T = config.train.sequence, all = (reference.tokens - 1) / T, wrong;
    int64_t train, validation;

    if (pt_corpus_open(&config, vocab, true, &corpus) != PT_OK) {
        tap_note("%s", pt_error_last()->text);
        pt_error_clear();
        return 1;
    }
    train = pt_corpus_samples(corpus, PT_SPLIT_TRAIN);
    validation = pt_corpus_samples(corpus, PT_SPLIT_VALIDATION);
    wrong = pt_corpus_tokens(corpus) != reference.tokens || train + validation != all;
    /* Nobody asked: not looked for inside files. */
    wrong += pt_corpus_documents(corpus) != (config.data.document_mask
                                                 ? reference.documents + reference.empty
                                                 : reference.files);
    for (int64_t k = 0; k < train; k++)
        wrong += check_sample(corpus, PT_SPLIT_TRAIN, k, k * T);
    for (int64_t k = 0; k < validation; k++)
        wrong += check_sample(corpus, PT_SPLIT_VALIDATION, k, (train + k) * T);
    pt_corpus_close(corpus);
    return wrong;
}

#endif
