/* SPDX-License-Identifier: Apache-2.0 */
#include "src/parallel/units_private.h"
#include "penta/base/alloc.h"

pt_comm_t *pt_bucket_comm(const pt_units_t *units, const bucket_t *bucket)
{
    return bucket->expert ? units->mesh->expert_replicas : units->mesh->dense_replicas;
}

/* ---- layout ------------------------------------------------------------------------------------ */

static int units_axis_rank(const pt_units_t *units, pt_axis_t axis)
{
    return units->mesh->coordinate[axis];
}

static int units_part_extents(const pt_units_t *units, const pt_param_t *param,
                              pt_extent_t *out)
{
    const pt_shard_rule_t *rule = &param->shard;
    int64_t length[PT_MAX_PARTS];
    int parts = rule->kind == PT_SHARD_BLOCKED ? param->parts : 1;
    for (int p = 0; p < parts; p++)
        length[p] =
            parts > 1 ? param->part[p].shape[rule->dim] : param->shape[rule->dim];
    return pt_shard_extents(rule, parts, length, units_axis_rank(units, rule->axis),
                            units->mesh->shape.size[rule->axis], out);
}

static pt_tensor_t units_local_shape(const pt_units_t *units, const pt_param_t *param)
{
    pt_extent_t extent[PT_MAX_PARTS];
    int64_t shape[PT_HYPERSLAB_DIMS], along = 0;
    int extents = units_part_extents(units, param, extent);
    for (int e = 0; e < extents; e++)
        along += extent[e].local_count;
    for (int d = 0; d < param->ndim; d++)
        shape[d] = d == param->shard.dim ? along : param->shape[d];
    pt_dtype_t dtype = units->options.weight_dtype;
    pt_tensor_t local =
        param->ndim == 1 ? pt_tensor_1d(NULL, dtype, PT_MEMORY_DEVICE, shape[0])
        : param->ndim == 2
            ? pt_tensor_2d(NULL, dtype, PT_MEMORY_DEVICE, shape[0], shape[1])
            : pt_tensor_3d(NULL, dtype, PT_MEMORY_DEVICE, shape[0], shape[1], shape[2]);
    if (param->shard.kind != PT_SHARD_NONE)
        local.dist[param->shard.axis] =
            (pt_dist_t){PT_SHARDED, (int8_t)param->shard.dim};
    return local;
}

/* May `unit` join `bucket`? Neighbours of one kind merge until the bucket is large enough. */
static bool units_joins(const pt_units_t *units, const bucket_t *bucket, bool expert)
{
    int64_t bytes =
        bucket->elements * (int64_t)pt_dtype_size(units->options.grad_dtype);
    return bucket->units > 0 && bucket->expert == expert &&
           bytes < units->options.merge_bytes;
}

/* Walks the table, whose parameters ascend by unit, and puts each behind the last. */
static void units_assign_buckets(pt_units_t *units)
{
    int unit = -1;
    for (int p = 0; p < units->table->count; p++) {
        const pt_param_t *param = &units->table->params[p];
        place_t *place = &units->place[p];
        place->bucket = -1;
        if (param->stage != units->mesh->coordinate[PT_AXIS_PIPELINE])
            continue;
        bucket_t *bucket = &units->bucket[units->buckets > 0 ? units->buckets - 1 : 0];
        if (param->unit != unit) {
            unit = param->unit;
            if (units->buckets == 0 || !units_joins(units, bucket, param->expert))
                bucket = &units->bucket[units->buckets++];
            bucket->expert = param->expert;
            bucket->units++;
            units->bucket_of_unit[unit] = units->buckets - 1;
        }
        place->bucket = units->buckets - 1;
        place->local = units_local_shape(units, param);
        place->offset = bucket->elements;
        bucket->elements += pt_round_up(pt_tensor_count(&place->local), PT_SHARD_ALIGN);
    }
    for (int b = 0; b < units->buckets; b++)
        units->bucket[b].unfinished = units->bucket[b].units;
}

pt_status_t pt_units_create(const pt_param_table_t *table, const pt_mesh_t *mesh,
                            pt_device_t *device, const pt_units_options_t *options,
                            pt_units_t **out)
{
    pt_status_t status;
    pt_units_t *units = NULL;
    *out = NULL;
    PT_REQUIRE(options->zero >= 0 && options->zero <= 1 && options->in_flight >= 1);
    PT_TRY(PT_NEW("units", 1, &units));
    *units = (pt_units_t){
        .table = table, .mesh = mesh, .device = device, .options = *options};
    PT_TRY_GOTO(fail, PT_NEW("buckets", table->units, &units->bucket));
    PT_TRY_GOTO(fail, PT_NEW("bucket of unit", table->units, &units->bucket_of_unit));
    PT_TRY_GOTO(fail, PT_NEW("parameter places", table->count, &units->place));
    PT_TRY_GOTO(fail, PT_NEW("reduction order", table->units, &units->order));
    units_assign_buckets(units);
    *out = units;
    return PT_OK;
fail:
    pt_units_destroy(units);
    return status;
}

void pt_units_destroy(pt_units_t *units)
{
    if (units == NULL)
        return;
    if (units->bucket && !pt_error_is_fatal()) /* the memory they write to goes next */
        (void)pt_units_settle(units, NULL);
    pt_free(units->order);
    pt_free(units->place);
    pt_free(units->bucket_of_unit);
    pt_free(units->bucket);
    pt_free(units);
}

/* Bytes of a piece to each replica: no more than a share of the largest bucket, so that a small model has a small
 * ring. */
static int64_t units_peer_bytes(int64_t largest, int replicas, pt_dtype_t dtype)
{
    int64_t share = (largest + replicas - 1) / replicas;
    int64_t bytes = pt_round_up(share, PT_SHARD_ALIGN) * (int64_t)pt_dtype_size(dtype);
    int64_t most = pt_ring_peer_bytes(replicas);
    return bytes < most ? bytes : most;
}

/* The rings through which buckets of one kind are summed and gathered. */
static pt_status_t units_layout_rings(pt_units_t *units, bool expert,
                                      pt_arena_t *communication)
{
    const pt_mesh_t *mesh = units->mesh;
    pt_comm_t *sums = expert ? mesh->expert_replicas : mesh->dense_replicas;
    pt_comm_t *gathers = expert ? mesh->expert_gather : mesh->dense_gather;
    pt_dtype_t wire_dtype = units->options.wire_dtype;
    pt_ring_options_t ring = {.slots = units->options.in_flight};
    int replicas = pt_comm_size(sums);
    int64_t largest = 0;
    for (int b = 0; b < units->buckets; b++)
        if (units->bucket[b].expert == expert && units->bucket[b].elements > largest)
            largest = units->bucket[b].elements;
    if (replicas == 1 || largest == 0)
        return PT_OK;
    /* At stage 0 master weights that were loaded are gathered, too. */
    pt_dtype_t gathered = units->options.weight_dtype;
    if (pt_units_replicate_state(units))
        gathered = pt_dtype_accumulator(gathered);
    ring.peer_bytes = units_peer_bytes(largest, replicas, gathered);
    PT_TRY(pt_comm_layout_ring(gathers, &ring, communication));
    if (units->options.weights_only)
        return PT_OK;
    ring.peer_bytes = units_peer_bytes(largest, replicas, wire_dtype);
    ring.sums = true;
    ring.narrows = wire_dtype != units->options.grad_dtype;
    return pt_comm_layout_ring(sums, &ring, communication);
}

pt_status_t pt_units_layout(pt_units_t *units, pt_arena_t *parameters,
                            pt_arena_t *gradients, pt_arena_t *communication)
{
    for (int b = 0; b < units->buckets; b++) {
        bucket_t *bucket = &units->bucket[b];
        PT_TRY(pt_arena_tensor(parameters, "weights", units->options.weight_dtype, 1,
                               &bucket->elements, &bucket->weights));
        if (!units->options.weights_only)
            PT_TRY(pt_arena_tensor(gradients, "gradients", units->options.grad_dtype, 1,
                                   &bucket->elements, &bucket->grads));
    }
    PT_TRY(units_layout_rings(units, false, communication));
    return units_layout_rings(units, true, communication);
}

pt_status_t pt_units_prepare(pt_units_t *units, pt_stream_t *stream)
{
    for (int b = 0; b < units->buckets; b++)
        PT_TRY(pt_op_fill(units->device, stream,
                          &(pt_op_fill_t){.x = units->bucket[b].weights}));
    return units->options.weights_only ? PT_OK : pt_units_clear_grads(units, stream);
}

/* ---- views ------------------------------------------------------------------------------------- */

int pt_units_buckets(const pt_units_t *units)
{
    return units->buckets;
}

int64_t pt_bucket_elements(const pt_units_t *units, int bucket)
{
    return units->bucket[bucket].elements;
}

pt_bucket_range_t pt_bucket_shard(const pt_units_t *units, int bucket)
{
    const bucket_t *b = &units->bucket[bucket];
    const pt_comm_t *comm = pt_bucket_comm(units, b);
    pt_rank_block_t block = pt_rank_block(b->elements, PT_SHARD_ALIGN,
                                          pt_comm_rank(comm), pt_comm_size(comm));
    return (pt_bucket_range_t){block.first, block.count};
}

bool pt_units_replicate_state(const pt_units_t *units)
{
    return units->options.zero == 0;
}

pt_bucket_range_t pt_bucket_updated(const pt_units_t *units, int bucket)
{
    if (pt_units_replicate_state(units))
        return (pt_bucket_range_t){0, units->bucket[bucket].elements};
    return pt_bucket_shard(units, bucket);
}

pt_bucket_range_t pt_bucket_common(pt_bucket_range_t a, pt_bucket_range_t b)
{
    int64_t first = a.first > b.first ? a.first : b.first;
    int64_t a_end = a.first + a.count, b_end = b.first + b.count;
    int64_t count = (a_end < b_end ? a_end : b_end) - first;
    return (pt_bucket_range_t){first, count > 0 ? count : 0};
}

pt_dtype_t pt_units_grad_dtype(const pt_units_t *units)
{
    return units->options.grad_dtype;
}

pt_tensor_t pt_bucket_weights(const pt_units_t *units, int bucket)
{
    return units->bucket[bucket].weights;
}

pt_tensor_t pt_bucket_grads(const pt_units_t *units, int bucket)
{
    pt_bucket_range_t range = pt_bucket_updated(units, bucket);
    return pt_tensor_slice(units->bucket[bucket].grads, 0, range.first, range.count);
}

int pt_units_bucket_of(const pt_units_t *units, int param)
{
    return units->place[param].bucket;
}

int64_t pt_units_offset(const pt_units_t *units, int param)
{
    return units->place[param].offset;
}

pt_tensor_t pt_units_local_shape(const pt_units_t *units, int param)
{
    return units->place[param].local;
}

static pt_tensor_t units_view(const pt_units_t *units, int param, pt_tensor_t flat)
{
    const place_t *place = &units->place[param];
    pt_tensor_t x = place->local;
    x.dtype = flat.dtype;
    x.data = pt_tensor_slice(flat, 0, place->offset, 1).data;
    return x;
}

pt_tensor_t pt_units_weight(const pt_units_t *units, int param)
{
    return units_view(units, param, units->bucket[units->place[param].bucket].weights);
}

pt_tensor_t pt_units_grad(const pt_units_t *units, int param)
{
    return units_view(units, param, units->bucket[units->place[param].bucket].grads);
}

pt_holders_t pt_units_holders(const pt_units_t *units, int param, int part)
{
    return pt_holders_of(&units->table->params[param], part, &units->mesh->shape,
                         units->mesh->coordinate);
}

bool pt_units_is_owner(const pt_units_t *units, int param, int part)
{
    return units->place[param].bucket >= 0 && pt_units_holders(units, param, part).owner;
}

/* Elements of a part in the bucket, without padding. A cut along columns has one part. */
static pt_bucket_range_t units_part_range(const pt_units_t *units, int param, int part)
{
    const pt_param_t *p = &units->table->params[param];
    pt_tensor_t local = units->place[param].local;
    int64_t row = pt_tensor_count(&local) / local.shape[0];
    int64_t first = pt_units_part_row(units, param, part);
    bool columns = p->shard.kind != PT_SHARD_NONE && p->shard.dim != 0;
    int64_t rows =
        columns ? local.shape[0] : pt_units_part_extent(units, param, part).count;
    return (pt_bucket_range_t){units->place[param].offset + first * row, rows * row};
}

int pt_units_owned(const pt_units_t *units, int param,
                   pt_bucket_range_t out[PT_MAX_PARTS])
{
    int count = 0;
    for (int part = 0; part < units->table->params[param].parts; part++) {
        if (!pt_units_is_owner(units, param, part))
            continue;
        pt_bucket_range_t range = units_part_range(units, param, part);
        if (count > 0 && out[count - 1].first + out[count - 1].count == range.first)
            out[count - 1].count += range.count;
        else if (range.count > 0)
            out[count++] = range;
    }
    return count;
}

const pt_param_t *pt_units_param(const pt_units_t *units, int param)
{
    return &units->table->params[param];
}

pt_extent_t pt_units_part_extent(const pt_units_t *units, int param, int part)
{
    const pt_param_t *p = &units->table->params[param];
    pt_extent_t extent[PT_MAX_PARTS];
    if (p->shard.kind == PT_SHARD_NONE)
        return (pt_extent_t){0, p->part[part].shape[0], 0, p->part[part].shape[0]};
    int extents = units_part_extents(units, p, extent);
    pt_extent_t mine = extent[extents > 1 ? part : 0];
    for (int before = 0; extents > 1 && before < part; before++)
        mine.first -= p->part[before].shape[p->shard.dim];
    return mine;
}

int64_t pt_units_part_row(const pt_units_t *units, int param, int part)
{
    const pt_param_t *p = &units->table->params[param];
    pt_extent_t extent[PT_MAX_PARTS];
    if (p->shard.kind != PT_SHARD_BLOCKED)
        return p->part[part].first_row;
    units_part_extents(units, p, extent);
    return p->parts > 1 ? extent[part].local_first : 0;
}
