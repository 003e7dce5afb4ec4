/* SPDX-License-Identifier: Apache-2.0 */
/* Is a transfer well formed? Our own bugs are found here, on the rank that has them,
 * and not as a hang or as wrong numbers on another. */
#include "src/comm/private.h"

#include "penta/base/text.h"

const pt_tensor_t *pt_transfer_tensor(const pt_transfer_t *transfer)
{
    switch (transfer->kind) {
    case PT_RECV:
    case PT_BROADCAST: return &transfer->recv;
    default: return &transfer->send;
    }
}

static pt_status_t check_refuse(const pt_transfer_t *transfer, const char *what,
                                const pt_tensor_t *tensor)
{
    char text[96];

    return PT_FAIL(PT_INTERNAL, "%s over %s of %d ranks: %s%s%s",
                   pt_transfer_kind_name(transfer->kind), transfer->comm->name,
                   transfer->comm->group->size, what, tensor ? ", not " : "",
                   tensor ? pt_tensor_text(tensor, text, sizeof text) : "");
}

static pt_status_t comm_check_tensor(const pt_transfer_t *transfer,
                                     const pt_tensor_t *tensor, const char *name,
                                     int64_t count)
{
    const pt_engine_t *engine = transfer->comm->engine;
    char what[128];
    pt_text_t text = pt_text_init(what, sizeof what);

    pt_text_add(&text, "%s must ", name);
    if (!pt_tensor_is_dense(tensor))
        pt_text_add(&text, "be dense");
    else if (count >= 0 && pt_tensor_count(tensor) != count)
        pt_text_add(&text, "have %lld elements", (long long)count);
    else if (!tensor->data && pt_tensor_count(tensor) > 0 &&
             engine->transport->moves_data)
        pt_text_add(&text, "have memory");
    else if (tensor->memory != pt_transfer_tensor(transfer)->memory)
        pt_text_add(&text, "lie in the same memory as the others");
    else if (tensor->memory == PT_MEMORY_DEVICE && !engine->device)
        pt_text_add(&text, "lie in host memory, as this engine has no device");
    else
        return PT_OK;
    return check_refuse(transfer, what, tensor);
}

static pt_status_t check_peer(const pt_transfer_t *transfer)
{
    if (transfer->peer < 0 || transfer->peer >= transfer->comm->group->size)
        return check_refuse(transfer, "peer outside the communicator", NULL);
    return PT_OK;
}

static pt_status_t check_blocks(const pt_transfer_t *transfer, const int64_t *counts,
                                const int64_t *starts, const pt_tensor_t *tensor)
{
    int64_t count = pt_tensor_count(tensor);

    if (!counts || !starts)
        return check_refuse(
            transfer, "needs all four arrays of counts and starts, or none", NULL);
    for (int r = 0; r < transfer->comm->group->size; r++)
        if (counts[r] < 0 || starts[r] < 0 || starts[r] > count - counts[r])
            return check_refuse(transfer, "a block must lie inside its tensor", tensor);
    return PT_OK;
}

/* Equal pointers mean in place; anything between is a bug. */
static pt_status_t check_apart(const pt_transfer_t *transfer, const pt_tensor_t *a,
                               const pt_tensor_t *b, int64_t place)
{
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    uintptr_t x_end = x + (uintptr_t)pt_tensor_bytes(a);
    uintptr_t y_end = y + (uintptr_t)pt_tensor_bytes(b);

    if (!a->data || !b->data || x >= y_end || y >= x_end ||
        (place >= 0 && x == y + (uintptr_t)place))
        return PT_OK;
    return check_refuse(transfer, "buffers overlap", NULL);
}

static pt_status_t check_all_to_all(const pt_transfer_t *transfer)
{
    int size = transfer->comm->group->size;
    bool unequal = transfer->send_counts || transfer->recv_counts ||
                   transfer->send_starts || transfer->recv_starts;

    if (unequal) {
        PT_TRY(comm_check_tensor(transfer, &transfer->recv, "recv", -1));
        PT_TRY(check_blocks(transfer, transfer->send_counts, transfer->send_starts,
                            &transfer->send));
        PT_TRY(check_blocks(transfer, transfer->recv_counts, transfer->recv_starts,
                            &transfer->recv));
        return check_apart(transfer, &transfer->send, &transfer->recv, -1);
    }
    if (pt_tensor_count(&transfer->send) % size != 0)
        return check_refuse(transfer, "send must divide into equal blocks",
                            &transfer->send);
    PT_TRY(comm_check_tensor(transfer, &transfer->recv, "recv",
                             pt_tensor_count(&transfer->send)));
    return check_apart(transfer, &transfer->send, &transfer->recv, 0);
}

static pt_status_t check_cut(const pt_transfer_t *transfer, const char *name,
                             const pt_tensor_t *whole)
{
    int size = transfer->comm->group->size;
    char what[64];
    pt_text_t text = pt_text_init(what, sizeof what);

    if (transfer->granularity > 0 || pt_tensor_count(whole) % size == 0)
        return PT_OK;
    pt_text_add(&text, "%s must divide into equal blocks", name);
    return check_refuse(transfer, what, whole);
}

static pt_status_t comm_check_sum(const pt_transfer_t *transfer)
{
    const pt_tensor_t *send = &transfer->send, *recv = &transfer->recv;
    const pt_ring_t *ring = transfer->comm->ring;
    pt_rank_block_t own = pt_transfer_block(transfer, transfer->comm->group->rank);

    if (send->memory == PT_MEMORY_HOST)
        return check_refuse(transfer, "send must lie in device memory", send);
    if (!ring || !ring->options.sums)
        return check_refuse(transfer, "no ring for sums is reserved", NULL);
    if (transfer->wire_dtype != send->dtype && !ring->options.narrows)
        return check_refuse(transfer, "the ring is not reserved for sums that narrow",
                            NULL);
    if (!pt_dtype_is_float(transfer->wire_dtype) ||
        pt_dtype_size(transfer->wire_dtype) > pt_dtype_size(send->dtype))
        return check_refuse(transfer, "the type on the wire must be send's or narrower",
                            send);
    if (transfer->kind == PT_REDUCE_SCATTER)
        PT_TRY(check_cut(transfer, "send", send));
    PT_TRY(comm_check_tensor(transfer, recv, "recv", own.count));
    return check_apart(transfer, recv, send,
                       own.first * (int64_t)pt_dtype_size(send->dtype));
}

static pt_status_t check_all_gather(const pt_transfer_t *transfer)
{
    const pt_tensor_t *send = &transfer->send, *recv = &transfer->recv;
    pt_rank_block_t own = pt_transfer_block(transfer, transfer->comm->group->rank);

    if (transfer->granularity > 0 && !transfer->comm->ring)
        return check_refuse(transfer, "no ring is reserved for unequal blocks", NULL);
    PT_TRY(comm_check_tensor(transfer, recv, "recv", -1));
    PT_TRY(check_cut(transfer, "recv", recv));
    PT_TRY(comm_check_tensor(transfer, send, "send", own.count));
    return check_apart(transfer, send, recv,
                       own.first * (int64_t)pt_dtype_size(recv->dtype));
}

static pt_status_t check_reduction(const pt_transfer_t *transfer)
{
    pt_dtype_t dtype = transfer->send.dtype;

    if (transfer->kind == PT_SUM_INT64 && dtype != PT_I64)
        return check_refuse(transfer, "send must be int64", &transfer->send);
    if (dtype == PT_BF16 || dtype == PT_F16 || dtype == PT_U8)
        return check_refuse(transfer, "send must be fp32, fp64 or integer",
                            &transfer->send);
    PT_TRY(comm_check_tensor(transfer, &transfer->recv, "recv",
                             pt_tensor_count(&transfer->send)));
    return check_apart(transfer, &transfer->send, &transfer->recv, 0);
}

/* A handle outside the engine's pool is not read. */
static pt_status_t check_after(const pt_transfer_t *transfer)
{
    const pt_engine_t *engine = transfer->comm->engine;
    uintptr_t pool = (uintptr_t)engine->requests;
    uintptr_t bytes = (uintptr_t)engine->max_requests * sizeof *engine->requests;

    if (transfer->after_count < 0 || transfer->after_count > PT_AFTER)
        return check_refuse(transfer, "comes after too many requests", NULL);
    for (int i = 0; i < transfer->after_count; i++) {
        const pt_request_t *after = transfer->after[i];
        if (after && (uintptr_t)after - pool >= bytes)
            return check_refuse(transfer, "comes after a request of another engine",
                                NULL);
        if (!after || after->state == PT_REQUEST_FREE)
            return check_refuse(
                transfer, "comes after a request that was never begun, or is ended",
                NULL);
    }
    return PT_OK;
}

pt_status_t pt_transfer_check(const pt_transfer_t *transfer)
{
    const pt_tensor_t *send = &transfer->send, *recv = &transfer->recv;

    PT_TRY(check_after(transfer));
    if (transfer->kind != PT_RECV && transfer->kind != PT_BROADCAST) {
        PT_TRY(comm_check_tensor(transfer, send, "send", -1));
        if (transfer->kind > PT_BROADCAST && !pt_transfer_is_sum(transfer) &&
            send->dtype != recv->dtype)
            return check_refuse(transfer, "send and recv must have one type", recv);
    }
    switch (transfer->kind) {
    case PT_SEND: return check_peer(transfer);
    case PT_RECV:
    case PT_BROADCAST:
        PT_TRY(check_peer(transfer));
        return comm_check_tensor(transfer, recv, "recv", -1);
    case PT_ALL_GATHER: return check_all_gather(transfer);
    case PT_ALL_TO_ALL: return check_all_to_all(transfer);
    case PT_REDUCE_SCATTER:
    case PT_ALL_REDUCE: return comm_check_sum(transfer);
    case PT_MAX:
    case PT_SUM_INT64: return check_reduction(transfer);
    case PT_TRANSFER_KINDS: break;
    }
    return check_refuse(transfer, "no such kind", NULL);
}
