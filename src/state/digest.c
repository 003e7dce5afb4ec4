/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/rng.h"
#include "penta/base/text.h"
#include "src/state/private.h"

#include <stdio.h>

static pt_status_t digest_clear(pt_state_t *state)
{
    pt_session_t *s = state->session;
    pt_tensor_t zero = pt_tensor_1d(s->host_sums.data, PT_I64, PT_MEMORY_HOST, 1);

    if (!s->device->dry)
        *(uint64_t *)zero.data = 0;
    return pt_device_copy(s->device, s->stream, &state->digest_sum, &zero);
}

/* A plane of a hyperslab that lies, dense, in `flat`. */
static pt_status_t digest_add(pt_state_t *state, uint64_t id, pt_tensor_t flat,
                              const pt_hyperslab_plane_t *plane)
{
    pt_session_t *s = state->session;
    pt_tensor_t x = pt_tensor_slice(flat, 0, plane->local, plane->rows * plane->cols);
    pt_op_digest_t digest = {
        .x = pt_tensor_2d(x.data, x.dtype, x.memory, plane->rows, plane->cols),
        .accumulator = state->digest_sum,
        .id = id,
        .first = plane->first,
        .pitch = plane->pitch,
    };

    return pt_op_digest(s->device, s->stream, &digest);
}

typedef struct digesting {
    pt_state_t *state;
    pt_tensor_t weights; /* this rank's range of the bucket */
} digesting_t;

static pt_status_t digest_stored(void *self, const pt_stored_t *stored)
{
    const digesting_t *d = self;
    const pt_part_t *part = stored->part;
    int64_t planes = pt_hyperslab_planes(&stored->slab, part->ndim);

    for (int64_t i = 0; i < planes && stored->owner; i++) {
        pt_hyperslab_plane_t plane =
            pt_hyperslab_plane(&stored->slab, part->ndim, part->shape, i);
        PT_TRY(digest_add(d->state, part->id, d->weights, &plane));
    }
    return PT_OK;
}

static pt_status_t digest_local(pt_state_t *state, uint64_t *out)
{
    digesting_t d = {.state = state};

    PT_TRY(digest_clear(state));
    for (int b = 0; b < pt_units_buckets(state->session->units); b++) {
        d.weights = pt_state_view(state, PT_STATE_WEIGHT, b);
        PT_TRY(pt_state_visit(state->session, b, digest_stored, &d));
    }
    return pt_session_fetch(state->session, &state->digest_sum, 1, out);
}

pt_status_t pt_state_digest(pt_state_t *state, uint64_t *out)
{
    pt_comm_t *world = state->session->mesh->world;
    uint64_t mine = 0;
    pt_status_t status = digest_local(state, &mine);
    int64_t sum;

    PT_TRY(pt_comm_agree(world, status, false));
    sum = (int64_t)mine;
    PT_TRY(pt_comm_sum_int64(world, &sum, 1));
    *out = (uint64_t)sum;
    return PT_OK;
}

/* ---- replicas ------------------------------------------------------------------------------------- */

static pt_status_t digest_add_whole(pt_state_t *state, pt_tensor_t flat, int kind,
                                    int bucket)
{
    int64_t count = pt_tensor_count(&flat);
    pt_hyperslab_plane_t all = {.rows = 1, .cols = count, .pitch = count};
    int buckets = pt_units_buckets(state->session->units);

    return digest_add(state, pt_mix64((uint64_t)(kind * buckets + bucket)), flat, &all);
}

/* Hash of the weights this rank holds, whoever owns them, and of the states that every
 * replica keeps whole: equal on all replicas. */
static pt_status_t digest_whole(pt_state_t *state, uint64_t *out)
{
    pt_session_t *s = state->session;

    PT_TRY(digest_clear(state));
    PT_TRY(pt_units_settle(s->units, s->stream));
    for (int b = 0; b < pt_units_buckets(s->units); b++) {
        pt_tensor_t weights = pt_bucket_weights(s->units, b);
        PT_TRY(digest_add_whole(state, weights, PT_STATE_KINDS, b));
        for (int k = 0; k < PT_STATE_KINDS && pt_units_replicate_state(s->units); k++) {
            pt_tensor_t x = pt_optim_state(s->optim, (pt_state_kind_t)k, b);
            if (x.data != weights.data)
                PT_TRY(digest_add_whole(state, x, k, b));
        }
    }
    return pt_session_fetch(s, &state->digest_sum, 1, out);
}

/* The value that more than half of the replicas have. */
static bool digest_majority(const uint64_t *digest, int count, uint64_t *out)
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

/* On replica 0, which has all digests: which differ; all of them where no majority
 * says. */
static pt_status_t digest_judge(const uint64_t *digest, int count, int64_t step)
{
    char odd[512];
    pt_text_t text = pt_text_init(odd, sizeof odd);
    uint64_t expected;
    bool known = digest_majority(digest, count, &expected);
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

pt_status_t pt_state_check_replicas(pt_state_t *state, int64_t step)
{
    const pt_mesh_t *mesh = state->session->mesh;
    pt_comm_t *replicas = mesh->axis[PT_AXIS_DATA];
    int size = pt_comm_size(replicas);
    uint64_t mine = 0, *all = NULL;
    pt_status_t status = digest_whole(state, &mine);

    if (status == PT_OK)
        status = PT_NEW("replica digests", size, &all);
    PT_TRY_GOTO(done, pt_comm_agree(mesh->world, status, false));
    PT_TRY_GOTO(done, pt_comm_gather_bytes(replicas, 0, &mine, sizeof mine, all));
    status = pt_comm_rank(replicas) == 0 ? digest_judge(all, size, step) : PT_OK;
    PT_TRY_GOTO(done, pt_comm_agree(mesh->world, status, false));
done:
    pt_free(all);
    return status;
}
