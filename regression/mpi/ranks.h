/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of src/comm begin with: MPI, a device by PENTA_TEST_BACKEND, an
 * engine. */
#ifndef PT_REGRESSION_RANKS_H
#define PT_REGRESSION_RANKS_H

#include "regression/backend.h"
#include "regression/tap.h"

#include "penta/base/rng.h"
#include "penta/comm/comm.h"

#include <mpi.h>
#include <string.h>

enum { RANKS_STAGING = 32 << 20 };

static struct {
    pt_transport_t *transport;
    pt_device_t *device;
    pt_stream_t *stream;
    pt_engine_t *engine;
    pt_comm_t *world;
    pt_arena_t staging, work; /* work: of the ring of the world */
    int rank, size;
} ranks;

static int ranks_sum(int value, void *context)
{
    int total = 0;

    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)context);
    return total;
}

/* A number of [-1, 1) with all bits of a float, so that sums round: the i-th of a
 * stream. Tests make millions. */
__attribute__((unused)) static inline float ranks_number(int stream, int64_t i)
{
    return (float)(int64_t)pt_mix64(pt_mix64((uint64_t)stream) ^ (uint64_t)i) * 0x1p-63f;
}

/* A failed call of Penta ends the test: the others would wait. */
static void must_at(pt_status_t status, const char *call, int line)
{
    if (status == PT_OK)
        return;
    fprintf(stderr, "# rank %d, line %d: %s: %s\n", ranks.rank, line, call,
            pt_error_last()->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define MUST(call) must_at((call), #call, __LINE__)

static void ranks_open_engine(uint64_t chaos)
{
    pt_engine_options_t options = {.device = ranks.device, .chaos = chaos};

    MUST(pt_engine_create(ranks.transport, &options, &ranks.engine));
    ranks.world = pt_engine_world(ranks.engine);
    pt_arena_init(&ranks.staging, PT_CLASS_STAGING, PT_MEMORY_HOST);
    MUST(pt_engine_layout(ranks.engine, RANKS_STAGING, &ranks.staging));
    MUST(pt_device_place_arena(ranks.device, &ranks.staging));
    MUST(pt_engine_layout(ranks.engine, RANKS_STAGING, &ranks.staging));
}

/* A ring of the world for sums and gathers, until the engine is closed. peer_bytes of 1
 * MiB at most. */
__attribute__((unused)) static void ranks_open_ring(int slots, int64_t peer_bytes)
{
    pt_ring_options_t ring = {
        .slots = slots, .peer_bytes = peer_bytes, .sums = true, .narrows = true};

    pt_device_free_arena(ranks.device, &ranks.work);
    pt_arena_init(&ranks.work, PT_CLASS_COMMUNICATION, PT_MEMORY_DEVICE);
    MUST(pt_comm_layout_ring(ranks.world, &ring, &ranks.work));
    MUST(pt_device_place_arena(ranks.device, &ranks.work));
    MUST(pt_comm_layout_ring(ranks.world, &ring, &ranks.work));
}

static void ranks_close_engine(void)
{
    pt_engine_destroy(ranks.engine);
    pt_device_free_arena(ranks.device, &ranks.work);
    pt_device_free_arena(ranks.device, &ranks.staging);
}

static void ranks_start(int *argc, char ***argv)
{
    static MPI_Comm world = MPI_COMM_WORLD;
    pt_device_options_t options = {.kind = backend_of_test(), .threads = 1};

    MPI_Init(argc, argv);
    MPI_Comm_rank(world, &ranks.rank);
    MPI_Comm_size(world, &ranks.size);
    tap_mpi(ranks.rank, ranks_sum, &world);
    options.seed = 77 + (uint64_t)ranks.rank;
    MUST(pt_device_open(&options, &ranks.device));
    MUST(ranks.device->ops->stream_create(ranks.device, &ranks.stream));
    MUST(pt_transport_open_mpi(&world, &ranks.transport));
}

static int ranks_finish(void)
{
    int status;

    pt_transport_close(ranks.transport);
    ranks.device->ops->stream_destroy(ranks.device, ranks.stream);
    pt_device_close(ranks.device);
    status = tap_done();
    MPI_Finalize();
    return status;
}

/* A tensor of `count` elements with `data` in it. Freed by ranks_get. */
__attribute__((unused)) static pt_tensor_t ranks_put(pt_memory_t memory,
                                                     pt_dtype_t dtype, int64_t count,
                                                     const void *data)
{
    int64_t bytes = count * (int64_t)pt_dtype_size(dtype);
    void *place;

    MUST(pt_device_alloc(ranks.device, memory, "test", bytes + 1, &place));
    if (bytes > 0)
        MUST(ranks.device->ops->copy(ranks.device, ranks.stream, place, memory, data,
                                     PT_MEMORY_HOST, bytes));
    MUST(ranks.device->ops->stream_sync(ranks.device, ranks.stream));
    return pt_tensor_1d(place, dtype, memory, count);
}

/* Takes the elements out and frees the tensor. */
__attribute__((unused)) static void ranks_get(pt_tensor_t *tensor, void *data)
{
    int64_t bytes = pt_tensor_bytes(tensor);

    if (bytes > 0 && data)
        MUST(ranks.device->ops->copy(ranks.device, ranks.stream, data, PT_MEMORY_HOST,
                                     tensor->data, tensor->memory, bytes));
    MUST(ranks.device->ops->stream_sync(ranks.device, ranks.stream));
    pt_device_free(ranks.device, tensor->memory, tensor->data, bytes + 1);
    tensor->data = NULL;
}

#endif
