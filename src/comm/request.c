/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of a request: begin, progress, end. */
#include "penta/base/clock.h"
#include "penta/base/rng.h"
#include "penta/comm/watch.h"
#include "src/comm/private.h"

enum { TAG_CHUNKS = 32, TAG_INDICES = 256, CHAOS_POLLS = 16 };

int pt_tag(pt_tag_use_t use, int chunk, int64_t index)
{
    return (((int)use * TAG_CHUNKS + chunk) * TAG_INDICES) + (int)(index % TAG_INDICES);
}

/* ---- lists -------------------------------------------------------------------------------- */

static pt_engine_t *request_engine_of(const pt_request_t *request)
{
    return request->transfer.comm->engine;
}

static bool request_is_message(const pt_request_t *request)
{
    return request->ticket.move.kind == PT_SEND || request->ticket.move.kind == PT_RECV;
}

static pt_queue_t *request_queue_of(const pt_request_t *request)
{
    pt_comm_t *comm = request->transfer.comm;

    return request_is_message(request) ? &comm->messages : &comm->collectives;
}

static void request_enqueue(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);
    pt_queue_t *queue = request_queue_of(request);

    request->previous = engine->last;
    request->next = NULL;
    *(engine->last ? &engine->last->next : &engine->first) = request;
    engine->last = request;
    request->later = NULL;
    *(queue->last ? &queue->last->later : &queue->first) = request;
    queue->last = request;
    watch_begin_request(request);
}

void pt_request_leave_queue(pt_request_t *request)
{
    pt_queue_t *queue = request_queue_of(request);
    pt_request_t **place = &queue->first, *before = NULL;

    while (*place != request) {
        before = *place;
        place = &before->later;
    }
    *place = request->later;
    if (queue->last == request)
        queue->last = before;
}

static void request_leave_active(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);

    *(request->previous ? &request->previous->next : &engine->first) = request->next;
    *(request->next ? &request->next->previous : &engine->last) = request->previous;
}

/* Order is the contract: the transport matches collectives by it. Messages are matched
 * by peer and tag, so only those of the same pair wait for each other. */
bool pt_request_has_turn(const pt_request_t *request)
{
    const pt_queue_t *queue = request_queue_of(request);
    const pt_transport_move_t *move = &request->ticket.move;

    if (!request_is_message(request))
        return queue->first == request;
    for (const pt_request_t *r = queue->first; r != request; r = r->later)
        if (r->ticket.move.kind == move->kind && r->ticket.move.peer == move->peer &&
            r->ticket.move.tag == move->tag)
            return false;
    return true;
}

/* ---- states ------------------------------------------------------------------------------- */

static pt_status_t request_is_ready(pt_engine_t *engine, pt_event_t *event, bool *ready)
{
    *ready = true;
    return event ? engine->device->ops->event_query(engine->device, event, ready)
                 : PT_OK;
}

static pt_status_t request_mark(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);

    if (!request->event)
        PT_TRY(pt_engine_take_event(engine, &request->event));
    return engine->device->ops->event_record(engine->device, request->event,
                                             engine->stream);
}

/* Are all requests done that this one comes after? One that was ended since has another
 * number, or is free. */
static bool request_may_follow(const pt_request_t *request)
{
    for (int i = 0; i < request->transfer.after_count; i++) {
        const pt_request_t *after = request->transfer.after[i];
        if (after->number == request->after[i] && after->state != PT_REQUEST_FREE &&
            after->state != PT_REQUEST_DONE)
            return false;
    }
    return true;
}

/* The device work before the transport: copying out, and the sums of the requests that
 * this one comes after, which are ahead of it in the engine's stream. Pieces see to it
 * themselves. */
static pt_status_t request_start_staging(pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    bool follows = transfer->after_count > 0 && request_engine_of(request)->stream;

    request->state = PT_REQUEST_QUEUED;
    if (request->piece > 0 || !(request->staged || follows))
        return PT_OK;
    if (request->staged)
        PT_TRY(pt_staging_out(request));
    request->state = PT_REQUEST_STAGING;
    return request_mark(request);
}

static pt_status_t request_advance_ready(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);
    bool ready;

    if (request->delay > 0) {
        request->delay--;
        engine->moves++;
        return PT_OK;
    }
    if (!request_may_follow(request))
        return PT_OK;
    PT_TRY(request_is_ready(engine, request->event, &ready));
    if (ready && request->staged && request->piece == 0)
        PT_TRY(pt_staging_is_vacant(request, &ready));
    return ready ? request_start_staging(request) : PT_OK;
}

static pt_status_t request_advance_staging(pt_request_t *request)
{
    bool ready;

    PT_TRY(request_is_ready(request_engine_of(request), request->event, &ready));
    if (ready)
        request->state = PT_REQUEST_QUEUED;
    return PT_OK;
}

/* The device work after the transport. It is ordered by `event`, which end makes the
 * caller's stream wait for. */
static pt_status_t request_start_finish(pt_request_t *request)
{
    request_leave_active(request);
    request->state = PT_REQUEST_DONE;
    watch_done(request->transfer.comm, request->watch);
    if (request->staged && request->piece == 0)
        PT_TRY(pt_staging_in(request));
    return request->marked ? request_mark(request) : PT_OK;
}

static pt_status_t request_advance_pieces(pt_request_t *request)
{
    PT_TRY(pt_pieces_advance(request));
    if (request->state == PT_REQUEST_QUEUED && request->started == request->pieces) {
        pt_request_leave_queue(request);
        request->state = PT_REQUEST_ON_WIRE;
    }
    return request->landed == request->pieces ? request_start_finish(request) : PT_OK;
}

static pt_status_t request_advance_queued(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);

    if (request->piece > 0)
        return request_advance_pieces(request);
    if (!pt_request_has_turn(request))
        return PT_OK;
    pt_request_leave_queue(request);
    request->state = PT_REQUEST_ON_WIRE;
    watch_on_wire(request->watch);
    return pt_watch_explain(
        engine->transport->ops->start(engine->transport, &request->ticket));
}

static pt_status_t request_advance_on_wire(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);
    bool done = false;

    if (request->piece > 0)
        return request_advance_pieces(request);
    PT_TRY(pt_watch_explain(
        engine->transport->ops->test(engine->transport, &request->ticket, &done)));
    return done ? request_start_finish(request) : PT_OK;
}

static pt_status_t request_advance(pt_request_t *request)
{
    pt_request_state_t before;

    do {
        before = request->state;
        switch (before) {
        case PT_REQUEST_READY: PT_TRY(request_advance_ready(request)); break;
        case PT_REQUEST_STAGING: PT_TRY(request_advance_staging(request)); break;
        case PT_REQUEST_QUEUED: PT_TRY(request_advance_queued(request)); break;
        case PT_REQUEST_ON_WIRE: PT_TRY(request_advance_on_wire(request)); break;
        case PT_REQUEST_FREE:
        case PT_REQUEST_DONE: break;
        }
        request_engine_of(request)->moves += request->state != before;
    } while (request->state != before);
    return PT_OK;
}

pt_status_t pt_comm_progress(pt_engine_t *engine)
{
    pt_request_t *next;

    pt_watch_beat();
    for (pt_request_t *request = engine->first; request; request = next) {
        next = request->next;
        PT_TRY(request_advance(request));
    }
    return PT_OK;
}

/* ---- begin -------------------------------------------------------------------------------- */

static pt_status_t request_new(pt_comm_t *comm, pt_request_t **out)
{
    pt_engine_t *engine = comm->engine;
    pt_request_t *request = engine->unused;

    *out = NULL;
    PT_CHECK(
        request, PT_INTERNAL,
        "more than %d transfers in flight: something begins them and never ends them",
        engine->max_requests);
    engine->unused = request->next;
    *request = (pt_request_t){.transfer = {.comm = comm},
                              .state = PT_REQUEST_READY,
                              .number = ++engine->begun,
                              .ticket = {.group = comm->group}};
    if (engine->chaos != 0)
        request->delay = (int)(pt_mix64(engine->chaos + engine->begun) % CHAOS_POLLS);
    *out = request;
    return PT_OK;
}

void pt_request_release(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);

    pt_engine_return_event(engine, request->event);
    request->state = PT_REQUEST_FREE;
    request->next = engine->unused;
    engine->unused = request;
}

static pt_transport_move_t request_move_of(const pt_transfer_t *transfer)
{
    const pt_tensor_t *tensor = pt_transfer_tensor(transfer);
    pt_transport_move_t move = {.kind = (int)transfer->kind,
                                .peer = transfer->peer,
                                .tag = transfer->tag,
                                .dtype = tensor->dtype,
                                .count = pt_tensor_count(tensor),
                                .send = transfer->send.data,
                                .recv = transfer->recv.data,
                                .send_counts = transfer->send_counts,
                                .send_starts = transfer->send_starts,
                                .recv_counts = transfer->recv_counts,
                                .recv_starts = transfer->recv_starts};

    if (move.kind == PT_ALL_TO_ALL)
        move.count /= transfer->comm->group->size;
    return move;
}

/* Where the transport meets the bytes when they are staged. */
static void request_redirect(pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    pt_transport_move_t *move = &request->ticket.move;
    int64_t own = pt_tensor_bytes(&transfer->send) * transfer->comm->group->rank;

    move->recv = request->stage_recv;
    switch (transfer->kind) {
    case PT_ALL_GATHER: move->send = request->stage_recv + own; break;
    case PT_MAX:
    case PT_SUM_INT64: move->send = request->stage_recv; break;
    default: move->send = request->stage_send; break;
    }
}

pt_status_t pt_comm_begin(const pt_transfer_t *transfer, pt_request_t **out)
{
    pt_engine_t *engine = transfer->comm->engine;
    pt_request_t *request = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_TRY_GOTO(give_back_event, pt_transfer_check(transfer));
    PT_TRY_GOTO(give_back_event, request_new(transfer->comm, &request));
    request->transfer = *transfer;
    request->ticket.move = request_move_of(transfer);
    if (pt_transfer_has_pieces(transfer))
        pt_pieces_count(request);
    request->event = transfer->ready;
    for (int i = 0; i < transfer->after_count; i++)
        request->after[i] = transfer->after[i]->number;
    if (watch_inject(transfer->comm, &request->ticket.move)) {
        request->state = PT_REQUEST_DONE;
        *out = request;
        return PT_OK;
    }
    PT_TRY_GOTO(release, pt_staging_take(request));
    if (request->staged && request->piece == 0)
        request_redirect(request);
    pt_traffic_book(request);
    request_enqueue(request);
    *out = request;
    return request_advance(request);

release:
    (void)pt_staging_release(request);
    pt_request_release(request);
    return status;
give_back_event:
    pt_engine_return_event(engine, transfer->ready);
    return status;
}

pt_status_t pt_request_begin_move(pt_comm_t *comm, const pt_transport_move_t *move,
                                  pt_request_t **out)
{
    PT_TRY(request_new(comm, out));
    (*out)->ticket.move = *move;
    (*out)->transfer.kind = PT_TRANSFER_KINDS;
    request_enqueue(*out);
    return request_advance(*out);
}

/* ---- end ---------------------------------------------------------------------------------- */

/* Of the ops that requests call for. */
static double request_op_sec(const pt_engine_t *engine)
{
    const pt_op_count_t *counts = engine->device ? engine->device->counts : NULL;

    return counts ? counts[PT_OP_cast].sec + counts[PT_OP_ordered_sum].sec : 0;
}

pt_status_t pt_request_wait(pt_request_t *request)
{
    pt_engine_t *engine = request_engine_of(request);
    pt_idle_t idle = {0};
    double start;

    if (request->state == PT_REQUEST_DONE)
        return PT_OK;
    start = pt_clock_sec() - request_op_sec(engine);
    watch_wait_request(request);
    for (;;) {
        PT_TRY(pt_comm_progress(engine));
        if (request->state == PT_REQUEST_DONE)
            break;
        pt_wait_idle(&idle, engine->moves);
    }
    watch_waited();
    engine->traffic.wait_sec += pt_clock_sec() - request_op_sec(engine) - start;
    return PT_OK;
}

pt_status_t pt_comm_end(pt_request_t **request, pt_stream_t *stream)
{
    pt_request_t *r = *request;
    pt_engine_t *engine;

    if (!r)
        return PT_OK;
    engine = request_engine_of(r);
    engine->traffic.waits += r->state != PT_REQUEST_DONE;
    PT_TRY(pt_request_wait(r));
    if (r->marked && stream)
        PT_TRY(engine->device->ops->stream_wait(engine->device, stream, r->event));
    else if (r->marked)
        PT_TRY(pt_comm_wait_event(engine, r->event));
    PT_TRY(pt_staging_release(r));
    pt_request_release(r);
    *request = NULL;
    return PT_OK;
}

pt_status_t pt_comm_flush(pt_comm_t *comm)
{
    pt_engine_t *engine = comm->engine;
    pt_idle_t idle = {0};

    while (comm->collectives.first || comm->messages.first) {
        watch_wait_request(comm->collectives.first ? comm->collectives.first
                                                   : comm->messages.first);
        PT_TRY(pt_comm_progress(engine));
        pt_wait_idle(&idle, engine->moves);
    }
    watch_waited();
    return PT_OK;
}
