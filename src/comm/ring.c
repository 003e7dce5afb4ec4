/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the ring of a communicator. */
#include "penta/base/alloc.h"
#include "src/comm/private.h"

enum { PEER_BYTES = 64 << 10, PIECE_BYTES = 1 << 20 };

int64_t pt_ring_peer_bytes(int size)
{
    int64_t share = PIECE_BYTES / size & -(int64_t)PT_ARENA_ALIGN;

    return share > PEER_BYTES ? share : PEER_BYTES;
}

void pt_ring_destroy(pt_comm_t *comm)
{
    pt_ring_t *ring = comm->ring;

    if (!ring)
        return;
    for (int i = 0; ring->slot && i < ring->options.slots; i++) {
        pt_engine_return_event(comm->engine, ring->slot[i].event);
        pt_free(ring->slot[i].counts);
    }
    pt_staging_remove(comm->engine, &ring->segment);
    pt_free(ring->slot);
    pt_free(ring);
    comm->ring = NULL;
}

/* Allocates the counts of a slot, with space for libraries that take them as int. */
static pt_status_t ring_slot(pt_comm_t *comm, pt_slot_t *slot)
{
    size_t size = (size_t)comm->group->size;

    if (comm->engine->device)
        PT_TRY(pt_engine_take_event(comm->engine, &slot->event));
    return comm->engine->transport->moves_data
               ? PT_NEW("counts of blocks", 6 * size, &slot->counts)
               : PT_OK;
}

/* Work: per slot what is received, then what is sent if it is rounded. Staging: sent,
 * received. */
static pt_status_t ring_buffers(pt_comm_t *comm, pt_arena_t *work)
{
    pt_ring_t *ring = comm->ring;
    const pt_ring_options_t *options = &ring->options;
    int64_t piece = pt_staging_aligned(options->peer_bytes * comm->group->size);

    ring->segment.bytes = options->slots * piece * (options->sums ? 2 : 1);
    pt_staging_insert(comm->engine, &ring->segment);
    for (int i = 0; i < options->slots; i++) {
        pt_slot_t *slot = &ring->slot[i];
        void *data = NULL;
        slot->stage_received = ring->segment.start + i * piece;
        slot->stage_sent = slot->stage_received + options->slots * piece;
        if (options->sums)
            PT_TRY(pt_arena_take(work, "reduction work",
                                 piece * (options->narrows ? 2 : 1), &data));
        slot->received = data;
        slot->sent = data && options->narrows ? slot->received + piece : NULL;
    }
    return PT_OK;
}

pt_status_t pt_comm_layout_ring(pt_comm_t *comm, const pt_ring_options_t *options,
                                pt_arena_t *work)
{
    PT_REQUIRE(options->slots > 0 && options->peer_bytes >= (int64_t)sizeof(double));
    PT_REQUIRE(!comm->ring || comm->ring->opened == comm->ring->landed);
    pt_ring_destroy(comm);
    PT_TRY(PT_NEW("ring", 1, &comm->ring));
    comm->ring->options = *options;
    PT_TRY(PT_NEW("slots of a ring", (size_t)options->slots, &comm->ring->slot));
    for (int i = 0; i < options->slots; i++)
        PT_TRY(ring_slot(comm, &comm->ring->slot[i]));
    return ring_buffers(comm, work);
}
