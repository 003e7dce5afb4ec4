/* SPDX-License-Identifier: Apache-2.0 */
/* Says who holds what of a parameter. */
#include "penta/parallel/holders.h"

unsigned pt_holders_replicas(const pt_param_t *param)
{
    return param->expert ? PT_AXIS_BIT(PT_AXIS_EXPERT_DATA) : PT_DENSE_REPLICAS;
}

/* Fewer multiples (KV heads) than ranks: neighbours share one. */
static int holders_sharers(const pt_param_t *param, int part, int size)
{
    const pt_shard_rule_t *rule = &param->shard;
    int64_t multiples = param->part[part].shape[rule->dim] / rule->granularity;

    return rule->padded || multiples >= size ? 1 : (int)(size / multiples);
}

pt_holders_t pt_holders_of(const pt_param_t *param, int part,
                           const pt_mesh_shape_t *shape,
                           const int coordinate[PT_AXIS_COUNT])
{
    pt_axis_t axis = param->shard.axis;
    unsigned bit = PT_AXIS_BIT(axis), replicas = pt_holders_replicas(param);
    pt_holders_t holders = {
        .same = replicas, .sums = replicas, .axis = axis, .sharers = 1};

    if (param->expert)
        holders.other |= PT_AXIS_BIT(PT_AXIS_EXPERT);
    if (param->shard.kind == PT_SHARD_NONE) {
        holders.same |= bit;
        holders.sums |= param->grad == PT_PARTIAL_SUM ? bit : 0;
        holders.owner = coordinate[axis] == 0;
        return holders;
    }
    holders.other |= bit;
    holders.sharers = holders_sharers(param, part, shape->size[axis]);
    holders.owner = coordinate[axis] % holders.sharers == 0;
    return holders;
}
