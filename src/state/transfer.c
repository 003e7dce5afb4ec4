/* SPDX-License-Identifier: Apache-2.0 */
/* Between buckets on the device and files, through one host buffer. */
#include "penta/base/alloc.h"
#include "src/state/private.h"

#include <string.h>

pt_tensor_t pt_state_view(const pt_state_t *state, pt_state_kind_t kind, int bucket)
{
    const pt_session_t *s = state->session;
    pt_bucket_range_t range = pt_state_range(s, bucket);

    if (s->optim) {
        pt_bucket_range_t updated = pt_bucket_updated(s->units, bucket);
        return pt_tensor_slice(pt_optim_state(s->optim, kind, bucket), 0,
                               range.first - updated.first, range.count);
    }
    if (state->wide.ndim)
        return pt_tensor_slice(state->wide, 0, 0, range.count);
    return pt_bucket_weights(s->units, bucket);
}

pt_status_t pt_state_layout(pt_state_t *state, pt_arena_t arena[PT_CLASS_COUNT])
{
    const pt_session_t *s = state->session;
    pt_dtype_t stored = pt_dtype_accumulator(s->arch.dtype);
    int64_t most = 0, one = 1;

    for (int b = 0; b < pt_units_buckets(s->units); b++) {
        int64_t count = pt_state_range(s, b).count;
        most = count > most ? count : most;
    }
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "digest", PT_I64, 1, &one,
                           &state->digest_sum));
    if (!s->optim && stored != s->arch.dtype)
        PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "weights as stored", stored,
                               1, &most, &state->wide));
    return pt_arena_take(&arena[PT_CLASS_SNAPSHOT], "snapshot",
                         most * (int64_t)pt_dtype_size(stored), &state->snapshot);
}

pt_status_t pt_state_gather(pt_state_t *state, int kinds)
{
    pt_session_t *s = state->session;

    for (int kind = 0; kind < kinds && pt_units_replicate_state(s->units); kind++)
        for (int b = 0; b < pt_units_buckets(s->units); b++)
            PT_TRY(pt_bucket_gather(s->units, b,
                                    pt_optim_state(s->optim, (pt_state_kind_t)kind, b),
                                    s->stream));
    PT_TRY(pt_optim_loaded(s->optim, s->stream));
    PT_TRY(pt_units_settle(s->units, s->stream));
    return pt_comm_wait_stream(s->engine, s->stream);
}

typedef struct transfer {
    pt_state_t *state;
    pt_state_kind_t kind;
    pt_dtype_t dtype;               /* of this kind in memory */
    pt_checkpoint_writer_t *writer; /* or */
    pt_checkpoint_reader_t *reader;
    int *index; /* the reader's tensor of each dataset of the kind */
} transfer_t;

static char *transfer_data(const transfer_t *x, const pt_stored_t *stored)
{
    return (char *)x->state->snapshot +
           stored->slab.local * (int64_t)pt_dtype_size(x->dtype);
}

static pt_status_t transfer_write(void *self, const pt_stored_t *stored)
{
    const transfer_t *x = self;
    int64_t datasets = pt_state_datasets(&x->state->session->table);

    if (!stored->owner)
        return PT_OK;
    return pt_checkpoint_write(x->writer, (int)(x->kind * datasets + stored->dataset),
                               &stored->slab, transfer_data(x, stored));
}

static pt_status_t transfer_read(void *self, const pt_stored_t *stored)
{
    const transfer_t *x = self;

    return pt_checkpoint_read(x->reader, x->index[stored->dataset], x->dtype,
                              &stored->slab, stored->owner, transfer_data(x, stored));
}

static pt_status_t transfer_write_bucket(transfer_t *x, int bucket)
{
    pt_session_t *s = x->state->session;
    pt_tensor_t device = pt_state_view(x->state, x->kind, bucket);
    int64_t count = pt_tensor_count(&device);
    pt_tensor_t host =
        pt_tensor_1d(x->state->snapshot, device.dtype, PT_MEMORY_HOST, count);

    if (count == 0)
        return PT_OK;
    x->dtype = device.dtype;
    PT_TRY(pt_device_copy(s->device, s->stream, &host, &device));
    PT_TRY(pt_comm_wait_stream(s->engine, s->stream));
    return pt_state_visit(s, bucket, transfer_write, x);
}

static pt_status_t transfer_read_bucket(transfer_t *x, int bucket)
{
    pt_session_t *s = x->state->session;
    pt_tensor_t device = pt_state_view(x->state, x->kind, bucket);
    int64_t count = pt_tensor_count(&device);
    pt_tensor_t host =
        pt_tensor_1d(x->state->snapshot, device.dtype, PT_MEMORY_HOST, count);

    if (count == 0)
        return PT_OK;
    x->dtype = device.dtype;
    memset(host.data, 0, (size_t)pt_tensor_bytes(&host)); /* padding stays zero */
    PT_TRY(pt_state_visit(s, bucket, transfer_read, x));
    PT_TRY(pt_device_copy(s->device, s->stream, &device, &host));
    if (x->state->wide.ndim) {
        pt_op_cast_t cast = {.x = device, .y = pt_bucket_weights(s->units, bucket)};
        PT_TRY(pt_op_cast(s->device, s->stream, &cast));
    }
    return pt_comm_wait_stream(s->engine, s->stream);
}

/* ---- save ---------------------------------------------------------------------------------------- */

static pt_status_t transfer_save_list(const pt_session_t *s,
                                      pt_checkpoint_tensor_t **out)
{
    int64_t datasets = pt_state_datasets(&s->table);

    PT_TRY(PT_NEW("datasets", (size_t)datasets * PT_STATE_KINDS, out));
    for (int kind = 0; kind < PT_STATE_KINDS; kind++)
        pt_state_list(&s->table, (pt_state_kind_t)kind,
                      pt_optim_state(s->optim, (pt_state_kind_t)kind, 0).dtype,
                      *out + kind * datasets);
    return PT_OK;
}

static pt_status_t transfer_save_elements(pt_state_t *state,
                                          pt_checkpoint_writer_t *writer)
{
    transfer_t x = {.state = state, .writer = writer};

    for (int kind = 0; kind < PT_STATE_KINDS; kind++) {
        x.kind = (pt_state_kind_t)kind;
        for (int b = 0; b < pt_units_buckets(state->session->units); b++)
            PT_TRY(transfer_write_bucket(&x, b));
    }
    return PT_OK;
}

pt_status_t pt_state_save(pt_state_t *state, const pt_state_file_t *file,
                          pt_checkpoint_header_t *header)
{
    const pt_session_t *s = state->session;
    pt_comm_t *world = s->mesh->world;
    pt_checkpoint_tensor_t *list = NULL;
    pt_checkpoint_writer_t *writer = NULL;
    int count = (int)pt_state_datasets(&s->table) * PT_STATE_KINDS;
    pt_status_t status = transfer_save_list(s, &list);

    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
    PT_TRY_GOTO(done, pt_checkpoint_create(world, file->path, list, count, file->config,
                                           file->hosts, &writer));
    pt_checkpoint_set_record(writer, file->record);
    status = transfer_save_elements(state, writer);
    status = pt_checkpoint_publish(writer, status, header, file->verify);
done:
    pt_free(list);
    return status;
}

/* ---- load ---------------------------------------------------------------------------------------- */

/* One kind of state of all buckets. */
static pt_status_t transfer_load_kind(transfer_t *x, const char *path)
{
    const pt_session_t *s = x->state->session;
    pt_state_mismatch_t first;

    PT_TRY(pt_state_match(&s->table, x->reader, x->kind, x->index, &first));
    PT_CHECK(first.dataset < 0, PT_DAMAGED,
             "%s: /%s/%s %s: the file is not of this model", path, first.wanted.group,
             first.wanted.name, first.found ? "has another shape" : "is missing");
    for (int b = 0; b < pt_units_buckets(s->units); b++)
        PT_TRY(transfer_read_bucket(x, b));
    return PT_OK;
}

static pt_status_t transfer_load_local(pt_state_t *state, pt_checkpoint_reader_t *reader,
                                       const char *path, int kinds)
{
    transfer_t x = {.state = state, .reader = reader};
    int64_t datasets = pt_state_datasets(&state->session->table);
    pt_status_t status;

    PT_TRY(PT_NEW("tensor index", (size_t)datasets, &x.index));
    status = PT_OK;
    for (int kind = 0; kind < kinds && status == PT_OK; kind++) {
        x.kind = (pt_state_kind_t)kind;
        status = transfer_load_kind(&x, path);
    }
    pt_free(x.index);
    return status;
}

pt_status_t pt_state_load(pt_state_t *state, pt_checkpoint_reader_t *reader,
                          const char *path, int kinds)
{
    pt_session_t *s = state->session;
    pt_status_t status = transfer_load_local(state, reader, path, kinds);

    PT_TRY(pt_comm_agree(s->mesh->world, status, true));
    PT_TRY(pt_checkpoint_verify_read(reader));
    return s->optim ? pt_state_gather(state, kinds) : PT_OK;
}
