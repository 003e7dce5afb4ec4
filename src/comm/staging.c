/* SPDX-License-Identifier: Apache-2.0 */
/* Host segments for tensors of a device whose memory the transport cannot touch.
 *
 * Segments are given first fit and live from begin to end, so that what a request gets
 * depends on the order of begins and ends only, never on timing: a dry run of a step
 * finds what the step needs. A copy into the device may still read a segment after end;
 * a guard remembers its event, and a later request that gets the memory waits for it.
 * Rings have segments for good: what goes through them takes none. */
#include "penta/base/arena.h"
#include "src/comm/private.h"

int64_t pt_staging_aligned(int64_t bytes)
{
    return (bytes + PT_ARENA_ALIGN - 1) & -(int64_t)PT_ARENA_ALIGN;
}

/* Bytes of the part that is sent; what is received follows it. All-gather sends from
 * its own block, broadcast, maxima and integer sums work in place: one part is
 * enough. */
static int64_t staging_send_bytes(const pt_transfer_t *transfer)
{
    switch (transfer->kind) {
    case PT_SEND:
    case PT_ALL_TO_ALL: return pt_staging_aligned(pt_tensor_bytes(&transfer->send));
    default: return 0;
    }
}

static int64_t staging_recv_bytes(const pt_transfer_t *transfer)
{
    switch (transfer->kind) {
    case PT_SEND: return 0;
    default: return pt_staging_aligned(pt_tensor_bytes(&transfer->recv));
    }
}

void pt_staging_insert(pt_engine_t *engine, pt_segment_t *segment)
{
    pt_segment_t **place = &engine->segments;
    int64_t start = 0;

    while (*place && (*place)->start - start < segment->bytes) {
        start = (*place)->start + (*place)->bytes;
        place = &(*place)->next;
    }
    segment->start = start;
    segment->next = *place;
    *place = segment;
    if (start + segment->bytes > engine->staging_peak)
        engine->staging_peak = start + segment->bytes;
}

void pt_staging_remove(pt_engine_t *engine, pt_segment_t *segment)
{
    pt_segment_t **place = &engine->segments;

    while (*place && *place != segment)
        place = &(*place)->next;
    if (*place)
        *place = segment->next;
}

static pt_status_t staging_check(const pt_transfer_t *transfer,
                                 const pt_segment_t *segment)
{
    const pt_engine_t *engine = transfer->comm->engine;
    int64_t end = segment->start + segment->bytes;

    PT_CHECK(
        engine->staging && end <= engine->staging_bytes, PT_INTERNAL,
        "%s over %s needs staging up to byte %lld, but the plan of this step found "
        "%lld bytes enough",
        pt_transfer_kind_name(transfer->kind), transfer->comm->name, (long long)end,
        (long long)engine->staging_bytes);
    return PT_OK;
}

pt_status_t pt_staging_take(pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    pt_engine_t *engine = transfer->comm->engine;
    pt_segment_t *segment = &request->segment;
    int64_t sent = staging_send_bytes(transfer);

    segment->bytes = 0;
    if (pt_transfer_tensor(transfer)->memory == PT_MEMORY_HOST)
        return PT_OK;
    if (request->piece > 0) {
        request->staged = !engine->direct;
        return engine->direct ? PT_OK
                              : staging_check(transfer, &transfer->comm->ring->segment);
    }
    segment->bytes = sent + staging_recv_bytes(transfer);
    if (segment->bytes == 0)
        return PT_OK;
    pt_staging_insert(engine, segment);
    request->staged = !engine->direct;
    if (!request->staged)
        return PT_OK;
    PT_TRY(staging_check(transfer, segment));
    request->stage_send = engine->staging + segment->start;
    request->stage_recv = request->stage_send + sent;
    return PT_OK;
}

static void staging_drop_guard(pt_engine_t *engine, int index)
{
    pt_engine_return_event(engine, engine->guards[index].event);
    engine->guards[index] = engine->guards[--engine->guard_count];
}

pt_status_t pt_staging_is_vacant(pt_request_t *request, bool *vacant)
{
    pt_engine_t *engine = request->transfer.comm->engine;
    int64_t start = request->segment.start, end = start + request->segment.bytes;

    *vacant = true;
    for (int i = 0; i < engine->guard_count; i++) {
        pt_guard_t *guard = &engine->guards[i];
        bool ready;
        if (guard->number >= request->number || guard->start >= end ||
            guard->start + guard->bytes <= start)
            continue;
        PT_TRY(engine->device->ops->event_query(engine->device, guard->event, &ready));
        *vacant = *vacant && ready;
        if (ready)
            staging_drop_guard(engine, i--);
    }
    return PT_OK;
}

static pt_status_t staging_guard(pt_engine_t *engine, pt_request_t *request)
{
    bool ready = false;

    for (int i = 0; i < engine->guard_count; i++) {
        PT_TRY(engine->device->ops->event_query(engine->device, engine->guards[i].event,
                                                &ready));
        if (ready)
            staging_drop_guard(engine, i--);
    }
    if (engine->guard_count == engine->max_requests) {
        PT_TRY(pt_comm_wait_event(engine, engine->guards[0].event));
        staging_drop_guard(engine, 0);
    }
    engine->guards[engine->guard_count++] = (pt_guard_t){
        request->segment.start, request->segment.bytes, engine->begun, request->event};
    request->event = NULL;
    return PT_OK;
}

pt_status_t pt_staging_release(pt_request_t *request)
{
    pt_engine_t *engine = request->transfer.comm->engine;

    if (request->segment.bytes == 0)
        return PT_OK;
    pt_staging_remove(engine, &request->segment);
    if (request->staged && request->marked)
        PT_TRY(staging_guard(engine, request));
    request->segment.bytes = 0;
    return PT_OK;
}

/* One copy between a device tensor, from element `first` on, and the segment. */
static pt_status_t staging_copy(pt_request_t *request, const pt_tensor_t *tensor,
                                char *host, int64_t first, int64_t count, bool out)
{
    pt_engine_t *engine = request->transfer.comm->engine;
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype);
    char *device = (char *)tensor->data + first * size;

    if (count == 0)
        return PT_OK;
    if (out)
        return engine->device->ops->copy(engine->device, engine->stream, host,
                                         PT_MEMORY_HOST, device, PT_MEMORY_DEVICE,
                                         count * size);
    return engine->device->ops->copy(engine->device, engine->stream, device,
                                     PT_MEMORY_DEVICE, host, PT_MEMORY_HOST,
                                     count * size);
}

/* The blocks of an unequal all-to-all, neighbours together; what lies between stays as
 * it is. */
static pt_status_t staging_copy_blocks(pt_request_t *request, const pt_tensor_t *tensor,
                                       char *host, const int64_t *counts,
                                       const int64_t *starts, bool out)
{
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype), first = 0, count = 0;

    for (int r = 0; r < request->transfer.comm->group->size; r++) {
        if (starts[r] != first + count) {
            PT_TRY(
                staging_copy(request, tensor, host + first * size, first, count, out));
            first = starts[r];
            count = 0;
        }
        count += counts[r];
    }
    return staging_copy(request, tensor, host + first * size, first, count, out);
}

pt_status_t pt_staging_out(pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    const pt_tensor_t *send = &transfer->send, *recv = &transfer->recv;
    int64_t count = pt_tensor_count(send), rank = transfer->comm->group->rank;
    char *host = request->stage_recv;

    switch (transfer->kind) {
    case PT_RECV: return PT_OK;
    case PT_BROADCAST:
        if (transfer->peer != rank)
            return PT_OK;
        return staging_copy(request, recv, host, 0, pt_tensor_count(recv), true);
    case PT_ALL_GATHER:
        return staging_copy(request, send, host + rank * pt_tensor_bytes(send), 0,
                            count, true);
    case PT_ALL_TO_ALL:
        if (transfer->send_counts)
            return staging_copy_blocks(request, send, request->stage_send,
                                       transfer->send_counts, transfer->send_starts,
                                       true);
        return staging_copy(request, send, request->stage_send, 0, count, true);
    case PT_SEND:
        return staging_copy(request, send, request->stage_send, 0, count, true);
    default: return staging_copy(request, send, host, 0, count, true);
    }
}

pt_status_t pt_staging_in(pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    const pt_tensor_t *recv = &transfer->recv;

    if (transfer->kind == PT_SEND || (transfer->kind == PT_BROADCAST &&
                                      transfer->peer == transfer->comm->group->rank))
        return PT_OK;
    request->marked = true;
    if (transfer->recv_counts)
        return staging_copy_blocks(request, recv, request->stage_recv,
                                   transfer->recv_counts, transfer->recv_starts, false);
    return staging_copy(request, recv, request->stage_recv, 0, pt_tensor_count(recv),
                        false);
}
