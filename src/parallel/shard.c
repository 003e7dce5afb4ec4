/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/parallel/shard.h"

/* Zigzag (doc/glossary.md): 2·size equal chunks, rank r holds r and 2·size-1-r, so that each rank
 * has the same share of a causal triangle. */
static int shard_zigzag_extents(int64_t length, int index, int size, pt_extent_t *out)
{
    int64_t chunk = length / (2 * size);
    out[0] = (pt_extent_t){index * chunk, chunk, 0, chunk};
    out[1] = (pt_extent_t){(2 * size - 1 - index) * chunk, chunk, chunk, chunk};
    return 2;
}

/* Equal shares, the last ones lacking what there is not. */
static int shard_padded_extents(int64_t length, int64_t granularity, int index,
                                int size, pt_extent_t *out)
{
    int64_t multiples = (length + granularity - 1) / granularity;
    int64_t share = (multiples + size - 1) / size * granularity;
    int64_t first = index * share < length ? index * share : length;
    int64_t count = length - first < share ? length - first : share;
    *out = (pt_extent_t){first, count, 0, share};
    return 1;
}

int pt_shard_extents(const pt_shard_rule_t *rule, int parts, const int64_t *part_length,
                     int index, int size, pt_extent_t *out)
{
    int64_t start = 0, local = 0;
    if (rule->kind == PT_SHARD_ZIGZAG)
        return shard_zigzag_extents(part_length[0], index, size, out);
    if (rule->padded)
        return shard_padded_extents(part_length[0], rule->granularity, index, size, out);
    int cuts = rule->kind == PT_SHARD_NONE ? 1 : size;
    int cut = rule->kind == PT_SHARD_NONE ? 0 : index;
    for (int p = 0; p < parts; p++) {
        int64_t multiples = part_length[p] / rule->granularity;
        /* Fewer multiples (KV heads) than ranks: neighbours share one. */
        int64_t sharers = multiples < cuts ? cuts / multiples : 1;
        int64_t mine = multiples / (cuts / sharers) * rule->granularity;
        out[p] = (pt_extent_t){start + cut / sharers * mine, mine, local, mine};
        start += part_length[p];
        local += mine;
    }
    return parts;
}

int pt_range_hyperslabs(int ndim, const int64_t *shape, int64_t first, int64_t count,
                        pt_hyperslab_t out[PT_RANGE_HYPERSLABS])
{
    int slabs = 0;
    int64_t done = 0;
    while (done < count) {
        /* The largest box from here: grow the dimension as long as we stand at its start and all of
         * it is wanted. */
        pt_hyperslab_t slab = {.count = {1, 1, 1}, .local = done};
        int64_t at = first + done, left = count - done, pitch = 1;
        int grow = ndim - 1;
        while (grow > 0 && at % (pitch * shape[grow]) == 0 &&
               left >= pitch * shape[grow])
            pitch *= shape[grow--];
        int64_t index = at / pitch % shape[grow], room = shape[grow] - index;
        int64_t take = left / pitch < room ? left / pitch : room;
        for (int d = grow + 1; d < ndim; d++)
            slab.count[d] = shape[d];
        slab.count[grow] = take;
        slab.start[grow] = index;
        int64_t outer = at / pitch / shape[grow];
        for (int d = grow - 1; d >= 0; d--) {
            slab.start[d] = outer % shape[d];
            outer /= shape[d];
        }
        out[slabs++] = slab;
        done += take * pitch;
    }
    return slabs;
}
