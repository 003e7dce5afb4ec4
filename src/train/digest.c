/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/rng.h"
#include "src/train/private.h"

#include <stdio.h>

/* One plane of a hyperslab; `state` lies dense from the first element of this rank's shard on. */
static pt_status_t digest_plane(pt_trainer_t *t, uint64_t id, pt_tensor_t state,
                                const pt_hyperslab_plane_t *plane)
{
    pt_tensor_t flat =
        pt_tensor_slice(state, 0, plane->local, plane->rows * plane->cols);
    pt_op_digest_t digest = {
        .x = pt_tensor_2d(flat.data, flat.dtype, flat.memory, plane->rows, plane->cols),
        .accumulator = t->digest_sum,
        .id = id,
        .first = plane->first,
        .pitch = plane->pitch,
    };
    return pt_op_digest(t->session.device, t->session.stream, &digest);
}

static pt_status_t digest_box(pt_trainer_t *t, const pt_stored_box_t *box, void *self)
{
    const int *bucket = self;
    const pt_part_t *part = &t->session.table.params[box->param].part[box->part];
    pt_bucket_range_t shard = pt_bucket_shard(t->session.units, *bucket);
    pt_bucket_range_t updated = pt_bucket_updated(t->session.units, *bucket);
    pt_tensor_t state =
        pt_tensor_slice(pt_optim_state(t->session.optim, PT_STATE_WEIGHT, *bucket), 0,
                        shard.first - updated.first, shard.count);
    for (int64_t i = 0; i < pt_hyperslab_planes(&box->slab, part->ndim); i++) {
        pt_hyperslab_plane_t plane =
            pt_hyperslab_plane(&box->slab, part->ndim, part->shape, i);
        PT_TRY(digest_plane(t, part->id, state, &plane));
    }
    return PT_OK;
}

static pt_status_t clear(pt_trainer_t *t)
{
    pt_tensor_t zero =
        pt_tensor_1d(t->session.host_sums.data, PT_I64, PT_MEMORY_HOST, 1);
    if (!t->session.device->dry)
        *(uint64_t *)zero.data = 0;
    return pt_device_copy(t->session.device, t->session.stream, &t->digest_sum, &zero);
}

static pt_status_t local_digest(pt_trainer_t *t, uint64_t *out)
{
    PT_TRY(clear(t));
    for (int b = 0; b < pt_units_buckets(t->session.units); b++)
        PT_TRY(pt_train_visit_shard(t, b, digest_box, &b));
    return pt_session_fetch(&t->session, &t->digest_sum, 1, out);
}

pt_status_t pt_train_digest(pt_trainer_t *t, uint64_t *out)
{
    uint64_t mine = 0;
    int64_t sum;
    pt_status_t status = local_digest(t, &mine);
    PT_TRY(pt_comm_agree(t->session.mesh->world, status, false));
    sum = (int64_t)mine;
    PT_TRY(pt_comm_sum_int64(t->session.mesh->world, &sum, 1));
    *out = (uint64_t)sum;
    return PT_OK;
}

/* ---- replicas ------------------------------------------------------------------------------------- */

static pt_status_t add_whole(pt_trainer_t *t, pt_tensor_t flat, int kind, int bucket)
{
    int64_t count = pt_tensor_count(&flat);
    pt_op_digest_t digest = {
        .x = pt_tensor_2d(flat.data, flat.dtype, flat.memory, 1, count),
        .accumulator = t->digest_sum,
        .id = pt_mix64((uint64_t)(kind * pt_units_buckets(t->session.units) + bucket)),
        .pitch = count,
    };
    return pt_op_digest(t->session.device, t->session.stream, &digest);
}

/* Hash of the weights this rank holds, whoever owns them, and of the states that every replica keeps
 * whole: equal on all replicas. */
static pt_status_t whole_digest(pt_trainer_t *t, uint64_t *out)
{
    PT_TRY(clear(t));
    for (int b = 0; b < pt_units_buckets(t->session.units); b++) {
        pt_tensor_t weights = pt_bucket_weights(t->session.units, b);
        PT_TRY(add_whole(t, weights, PT_STATE_KINDS, b));
        for (int kind = 0; kind < PT_STATE_KINDS; kind++) {
            pt_tensor_t state =
                pt_optim_state(t->session.optim, (pt_state_kind_t)kind, b);
            bool whole =
                pt_tensor_count(&state) == pt_bucket_elements(t->session.units, b);
            if (whole && state.data != weights.data)
                PT_TRY(add_whole(t, state, kind, b));
        }
    }
    return pt_session_fetch(&t->session, &t->digest_sum, 1, out);
}

/* The value that more than half of the replicas have. */
static bool majority(const uint64_t *digest, int count, uint64_t *out)
{
    for (int i = 0; i < count; i++) {
        int same = 0;
        for (int j = 0; j < count; j++)
            same += digest[j] == digest[i];
        *out = digest[i];
        if (2 * same > count)
            return true;
    }
    return false;
}

/* On replica 0, which has all digests: which differ; all of them where no majority says. */
static pt_status_t judge(const uint64_t *digest, int count, int64_t step)
{
    char odd[512];
    pt_text_t text = pt_text_init(odd, sizeof odd);
    uint64_t expected;
    bool known = majority(digest, count, &expected);
    for (int r = 0; r < count; r++)
        if (!known || digest[r] != expected)
            pt_text_add(&text, "%s%d (%016llx)", text.length ? ", " : "", r,
                        (unsigned long long)digest[r]);
    if (text.length == 0)
        return PT_OK;
    char against[64] = "no majority, each may be wrong";
    if (known)
        snprintf(against, sizeof against, "%016llx on the others",
                 (unsigned long long)expected);
    return PT_FAIL(
        PT_INTERNAL,
        "weights or moments of the replicas differ after step %lld: replica %s, %s: "
        "silent "
        "corruption of memory or of a message; restart from the last checkpoint, "
        "without the hosts of these replicas",
        (long long)step, odd, against);
}

pt_status_t pt_train_check_replicas(pt_trainer_t *t)
{
    pt_comm_t *replicas = t->session.mesh->axis[PT_AXIS_DATA];
    int size = pt_comm_size(replicas);
    uint64_t mine = 0, *all = NULL;
    pt_status_t status = whole_digest(t, &mine);
    if (status == PT_OK)
        status = PT_NEW("replica digests", size, &all);
    PT_TRY_GOTO(done, pt_comm_agree(t->session.mesh->world, status, false));
    PT_TRY_GOTO(done, pt_comm_gather_bytes(replicas, 0, &mine, sizeof mine, all));
    status = pt_comm_rank(replicas) == 0 ? judge(all, size, t->step) : PT_OK;
    PT_TRY_GOTO(done, pt_comm_agree(t->session.mesh->world, status, false));
done:
    pt_free(all);
    return status;
}
