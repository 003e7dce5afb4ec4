/* SPDX-License-Identifier: Apache-2.0 */
/* A world of one rank: collectives copy, messages to oneself meet here. */
#include "penta/base/alloc.h"
#include "src/comm/wire.h"

#include <string.h>

typedef struct serial_wire {
    pt_wire_t wire;
    pt_wire_ticket_t *waiting; /* sends and receives without a partner, oldest first */
} serial_wire_t;

static void serial_close(pt_wire_t *wire)
{
    pt_free(wire->world);
    pt_free(wire);
}

static pt_status_t serial_split(pt_wire_t *wire, pt_wire_group_t *parent,
                                pt_comm_place_t place, const char *name,
                                pt_wire_group_t **out)
{
    (void)wire, (void)parent, (void)name;
    *out = NULL;
    return place.color < 0 ? PT_OK : pt_wire_group_new(0, 1, out);
}

static void serial_free_group(pt_wire_t *wire, pt_wire_group_t *group)
{
    (void)wire;
    pt_free(group);
}

static void wire_copy(void *to, const void *from, int64_t bytes)
{
    if (to != from && bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

static bool wire_are_partners(const pt_wire_ticket_t *a, const pt_wire_ticket_t *b)
{
    return a->group == b->group && a->move.tag == b->move.tag &&
           a->move.kind != b->move.kind;
}

static pt_status_t wire_meet(serial_wire_t *wire, pt_wire_ticket_t *ticket)
{
    pt_wire_ticket_t **place = &wire->waiting, *partner;
    const pt_wire_move_t *send, *recv;

    while (*place && !wire_are_partners(*place, ticket))
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
    wire_copy(recv->recv, send->send, send->count * (int64_t)pt_dtype_size(send->dtype));
    *place = partner->next;
    partner->done = ticket->done = true;
    return PT_OK;
}

static pt_status_t serial_start(pt_wire_t *wire, pt_wire_ticket_t *ticket)
{
    const pt_wire_move_t *move = &ticket->move;
    int64_t size = (int64_t)pt_dtype_size(move->dtype);

    if (move->kind == PT_SEND || move->kind == PT_RECV)
        return wire_meet((serial_wire_t *)wire, ticket);
    ticket->done = true;
    if (move->kind == PT_ALL_GATHER && move->recv_counts) {
        PT_REQUIRE(move->recv_counts[0] == move->count);
        wire_copy((char *)move->recv + move->recv_starts[0] * size, move->send,
                  move->count * size);
    } else if (move->send_counts) {
        PT_REQUIRE(move->send_counts[0] == move->recv_counts[0]);
        wire_copy((char *)move->recv + move->recv_starts[0] * size,
                  (const char *)move->send + move->send_starts[0] * size,
                  move->send_counts[0] * size);
    } else if (move->kind != PT_BROADCAST && move->kind != PT_WIRE_BARRIER) {
        wire_copy(move->recv, move->send, move->count * size);
    }
    return PT_OK;
}

static pt_status_t serial_test(pt_wire_t *wire, pt_wire_ticket_t *ticket, bool *done)
{
    (void)wire;
    *done = ticket->done;
    return PT_OK;
}

static void *serial_mpi(pt_wire_group_t *group)
{
    (void)group;
    return NULL;
}

static const pt_wire_ops_t serial_ops = {
    .name = "serial",
    .close = serial_close,
    .split = serial_split,
    .free_group = serial_free_group,
    .start = serial_start,
    .test = serial_test,
    .mpi = serial_mpi,
    .abort = pt_wire_leave,
};

pt_status_t pt_wire_open_serial(pt_wire_t **out)
{
    serial_wire_t *serial = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_TRY(PT_NEW("serial wire", 1, &serial));
    serial->wire.ops = &serial_ops;
    serial->wire.moves_data = true;
    PT_TRY_GOTO(release, pt_wire_group_new(0, 1, &serial->wire.world));
    *out = &serial->wire;
    return PT_OK;
release:
    pt_free(serial);
    return status;
}
