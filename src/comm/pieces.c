/* SPDX-License-Identifier: Apache-2.0 */
/* Moves sums and gathers in pieces through the ring of their communicator.
 *
 *   open   takes a slot, rounds and copies out what is sent
 *   start  puts it on the wire
 *   land   copies in what arrived, adds it up, hands the slot on
 *
 * Pieces of a communicator go through all three in the order of its requests. */
#include "penta/base/rng.h"
#include "penta/comm/watch.h"
#include "src/comm/private.h"

enum { CHAOS_POLLS = 8 };

/* ---- what goes through a ring ---------------------------------------------------------------- */

bool pt_transfer_is_sum(const pt_transfer_t *transfer)
{
    return transfer->kind == PT_REDUCE_SCATTER || transfer->kind == PT_ALL_REDUCE;
}

bool pt_transfer_has_pieces(const pt_transfer_t *transfer)
{
    return pt_transfer_is_sum(transfer) ||
           (transfer->kind == PT_ALL_GATHER && transfer->comm->ring);
}

int64_t pt_transfer_granularity(const pt_transfer_t *transfer)
{
    return transfer->granularity > 0 ? transfer->granularity : 1;
}

/* The tensor that is divided into blocks. An all-reduce has one block, which goes to
 * all ranks. */
static int64_t piece_whole(const pt_transfer_t *transfer)
{
    return pt_tensor_count(transfer->kind == PT_ALL_GATHER ? &transfer->recv
                                                           : &transfer->send);
}

pt_rank_block_t pt_transfer_block(const pt_transfer_t *transfer, int rank)
{
    int64_t count = piece_whole(transfer);

    if (transfer->kind == PT_ALL_REDUCE)
        return (pt_rank_block_t){0, count};
    return pt_rank_block(count, pt_transfer_granularity(transfer), rank,
                         transfer->comm->group->size);
}

pt_dtype_t pt_transfer_wire_dtype(const pt_transfer_t *transfer)
{
    return pt_transfer_is_sum(transfer) ? transfer->wire_dtype : transfer->send.dtype;
}

void pt_pieces_count(pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    int64_t most = piece_whole(transfer), size = transfer->comm->group->size;

    if (transfer->kind != PT_ALL_REDUCE)
        most = pt_rank_block_most(most, pt_transfer_granularity(transfer), (int)size);
    request->piece = transfer->comm->ring->options.peer_bytes /
                     (int64_t)pt_dtype_size(pt_transfer_wire_dtype(transfer));
    request->pieces = (most + request->piece - 1) / request->piece;
    request->ticket.move.count = piece_whole(transfer); /* the same on all ranks */
}

/* Elements of a block that are in the piece that begins at `first`. */
static int64_t piece_count(const pt_request_t *request, pt_rank_block_t block,
                           int64_t first)
{
    int64_t left = block.count - first;

    return left <= 0 ? 0 : left < request->piece ? left : request->piece;
}

static pt_slot_t *piece_slot(const pt_request_t *request, uint64_t number)
{
    pt_ring_t *ring = request->transfer.comm->ring;

    return &ring->slot[number % (uint64_t)ring->options.slots];
}

/* Elements of the one piece of this rank. */
static int64_t piece_own(const pt_request_t *request, const pt_slot_t *slot)
{
    const pt_transfer_t *transfer = &request->transfer;

    return piece_count(
        request, pt_transfer_block(transfer, transfer->comm->group->rank), slot->first);
}

static pt_status_t piece_mark(pt_request_t *request, pt_slot_t *slot)
{
    pt_engine_t *engine = request->transfer.comm->engine;

    slot->marked = true;
    return engine->device->ops->event_record(engine->device, slot->event,
                                             engine->stream);
}

static pt_status_t piece_is_ready(pt_request_t *request, pt_slot_t *slot, bool *ready)
{
    pt_engine_t *engine = request->transfer.comm->engine;

    *ready = true;
    if (slot->marked)
        PT_TRY(engine->device->ops->event_query(engine->device, slot->event, ready));
    return PT_OK;
}

/* ---- runs: the elements of a piece, neighbouring blocks together ------------------------------ */

typedef struct run {
    int64_t first, count; /* in the tensor that is cut into blocks */
    int64_t packed; /* where they are when all blocks of the piece lie close together */
} run_t;

/* Advances `*rank` over the blocks of the next run; false: there is none. */
static bool pieces_next_run(const pt_request_t *request, int64_t first, int *rank,
                            run_t *run)
{
    const pt_transfer_t *transfer = &request->transfer;
    int size = transfer->kind == PT_ALL_REDUCE ? 1 : transfer->comm->group->size;

    run->packed += run->count;
    run->count = 0;
    for (; *rank < size; ++*rank) {
        pt_rank_block_t block = pt_transfer_block(transfer, *rank);
        int64_t count = piece_count(request, block, first);
        if (count == 0)
            continue;
        if (run->count == 0)
            run->first = block.first + first;
        else if (run->first + run->count != block.first + first)
            break;
        run->count += count;
    }
    return run->count > 0;
}

static pt_tensor_t piece_tensor(const pt_request_t *request, char *data)
{
    return pt_tensor_1d(data, pt_transfer_wire_dtype(&request->transfer),
                        request->transfer.send.memory, 0);
}

/* Rounds what is sent to the type on the wire. */
static pt_status_t piece_cast(pt_request_t *request, const pt_slot_t *slot)
{
    const pt_tensor_t *send = &request->transfer.send;
    pt_engine_t *engine = request->transfer.comm->engine;
    pt_tensor_t flat =
        pt_tensor_1d(send->data, send->dtype, send->memory, pt_tensor_count(send));
    pt_tensor_t sent = piece_tensor(request, slot->sent);
    run_t run = {0};

    for (int rank = 0; pieces_next_run(request, slot->first, &rank, &run);) {
        pt_op_cast_t cast = {.x = pt_tensor_slice(flat, 0, run.first, run.count),
                             .y = pt_tensor_slice(sent, 0, run.packed, run.count)};
        PT_TRY(pt_op_cast(engine->device, engine->stream, &cast));
    }
    return PT_OK;
}

/* `count` elements between a device tensor, from `first` on, and staging. */
static pt_status_t piece_copy(pt_request_t *request, char *device, int64_t first,
                              int64_t staged, int64_t at, int64_t count, bool out)
{
    pt_engine_t *engine = request->transfer.comm->engine;
    const pt_device_ops_t *ops = engine->device->ops;
    int64_t size = (int64_t)pt_dtype_size(pt_transfer_wire_dtype(&request->transfer));
    char *host = engine->staging + staged + at * size;

    device += first * size;
    if (count == 0)
        return PT_OK;
    if (out)
        return ops->copy(engine->device, engine->stream, host, PT_MEMORY_HOST, device,
                         PT_MEMORY_DEVICE, count * size);
    return ops->copy(engine->device, engine->stream, device, PT_MEMORY_DEVICE, host,
                     PT_MEMORY_HOST, count * size);
}

/* ---- open ------------------------------------------------------------------------------------- */

static bool piece_is_cast(const pt_transfer_t *transfer)
{
    return pt_transfer_is_sum(transfer) && transfer->wire_dtype != transfer->send.dtype;
}

/* An all-gather sends from its place among what is received, where it is copied to. */
static int64_t pieces_gather_place(const pt_request_t *request, const pt_slot_t *slot)
{
    int64_t packed = 0;

    for (int r = 0; r < request->transfer.comm->group->rank; r++)
        packed +=
            piece_count(request, pt_transfer_block(&request->transfer, r), slot->first);
    return packed;
}

static pt_status_t piece_stage_out(pt_request_t *request, const pt_slot_t *slot)
{
    const pt_transfer_t *transfer = &request->transfer;
    char *send = transfer->send.data;
    int64_t own = piece_own(request, slot);
    run_t run = {0};

    if (transfer->kind == PT_ALL_GATHER)
        return piece_copy(request, send, slot->first, slot->stage_received,
                          pieces_gather_place(request, slot), own, true);
    for (int rank = 0; pieces_next_run(request, slot->first, &rank, &run);) {
        if (piece_is_cast(transfer))
            PT_TRY(piece_copy(request, slot->sent, run.packed, slot->stage_sent,
                              run.packed, run.count, true));
        else
            PT_TRY(piece_copy(request, send, run.first, slot->stage_sent, run.packed,
                              run.count, true));
    }
    return PT_OK;
}

/* Describes blocks in the caller's tensor, or packed. */
static void piece_list(const pt_request_t *request, const pt_slot_t *slot, bool packed,
                       int64_t *counts, int64_t *starts)
{
    int64_t at = 0;

    for (int r = 0; r < request->transfer.comm->group->size; r++) {
        pt_rank_block_t block = pt_transfer_block(&request->transfer, r);
        counts[r] = piece_count(request, block, slot->first);
        starts[r] = packed ? at : block.first + slot->first;
        at += counts[r];
    }
}

/* Every rank sends as much as this one holds itself. */
static void piece_list_equal(const pt_request_t *request, int64_t own, int64_t *counts,
                             int64_t *starts)
{
    for (int r = 0; r < request->transfer.comm->group->size; r++) {
        counts[r] = own;
        starts[r] = r * own;
    }
}

static void piece_describe(pt_request_t *request, pt_slot_t *slot)
{
    const pt_transfer_t *transfer = &request->transfer;
    const pt_engine_t *engine = transfer->comm->engine;
    pt_transport_move_t *move = &slot->ticket.move;
    int64_t own = piece_own(request, slot), size = transfer->comm->group->size;
    int64_t bytes = (int64_t)pt_dtype_size(pt_transfer_wire_dtype(transfer));
    bool gathers = transfer->kind == PT_ALL_GATHER, cast = piece_is_cast(transfer);
    bool staged = request->staged;
    char *sent = cast ? slot->sent : transfer->send.data;

    *move = (pt_transport_move_t){
        .kind = transfer->kind == PT_REDUCE_SCATTER ? PT_ALL_TO_ALL : PT_ALL_GATHER,
        .dtype = pt_transfer_wire_dtype(transfer),
        .count = own,
        .recv = gathers ? transfer->recv.data : slot->received};
    if (transfer->kind != PT_REDUCE_SCATTER && !cast && sent)
        sent += slot->first * bytes;
    move->send = staged ? engine->staging + slot->stage_sent : sent;
    if (staged)
        move->recv = engine->staging + slot->stage_received;
    if (staged && gathers)
        move->send = (char *)move->recv + pieces_gather_place(request, slot) * bytes;
    if (!slot->counts || transfer->kind == PT_ALL_REDUCE)
        return;
    move->recv_counts = slot->counts + 2 * size;
    move->recv_starts = slot->counts + 3 * size;
    move->room = (int *)(slot->counts + 4 * size);
    if (gathers) {
        piece_list(request, slot, staged, slot->counts + 2 * size,
                   slot->counts + 3 * size);
        return;
    }
    move->send_counts = slot->counts;
    move->send_starts = slot->counts + size;
    piece_list(request, slot, cast || staged, slot->counts, slot->counts + size);
    piece_list_equal(request, own, slot->counts + 2 * size, slot->counts + 3 * size);
}

static pt_status_t piece_open(pt_request_t *request, bool *moved)
{
    const pt_transfer_t *transfer = &request->transfer;
    pt_engine_t *engine = transfer->comm->engine;
    pt_ring_t *ring = transfer->comm->ring;
    pt_slot_t *slot = piece_slot(request, ring->opened);
    bool cast = piece_is_cast(transfer), free;

    if (request->opened == request->pieces || !pt_request_has_turn(request) ||
        ring->opened - ring->landed == (uint64_t)ring->options.slots)
        return PT_OK;
    PT_TRY(piece_is_ready(request, slot, &free));
    if (!free)
        return PT_OK;
    if (request->opened == 0)
        request->first_piece = ring->opened;
    slot->marked = false;
    slot->first = request->opened * request->piece;
    slot->delay = 0;
    if (engine->chaos != 0)
        slot->delay = (int)(pt_mix64(engine->chaos + ring->opened) % CHAOS_POLLS);
    if (cast)
        PT_TRY(piece_cast(request, slot));
    if (request->staged)
        PT_TRY(piece_stage_out(request, slot));
    piece_describe(request, slot);
    /* The sums of the requests this one comes after are ahead of it in the engine's
     * stream. */
    if (engine->stream && (cast || request->staged || transfer->after_count > 0))
        PT_TRY(piece_mark(request, slot));
    request->opened++;
    ring->opened++;
    *moved = true;
    return PT_OK;
}

/* ---- start, land ------------------------------------------------------------------------------ */

static pt_status_t piece_start(pt_request_t *request, bool *moved)
{
    pt_comm_t *comm = request->transfer.comm;
    pt_slot_t *slot = piece_slot(request, comm->ring->started);
    bool ready;

    if (request->started == request->opened)
        return PT_OK;
    PT_TRY(piece_is_ready(request, slot, &ready));
    if (!ready || slot->delay-- > 0)
        return PT_OK;
    slot->marked = false;
    slot->ticket.group = comm->group;
    slot->ticket.done = false;
    PT_TRY(pt_watch_explain(
        comm->engine->transport->ops->start(comm->engine->transport, &slot->ticket)));
    if (request->started++ == 0)
        watch_on_wire(request->watch);
    comm->ring->started++;
    *moved = true;
    return PT_OK;
}

static pt_status_t piece_stage_in(pt_request_t *request, const pt_slot_t *slot)
{
    const pt_transfer_t *transfer = &request->transfer;
    int64_t own = piece_own(request, slot), size = transfer->comm->group->size;
    run_t run = {0};

    if (transfer->kind != PT_ALL_GATHER)
        return piece_copy(request, slot->received, 0, slot->stage_received, 0,
                          own * size, false);
    for (int rank = 0; pieces_next_run(request, slot->first, &rank, &run);)
        PT_TRY(piece_copy(request, transfer->recv.data, run.first, slot->stage_received,
                          run.packed, run.count, false));
    return PT_OK;
}

static pt_status_t piece_sum(pt_request_t *request, const pt_slot_t *slot)
{
    const pt_transfer_t *transfer = &request->transfer;
    pt_engine_t *engine = transfer->comm->engine;
    const pt_tensor_t *recv = &transfer->recv;
    int64_t own = piece_own(request, slot);
    pt_op_ordered_sum_t sum = {.accumulate = transfer->accumulate};

    if (own == 0)
        return PT_OK;
    sum.src = pt_tensor_2d(slot->received, transfer->wire_dtype, recv->memory,
                           transfer->comm->group->size, own);
    sum.dst = pt_tensor_slice(pt_tensor_1d(recv->data, recv->dtype, recv->memory, own),
                              0, slot->first, own);
    return pt_op_ordered_sum(engine->device, engine->stream, &sum);
}

static pt_status_t piece_land(pt_request_t *request, bool *moved)
{
    pt_comm_t *comm = request->transfer.comm;
    pt_engine_t *engine = comm->engine;
    pt_slot_t *slot = piece_slot(request, comm->ring->landed);
    bool sums = pt_transfer_is_sum(&request->transfer), done = false;

    if (request->landed == request->started ||
        comm->ring->landed != request->first_piece + (uint64_t)request->landed)
        return PT_OK; /* none, or those of earlier requests go first */
    PT_TRY(pt_watch_explain(
        engine->transport->ops->test(engine->transport, &slot->ticket, &done)));
    if (!done)
        return PT_OK;
    if (request->staged)
        PT_TRY(piece_stage_in(request, slot));
    if (sums)
        PT_TRY(piece_sum(request, slot));
    if (request->staged || sums) {
        PT_TRY(piece_mark(request, slot));
        request->marked = true;
    }
    request->landed++;
    comm->ring->landed++;
    *moved = true;
    return PT_OK;
}

pt_status_t pt_pieces_advance(pt_request_t *request)
{
    bool moved;

    do {
        moved = false;
        PT_TRY(piece_land(request, &moved));
        PT_TRY(piece_start(request, &moved));
        PT_TRY(piece_open(request, &moved));
        request->transfer.comm->engine->moves += moved;
    } while (moved);
    return PT_OK;
}
