/* SPDX-License-Identifier: Apache-2.0 */
/* A world of one rank: collectives copy, messages to oneself meet here. */
#include "penta/base/alloc.h"
#include "src/comm/transport.h"

#include <string.h>

typedef struct serial_transport {
    pt_transport_t transport;
    pt_transport_ticket_t *waiting; /* sends and receives without a partner, oldest first */
} serial_transport_t;

static void serial_close(pt_transport_t *transport)
{
    pt_free(transport->world);
    pt_free(transport);
}

static pt_status_t serial_split(pt_transport_t *transport, pt_transport_group_t *parent,
                                pt_comm_place_t place, const char *name,
                                pt_transport_group_t **out)
{
    (void)transport, (void)parent, (void)name;
    *out = NULL;
    return place.color < 0 ? PT_OK : pt_transport_group_new(0, 1, out);
}

static void serial_free_group(pt_transport_t *transport, pt_transport_group_t *group)
{
    (void)transport;
    pt_free(group);
}

static void transport_copy(void *to, const void *from, int64_t bytes)
{
    if (to != from && bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

static bool transport_are_partners(const pt_transport_ticket_t *a,
                                   const pt_transport_ticket_t *b)
{
    return a->group == b->group && a->move.tag == b->move.tag &&
           a->move.kind != b->move.kind;
}

static pt_status_t transport_meet(serial_transport_t *transport,
                                  pt_transport_ticket_t *ticket)
{
    pt_transport_ticket_t **place = &transport->waiting, *partner;
    const pt_transport_move_t *send, *recv;

    while (*place && !transport_are_partners(*place, ticket))
        place = &(*place)->next;
    partner = *place;
    if (!partner) {
        ticket->next = NULL;
        *place = ticket;
        return PT_OK;
    }
    send = ticket->move.kind == PT_SEND ? &ticket->move : &partner->move;
    recv = ticket->move.kind == PT_SEND ? &partner->move : &ticket->move;
    PT_CHECK(send->count == recv->count && send->dtype == recv->dtype, PT_INTERNAL,
             "a message of %lld elements meets a receive of %lld, tag %d",
             (long long)send->count, (long long)recv->count, send->tag);
    transport_copy(recv->recv, send->send,
                   send->count * (int64_t)pt_dtype_size(send->dtype));
    *place = partner->next;
    partner->done = ticket->done = true;
    return PT_OK;
}

static pt_status_t serial_start(pt_transport_t *transport, pt_transport_ticket_t *ticket)
{
    const pt_transport_move_t *move = &ticket->move;
    int64_t size = (int64_t)pt_dtype_size(move->dtype);

    if (move->kind == PT_SEND || move->kind == PT_RECV)
        return transport_meet((serial_transport_t *)transport, ticket);
    ticket->done = true;
    if (move->kind == PT_ALL_GATHER && move->recv_counts) {
        PT_REQUIRE(move->recv_counts[0] == move->count);
        transport_copy((char *)move->recv + move->recv_starts[0] * size, move->send,
                       move->count * size);
    } else if (move->send_counts) {
        PT_REQUIRE(move->send_counts[0] == move->recv_counts[0]);
        transport_copy((char *)move->recv + move->recv_starts[0] * size,
                       (const char *)move->send + move->send_starts[0] * size,
                       move->send_counts[0] * size);
    } else if (move->kind != PT_BROADCAST && move->kind != PT_TRANSPORT_BARRIER) {
        transport_copy(move->recv, move->send, move->count * size);
    }
    return PT_OK;
}

static pt_status_t serial_test(pt_transport_t *transport, pt_transport_ticket_t *ticket,
                               bool *done)
{
    (void)transport;
    *done = ticket->done;
    return PT_OK;
}

static void *serial_mpi(pt_transport_group_t *group)
{
    (void)group;
    return NULL;
}

static const pt_transport_ops_t serial_ops = {
    .name = "serial",
    .close = serial_close,
    .split = serial_split,
    .free_group = serial_free_group,
    .start = serial_start,
    .test = serial_test,
    .mpi = serial_mpi,
    .abort = pt_transport_leave,
};

pt_status_t pt_transport_open_serial(pt_transport_t **out)
{
    serial_transport_t *serial = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_TRY(PT_NEW("serial transport", 1, &serial));
    serial->transport.ops = &serial_ops;
    serial->transport.moves_data = true;
    PT_TRY_GOTO(release, pt_transport_group_new(0, 1, &serial->transport.world));
    *out = &serial->transport;
    return PT_OK;
release:
    pt_free(serial);
    return status;
}
