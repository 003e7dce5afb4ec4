/* SPDX-License-Identifier: Apache-2.0 */
/* A world that does not exist: every transfer is done at once and moves nothing. */
#include "penta/base/alloc.h"
#include "src/comm/wire.h"

static void wire_dry_close(pt_wire_t *wire)
{
    pt_free(wire->world);
    pt_free(wire);
}

static pt_status_t dry_split(pt_wire_t *wire, pt_wire_group_t *parent,
                             pt_comm_place_t place, const char *name,
                             pt_wire_group_t **out)
{
    (void)wire, (void)parent, (void)name;
    *out = NULL;
    return place.color < 0 ? PT_OK : pt_wire_group_new(place.rank, place.size, out);
}

static void dry_free_group(pt_wire_t *wire, pt_wire_group_t *group)
{
    (void)wire;
    pt_free(group);
}

static pt_status_t dry_start(pt_wire_t *wire, pt_wire_ticket_t *ticket)
{
    (void)wire;
    ticket->done = true;
    return PT_OK;
}

static pt_status_t dry_test(pt_wire_t *wire, pt_wire_ticket_t *ticket, bool *done)
{
    (void)wire;
    *done = ticket->done;
    return PT_OK;
}

static void *dry_mpi(pt_wire_group_t *group)
{
    (void)group;
    return NULL;
}

static const pt_wire_ops_t dry_ops = {
    .name = "dry",
    .close = wire_dry_close,
    .split = dry_split,
    .free_group = dry_free_group,
    .start = dry_start,
    .test = dry_test,
    .mpi = dry_mpi,
    .abort = pt_wire_leave,
};

pt_status_t pt_wire_open_dry(int rank, int size, pt_wire_t **out)
{
    pt_wire_t *wire = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_CHECK_COMMON(size >= 1 && rank >= 0 && rank < size, PT_CONFIG,
                    "there is no rank %d in a run of %d ranks", rank, size);
    PT_TRY(PT_NEW("dry wire", 1, &wire));
    wire->ops = &dry_ops;
    PT_TRY_GOTO(release, pt_wire_group_new(rank, size, &wire->world));
    *out = wire;
    return PT_OK;
release:
    pt_free(wire);
    return status;
}
