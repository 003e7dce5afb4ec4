/* SPDX-License-Identifier: Apache-2.0 */
/* A world that does not exist: every transfer is done at once and moves nothing. */
#include "penta/base/alloc.h"
#include "src/comm/transport.h"

static void transport_dry_close(pt_transport_t *transport)
{
    pt_free(transport->world);
    pt_free(transport);
}

static pt_status_t dry_split(pt_transport_t *transport, pt_transport_group_t *parent,
                             pt_comm_place_t place, const char *name,
                             pt_transport_group_t **out)
{
    (void)transport, (void)parent, (void)name;
    *out = NULL;
    return place.color < 0 ? PT_OK
                           : pt_transport_group_new(place.rank, place.size, out);
}

static void dry_free_group(pt_transport_t *transport, pt_transport_group_t *group)
{
    (void)transport;
    pt_free(group);
}

static pt_status_t dry_start(pt_transport_t *transport, pt_transport_ticket_t *ticket)
{
    (void)transport;
    ticket->done = true;
    return PT_OK;
}

static pt_status_t dry_test(pt_transport_t *transport, pt_transport_ticket_t *ticket,
                            bool *done)
{
    (void)transport;
    *done = ticket->done;
    return PT_OK;
}

static void *dry_mpi(pt_transport_group_t *group)
{
    (void)group;
    return NULL;
}

static const pt_transport_ops_t dry_ops = {
    .name = "dry",
    .close = transport_dry_close,
    .split = dry_split,
    .free_group = dry_free_group,
    .start = dry_start,
    .test = dry_test,
    .mpi = dry_mpi,
    .abort = pt_transport_leave,
};

pt_status_t pt_transport_open_dry(int rank, int size, pt_transport_t **out)
{
    pt_transport_t *transport = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_CHECK_COMMON(size >= 1 && rank >= 0 && rank < size, PT_CONFIG,
                    "there is no rank %d in a run of %d ranks", rank, size);
    PT_TRY(PT_NEW("dry transport", 1, &transport));
    transport->ops = &dry_ops;
    PT_TRY_GOTO(release, pt_transport_group_new(rank, size, &transport->world));
    *out = transport;
    return PT_OK;
release:
    pt_free(transport);
    return status;
}
