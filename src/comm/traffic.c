/* SPDX-License-Identifier: Apache-2.0 */
/* What this rank sent, counted when it is begun. */
#include "src/comm/private.h"

static const char *const kind_names[PT_TRANSFER_KINDS] = {
    [PT_SEND] = "send",
    [PT_RECV] = "receive",
    [PT_BROADCAST] = "broadcast",
    [PT_ALL_GATHER] = "all-gather",
    [PT_ALL_TO_ALL] = "all-to-all",
    [PT_REDUCE_SCATTER] = "reduce-scatter",
    [PT_ALL_REDUCE] = "all-reduce",
    [PT_MAX] = "max",
    [PT_SUM_INT64] = "integer sum",
};

const char *pt_transfer_kind_name(pt_transfer_kind_t kind)
{
    return (unsigned)kind < PT_TRANSFER_KINDS ? kind_names[kind] : "unknown transfer";
}

const pt_traffic_t *pt_engine_traffic(const pt_engine_t *engine)
{
    return &engine->traffic;
}

static void traffic_add(pt_traffic_row_t *row, int64_t messages, int64_t bytes)
{
    row->calls++;
    row->messages += messages;
    row->bytes_sent += bytes;
}

/* Bytes of the blocks of an unequal all-to-all that are for others. */
static int64_t traffic_unequal_bytes(const pt_comm_t *comm,
                                     const pt_transport_move_t *move)
{
    int64_t elements = 0;

    for (int r = 0; r < comm->group->size; r++)
        if (r != comm->group->rank)
            elements += move->send_counts[r];
    return elements * (int64_t)pt_dtype_size(move->dtype);
}

static void traffic_book(pt_comm_t *comm, int kind, const pt_transport_move_t *move)
{
    pt_traffic_row_t *row = &comm->engine->traffic.rows[comm->axis][kind];
    int64_t others = comm->group->size - 1, rank = comm->group->rank;
    int64_t bytes = move->count * (int64_t)pt_dtype_size(move->dtype);
    bool leaves = others > 0;

    switch (move->kind) {
    case PT_SEND: leaves = move->peer != rank; break;
    case PT_RECV: leaves = false; break;
    case PT_TRANSPORT_GATHER: leaves = move->peer != rank; break;
    case PT_BROADCAST: leaves = leaves && move->peer == rank; /* fall through */
    case PT_ALL_GATHER:
        traffic_add(row, leaves ? others : 0, leaves ? others * bytes : 0);
        return;
    case PT_ALL_TO_ALL:
        traffic_add(row, others,
                    move->send_counts ? traffic_unequal_bytes(comm, move)
                                      : others * bytes);
        return;
    default: break;
    }
    traffic_add(row, leaves, leaves ? bytes : 0);
}

static void traffic_book_pieces(const pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    pt_comm_t *comm = transfer->comm;
    int size = comm->group->size;
    pt_rank_block_t own = pt_transfer_block(transfer, comm->group->rank);
    int64_t pieces = (own.count + request->piece - 1) / request->piece;
    int64_t messages = pieces * (size - 1), elements = own.count * (size - 1);

    if (transfer->kind == PT_REDUCE_SCATTER) {
        int64_t count = pt_tensor_count(&transfer->send);
        messages = pt_rank_block_pieces(count, pt_transfer_granularity(transfer), size,
                                        request->piece) -
                   pieces;
        elements = count - own.count;
    }
    traffic_add(&comm->engine->traffic.rows[comm->axis][transfer->kind], messages,
                elements * (int64_t)pt_dtype_size(pt_transfer_wire_dtype(transfer)));
}

void pt_traffic_book(const pt_request_t *request)
{
    if (request->piece > 0)
        traffic_book_pieces(request);
    else
        traffic_book(request->transfer.comm, (int)request->transfer.kind,
                     &request->ticket.move);
}

void pt_traffic_book_small(pt_comm_t *comm, const pt_transport_move_t *move)
{
    int kind = move->kind;

    if (kind == PT_TRANSPORT_BARRIER)
        kind = PT_SUM_INT64;
    else if (kind == PT_TRANSPORT_GATHER)
        kind = PT_ALL_GATHER;
    traffic_book(comm, kind, move);
}

void pt_traffic_book_control(pt_comm_t *comm, int64_t messages, int64_t bytes)
{
    bool leaves = comm->group->size > 1;

    traffic_add(&comm->engine->traffic.control, leaves ? messages : 0,
                leaves ? bytes : 0);
}
