/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/parallel/shard.h"

#include <string.h>

/* Boxes of a range against a walk over every element. */
static int range_is_covered(int ndim, const int64_t *shape, int64_t first, int64_t count)
{
    static unsigned char seen[4096];
    pt_hyperslab_t slab[PT_RANGE_HYPERSLABS];
    int slabs = pt_range_hyperslabs(ndim, shape, first, count, slab);
    int64_t full[3] = {1, 1, 1}, expected = 0;
    memset(seen, 0, sizeof seen);
    memcpy(full, shape, (size_t)ndim * sizeof *shape);
    if (slabs > PT_RANGE_HYPERSLABS)
        return 0;
    for (int s = 0; s < slabs; s++) {
        const int64_t *at = slab[s].start, *n = slab[s].count;
        if (slab[s].local != expected)
            return 0;
        for (int64_t a = 0; a < n[0]; a++)
            for (int64_t b = 0; b < n[1]; b++)
                for (int64_t c = 0; c < n[2]; c++) {
                    int64_t index =
                        ndim == 1 ? at[0] + a
                        : ndim == 2
                            ? (at[0] + a) * full[1] + at[1] + b
                            : ((at[0] + a) * full[1] + at[1] + b) * full[2] + at[2] + c;
                    /* dense and in order: the next element of the range */
                    if (index != first + expected++)
                        return 0;
                    seen[index]++;
                }
    }
    for (int64_t i = 0; i < full[0] * full[1] * full[2]; i++)
        if (seen[i] != (i >= first && i < first + count))
            return 0;
    return 1;
}

static void test_ranges(void)
{
    static const int64_t shapes[][3] = {{1, 1, 1}, {7, 1, 1}, {3, 5, 1}, {5, 3, 1},
                                        {1, 6, 1}, {6, 1, 1}, {2, 3, 4}, {3, 1, 5},
                                        {4, 2, 1}, {2, 2, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int ndim = 1; ndim <= 3; ndim++) {
            int64_t total = 1;
            int bad = 0;
            for (int d = 0; d < ndim; d++)
                total *= shapes[s][d];
            for (int64_t first = 0; first <= total; first++)
                for (int64_t count = 0; first + count <= total; count++)
                    bad += !range_is_covered(ndim, shapes[s], first, count);
            tap_ok(bad == 0, "every range of %lldx%lldx%lld in %d dimensions: %d wrong",
                   (long long)shapes[s][0], (long long)shapes[s][1],
                   (long long)shapes[s][2], ndim, bad);
        }
    }
}

/* All ranks together hold each element `copies` times, in ascending order within each
 * part. */
static void test_extents(const pt_shard_rule_t *rule, int parts, const int64_t *length,
                         int size, int copies, const char *name)
{
    int held[256] = {0}, bad = 0;
    int64_t total = 0;
    for (int p = 0; p < parts; p++)
        total += length[p];
    for (int r = 0; r < size; r++) {
        pt_extent_t e[8];
        int n = pt_shard_extents(rule, parts, length, r, size, e);
        int64_t local = 0;
        for (int i = 0; i < n; i++) {
            bad += e[i].local_first != local || e[i].first % rule->granularity != 0;
            local += e[i].count;
            for (int64_t k = 0; k < e[i].count; k++)
                held[e[i].first + k]++;
        }
    }
    for (int64_t i = 0; i < total; i++)
        bad += held[i] != copies;
    tap_ok(bad == 0, "%s over %d ranks: each element held %d times", name, size, copies);
}

int main(void)
{
    const int64_t qkv[3] = {48, 24, 24}, whole[1] = {96}, sequence[1] = {32};
    const pt_shard_rule_t plain = {PT_SHARD_PLAIN, 0, PT_AXIS_TENSOR, 1, false};
    const pt_shard_rule_t none = {PT_SHARD_NONE, 0, PT_AXIS_TENSOR, 1, false};
    const pt_shard_rule_t heads = {PT_SHARD_BLOCKED, 0, PT_AXIS_TENSOR, 12, false};
    const pt_shard_rule_t zigzag = {PT_SHARD_ZIGZAG, 0, PT_AXIS_CONTEXT, 1, false};
    pt_extent_t e[8];
    test_ranges();
    test_extents(&none, 1, whole, 4, 4, "none");
    for (int size = 1; size <= 8; size *= 2)
        test_extents(&plain, 1, whole, size, 1, "plain");
    for (int size = 1; size <= 2; size *= 2)
        test_extents(&heads, 3, qkv, size, 1, "blocked q|k|v");
    for (int size = 1; size <= 8; size *= 2)
        test_extents(&zigzag, 1, sequence, size, 1, "zigzag");
    /* 2 KV heads over 4 ranks: neighbours share one, queries do not. */
    pt_shard_extents(&heads, 3, qkv, 3, 4, e);
    tap_ok(e[0].first == 36 && e[0].count == 12, "rank 3 of 4 has query head 3");
    tap_ok(e[1].first == 60 && e[1].count == 12, "rank 3 of 4 has key head 1");
    pt_shard_extents(&heads, 3, qkv, 2, 4, e);
    tap_ok(e[1].first == 60 && e[2].first == 84,
           "rank 2 of 4 shares key and value head 1");
    /* Zigzag halves the triangle evenly (anchor X04: 34 of 136 pairs each at CP 4, 16
     * tokens). */
    for (int r = 0; r < 4; r++) {
        const int64_t tokens[1] = {16};
        int64_t work = 0;
        pt_shard_extents(&zigzag, 1, tokens, r, 4, e);
        for (int i = 0; i < 2; i++)
            for (int64_t k = 0; k < e[i].count; k++)
                work += e[i].first + k + 1;
        tap_ok(work == 34, "zigzag rank %d does %lld of 136 pairs", r, (long long)work);
    }
    return tap_done();
}
