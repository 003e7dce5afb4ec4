/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.h — which elements dropout keeps (private to the ops; shared by all
 * backends).
 *
 * Each row (a token of a sample) has a key, mixed from what the row shares. Four
 * neighbouring columns share one Philox block:
 *   key     = mix64(mix64(mix64(seed) ^ step) ^ sample), low and high word
 *   counter = (column / 4, place, head, layer << 8 | site)
 *
 * Column c takes word c % 4 and is kept iff word >= threshold, the first integer >=
 * p·2^32. `head` is 0 outside attention. In attention, the column is the place of the
 * key. */
#ifndef PT_OPS_DROPOUT_H
#define PT_OPS_DROPOUT_H

#include "penta/ops/ops.h"
#include "penta/base/rng.h"

static inline uint64_t pt_dropout_key(const pt_dropout_t *dropout, int64_t sample)
{
    uint64_t key = pt_mix64(pt_mix64(dropout->seed) ^ (uint64_t)dropout->step);
    return pt_mix64(key ^ (uint64_t)sample);
}

/* p is in [0, 1). The limit matters only for p above 1 - 2^-32. */
static inline uint32_t pt_dropout_threshold(double p)
{
    double scaled = p * 0x1p32;
    uint64_t threshold = (uint64_t)scaled;
    threshold += (double)threshold < scaled;
    return threshold > UINT32_MAX ? UINT32_MAX : (uint32_t)threshold;
}

static inline uint32_t pt_dropout_site_word(const pt_dropout_t *dropout)
{
    return (uint32_t)dropout->layer << 8 | (uint32_t)dropout->site;
}

/* Computes the four words of columns 4·block … 4·block + 3. */
static inline void pt_dropout_draw(uint64_t key, uint32_t block, uint32_t place,
                                   uint32_t head, uint32_t site_word, uint32_t word[4])
{
    const uint32_t key_words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t counter[4] = {block, place, head, site_word};
    pt_philox4x32(key_words, counter, word);
}

#endif
