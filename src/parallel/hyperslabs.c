/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/parallel/units.h"

/* A range of a bucket meets a part of a parameter in one run of the part's local rows; in the
 * coordinates of this rank's shard that run is a few hyperslabs, and moving them by where the
 * shard begins gives hyperslabs of the global tensor. */
int pt_units_hyperslabs(const pt_units_t *units, int param, int part,
                        pt_bucket_range_t range, pt_hyperslab_t out[PT_RANGE_HYPERSLABS])
{
    const pt_param_t *p = pt_units_param(units, param);
    const pt_part_t *named = &p->part[part];
    pt_extent_t extent = pt_units_part_extent(units, param, part);
    int64_t shape[PT_HYPERSLAB_DIMS], inner = 1;
    for (int d = 0; d < named->ndim; d++)
        shape[d] = named->shape[d];
    if (p->shard.kind != PT_SHARD_NONE)
        shape[p->shard.dim] = extent.count;
    for (int d = 1; d < named->ndim; d++)
        inner *= shape[d];
    int64_t start =
        pt_units_offset(units, param) + pt_units_part_row(units, param, part) * inner;
    int64_t end = start + shape[0] * inner, last = range.first + range.count;
    int64_t first = start > range.first ? start : range.first;
    int64_t count = (end < last ? end : last) - first;
    if (count <= 0)
        return 0;
    int slabs = pt_range_hyperslabs(named->ndim, shape, first - start, count, out);
    for (int s = 0; s < slabs; s++) {
        out[s].local += first - range.first;
        if (p->shard.kind != PT_SHARD_NONE)
            out[s].start[p->shard.dim] += extent.first;
    }
    return slabs;
}
