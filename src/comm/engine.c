/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: its pools, its communicators, waiting for devices. */
#include "penta/base/alloc.h"
#include "penta/base/text.h"
#include "src/comm/private.h"

#include <stdio.h>

enum { MAX_REQUESTS = 4096 };

/* ---- events ------------------------------------------------------------------------------- */

pt_status_t pt_engine_take_event(pt_engine_t *engine, pt_event_t **out)
{
    *out = NULL;
    PT_CHECK(engine->event_count > 0, PT_INTERNAL,
             "all %d events of the communication engine are in use: something marks a "
             "stream and never begins a transfer",
             engine->max_events);
    *out = engine->events[--engine->event_count];
    return PT_OK;
}

void pt_engine_return_event(pt_engine_t *engine, pt_event_t *event)
{
    if (event)
        engine->events[engine->event_count++] = event;
}

pt_status_t pt_comm_mark(pt_engine_t *engine, pt_stream_t *stream, pt_event_t **out)
{
    pt_status_t status;

    *out = NULL;
    if (!engine->device || !stream)
        return PT_OK;
    PT_TRY(pt_engine_take_event(engine, out));
    status = engine->device->ops->event_record(engine->device, *out, stream);
    if (status != PT_OK) {
        pt_engine_return_event(engine, *out);
        *out = NULL;
    }
    return status;
}

pt_status_t pt_comm_wait_event(pt_engine_t *engine, pt_event_t *event)
{
    pt_idle_t idle = {0};
    bool ready = false;

    PT_REQUIRE(engine->device);
    for (;;) {
        PT_TRY(engine->device->ops->event_query(engine->device, event, &ready));
        if (ready)
            break;
        watch_wait_device();
        PT_TRY(pt_comm_progress(engine));
        pt_wait_idle(&idle, engine->moves);
    }
    watch_waited();
    return PT_OK;
}

pt_status_t pt_comm_wait_stream(pt_engine_t *engine, pt_stream_t *stream)
{
    pt_event_t *event;
    pt_status_t status;

    PT_TRY(pt_comm_mark(engine, stream, &event));
    if (!event)
        return PT_OK;
    status = pt_comm_wait_event(engine, event);
    pt_engine_return_event(engine, event);
    return status;
}

/* ---- communicators ------------------------------------------------------------------------ */

static pt_status_t engine_new_comm(pt_engine_t *engine, const char *name,
                                   pt_axis_t axis, pt_comm_t **out)
{
    PT_TRY(PT_NEW("communicator", 1, out));
    **out = (pt_comm_t){.engine = engine, .axis = axis};
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return PT_OK;
}

pt_status_t pt_comm_split(pt_comm_t *parent, pt_comm_place_t place, const char *name,
                          pt_axis_t axis, pt_comm_t **out)
{
    pt_engine_t *engine = parent->engine;
    pt_comm_t *comm = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_TRY(pt_comm_flush(parent));
    PT_TRY(engine_new_comm(engine, name, axis, &comm));
    watch_ticket_t ticket = watch_block(parent, WATCH_SPLIT);
    PT_TRY_GOTO(release, engine->transport->ops->split(engine->transport, parent->group,
                                                       place, name, &comm->group));
    watch_blocked(parent, ticket);
    watch_join(comm, parent, place.color);
    if (!comm->group)
        goto release;
    *out = comm;
    PT_CHECK(
        comm->group->rank == place.rank && comm->group->size == place.size, PT_INTERNAL,
        "splitting %s into %s: this rank should be %d of %d there, but is %d of %d",
        parent->name, name, place.rank, place.size, comm->group->rank,
        comm->group->size);
    return PT_OK;
release:
    pt_free(comm);
    return status;
}

void pt_comm_free(pt_comm_t *comm)
{
    pt_transport_t *transport;

    if (!comm)
        return;
    transport = comm->engine->transport;
    if (!pt_error_is_fatal()) {
        (void)pt_comm_flush(comm);
        (void)watch_block(comm, WATCH_FREE);
    }
    pt_ring_destroy(comm);
    transport->ops->free_group(transport, comm->group);
    watch_waited();
    watch_leave(comm);
    pt_free(comm);
}

int pt_comm_rank(const pt_comm_t *comm)
{
    return comm->group->rank;
}

int pt_comm_size(const pt_comm_t *comm)
{
    return comm->group->size;
}

const char *pt_comm_name(const pt_comm_t *comm)
{
    return comm->name;
}

pt_axis_t pt_comm_axis(const pt_comm_t *comm)
{
    return comm->axis;
}

pt_engine_t *pt_comm_engine(const pt_comm_t *comm)
{
    return comm->engine;
}

void *pt_comm_mpi(const pt_comm_t *comm)
{
    return comm->engine->transport->ops->mpi(comm->group);
}

/* ---- life --------------------------------------------------------------------------------- */

static pt_status_t engine_choose_path(pt_engine_t *engine, pt_gpu_direct_t gpu_direct)
{
    engine->direct =
        engine->device && engine->device->ops->device_memory_is_host_memory;
    PT_CHECK_COMMON(
        !engine->device || engine->direct || gpu_direct != PT_GPU_DIRECT_ON, PT_CONFIG,
        "comm.gpu_direct=on, but MPI cannot be handed the memory of device %s "
        "here: set comm.gpu_direct=auto",
        engine->device->ops->name);
    return PT_OK;
}

static pt_status_t engine_create_pools(pt_engine_t *engine)
{
    int count = engine->max_requests;

    PT_TRY(PT_NEW("requests", (size_t)count, &engine->requests));
    for (int i = count - 1; i >= 0; i--) {
        engine->requests[i].next = engine->unused;
        engine->unused = &engine->requests[i];
    }
    if (!engine->device)
        return PT_OK;
    PT_TRY(PT_NEW("staging guards", (size_t)count, &engine->guards));
    PT_TRY(PT_NEW("events", 2 * (size_t)count, &engine->events));
    PT_TRY(PT_NEW("events", 2 * (size_t)count, &engine->all_events));
    PT_TRY(engine->device->ops->stream_create(engine->device, &engine->stream));
    for (int i = 0; i < 2 * count; i++) {
        pt_event_t **event = &engine->all_events[i];
        PT_TRY(engine->device->ops->event_create(engine->device, event));
        engine->max_events++;
        pt_engine_return_event(engine, *event);
    }
    return PT_OK;
}

pt_status_t pt_engine_create(pt_transport_t *transport,
                             const pt_engine_options_t *options, pt_engine_t **out)
{
    pt_engine_t *engine = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_TRY(PT_NEW("communication engine", 1, &engine));
    engine->transport = transport;
    engine->device = options->device;
    engine->max_requests =
        options->max_requests > 0 ? options->max_requests : MAX_REQUESTS;
    if (options->chaos != 0)
        engine->chaos =
            (options->chaos << 32) + ((uint64_t)transport->world->rank << 20) + 1;
    PT_TRY_GOTO(destroy, engine_choose_path(engine, options->gpu_direct));
    PT_TRY_GOTO(destroy, engine_create_pools(engine));
    PT_TRY_GOTO(destroy,
                engine_new_comm(engine, "world", PT_AXIS_WORLD, &engine->world));
    engine->world->group = transport->world;
    watch_join(engine->world, NULL, 0);
    *out = engine;
    return PT_OK;
destroy:
    pt_engine_destroy(engine);
    return status;
}

void pt_engine_destroy(pt_engine_t *engine)
{
    if (!engine)
        return;
    if (engine->world)
        pt_ring_destroy(engine->world);
    for (int i = 0; i < engine->max_events; i++)
        engine->device->ops->event_destroy(engine->device, engine->all_events[i]);
    if (engine->stream)
        engine->device->ops->stream_destroy(engine->device, engine->stream);
    pt_free(engine->events);
    pt_free(engine->all_events);
    pt_free(engine->guards);
    pt_free(engine->requests);
    pt_free(engine->world);
    pt_free(engine);
}

pt_status_t pt_engine_layout(pt_engine_t *engine, int64_t staging_bytes,
                             pt_arena_t *staging)
{
    void *base;

    PT_TRY(pt_arena_take(staging, "communication staging", staging_bytes, &base));
    engine->staging = base;
    engine->staging_bytes = staging_bytes;
    return PT_OK;
}

int64_t pt_engine_staging_peak(const pt_engine_t *engine)
{
    return engine->staging_peak;
}

pt_comm_t *pt_engine_world(pt_engine_t *engine)
{
    return engine->world;
}

int pt_engine_rank_on_host(const pt_engine_t *engine)
{
    return engine->transport->rank_on_host;
}

int pt_engine_ranks_on_host(const pt_engine_t *engine)
{
    return engine->transport->ranks_on_host > 0 ? engine->transport->ranks_on_host : 1;
}
