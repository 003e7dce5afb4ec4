/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted blends: the file of each sample.
 *
 * With weights w that sum to 1, sample n comes from the file with the largest w ·
 * max(n, 1) - used; of equal ones the first. Here the weights are whole numbers W with
 * the sum S, so nothing is rounded.
 *
 * A file is only taken if W · n - S · used is not negative, so no file is used more
 * than W times before n = S. All uses sum to S; thus at n = S each file has been used
 * exactly W times, and the sequence repeats, except for the max of the first sample.
 * Two tables of S entries are therefore enough: for the first S samples, and for each
 * later S samples. */
#include "src/data/private.h"

#include "penta/base/alloc.h"

static int blend_choose(const pt_corpus_t *corpus, int64_t n, const int64_t *used)
{
    int64_t best = INT64_MIN;
    int chosen = 0;

    for (int p = 0; p < corpus->part_count; p++) {
        int64_t lack = corpus->parts[p].weight * n - corpus->period * used[p];
        if (lack > best) {
            best = lack;
            chosen = p;
        }
    }
    return chosen;
}

pt_status_t pt_corpus_blend(pt_corpus_t *corpus)
{
    pt_status_t status = PT_OK;
    int64_t *used = NULL;

    for (int p = 0; p < corpus->part_count; p++)
        corpus->period += corpus->parts[p].weight;
    PT_REQUIRE(corpus->period > 0 && corpus->period <= PT_BLEND_PERIOD);
    for (int table = 0; table < PT_BLEND_TABLES; table++) {
        pt_blend_turn_t *turn;
        PT_TRY_GOTO(release, PT_NEW("blend", corpus->period, &corpus->turns[table]));
        PT_TRY_GOTO(release, PT_NEW("uses of a blend", corpus->part_count, &used));
        turn = corpus->turns[table];
        for (int64_t n = 0; n < corpus->period; n++) {
            int p = blend_choose(corpus, n == 0 && table == 0 ? 1 : n, used);
            turn[n] = (pt_blend_turn_t){.part = p, .used = (int32_t)used[p]++};
        }
        pt_free(used);
        used = NULL;
    }
release:
    pt_free(used);
    return status;
}

int pt_corpus_turn(const pt_corpus_t *corpus, int64_t id, int64_t *use)
{
    int64_t round;
    const pt_blend_turn_t *turn;

    *use = id;
    if (corpus->period == 0)
        return 0;
    round = id / corpus->period;
    turn = &corpus->turns[round > 0][id % corpus->period];
    *use = round * corpus->parts[turn->part].weight + turn->used;
    return turn->part;
}
