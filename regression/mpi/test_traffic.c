/* TEST np=1,2,3,4 backend=cpu,shadow timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic counters agree with closed formulas, and a dry transport counts the same
 * as MPI. The staging a dry run finds is what the real one uses, also where none is
 * needed. */
#include "regression/mpi/ranks.h"

#include "penta/base/alloc.h"

enum { N = 100 };

static int64_t buffer[8 * N * 8];

static pt_tensor_t tensor(void *memory, pt_dtype_t dtype, int64_t n)
{
    return pt_tensor_1d(memory, dtype, PT_MEMORY_DEVICE, n);
}

static void run(const pt_transfer_t *transfer)
{
    pt_request_t *request;

    MUST(pt_comm_begin(transfer, &request));
    MUST(pt_comm_end(&request, ranks.stream));
}

/* What goes through a ring, whose pieces carry PEER bytes to each rank. */
enum { PEER = 64, GRAIN = 24, WHOLE = 5 * GRAIN + 7 };

static int64_t block_start(int rank, int size)
{
    int64_t first = 6 * rank / size * GRAIN; /* 6 grains, one of them short */

    return first < WHOLE ? first : WHOLE;
}

static int64_t block_count(int rank, int size)
{
    return block_start(rank + 1, size) - block_start(rank, size);
}

static void ring_sequence(pt_comm_t *comm, char *memory)
{
    int rank = pt_comm_rank(comm), size = pt_comm_size(comm);
    char *second = memory + sizeof buffer / 2;
    pt_transfer_t t = {.kind = PT_REDUCE_SCATTER, .comm = comm, .granularity = GRAIN};

    t.send = tensor(memory, PT_F32, WHOLE), t.wire_dtype = PT_BF16;
    t.recv = tensor(second, PT_F32, block_count(rank, size));
    run(&t);
    t.kind = PT_ALL_GATHER, t.send = t.recv, t.recv = tensor(memory, PT_F32, WHOLE);
    run(&t);
    t.kind = PT_ALL_REDUCE, t.wire_dtype = PT_F32;
    t.send = tensor(memory, PT_F32, N), t.recv = tensor(second, PT_F32, N);
    run(&t);
}

static pt_comm_t *open_ring(pt_engine_t *engine, pt_arena_t *work)
{
    pt_comm_place_t place = {0, ranks.rank, ranks.size};
    pt_ring_options_t options = {
        .slots = 2, .peer_bytes = PEER, .sums = true, .narrows = true};
    pt_comm_t *comm;

    MUST(pt_comm_split(pt_engine_world(engine), place, "ring", PT_AXIS_DATA, &comm));
    MUST(pt_comm_layout_ring(comm, &options, work));
    return comm;
}

/* One of each other kind on `comm`, then the small ones. */
static void sequence(pt_comm_t *comm, char *memory)
{
    int rank = pt_comm_rank(comm), size = pt_comm_size(comm);
    int64_t counts[8], starts[8], back[8], places[8], value = 0;
    char *second = memory + sizeof buffer / 2;
    pt_transfer_t t = {.kind = PT_BROADCAST, .comm = comm, .peer = size - 1};
    pt_request_t *sending, *receiving;

    for (int r = 0; r < size; r++) {
        counts[r] = 1 + (rank + r) % 3, starts[r] = 4 * r; /* the same both ways */
        back[r] = counts[r], places[r] = 4 * r;
    }
    t.recv = tensor(memory, PT_F32, N);
    run(&t);
    t = (pt_transfer_t){.kind = PT_ALL_GATHER, .comm = comm};
    t.send = tensor(memory, PT_F64, N), t.recv = tensor(second, PT_F64, N * size);
    run(&t);
    t.kind = PT_ALL_TO_ALL, t.send = tensor(memory, PT_F64, N * size);
    run(&t);
    t.send_counts = counts, t.send_starts = starts;
    t.recv_counts = back, t.recv_starts = places;
    run(&t);
    t = (pt_transfer_t){.kind = PT_MAX, .comm = comm};
    t.send = t.recv = tensor(memory, PT_F32, N);
    run(&t);
    t = (pt_transfer_t){.kind = PT_RECV, .comm = comm, .peer = (rank + size - 1) % size};
    t.recv = tensor(second, PT_F32, N);
    MUST(pt_comm_begin(&t, &receiving));
    t = (pt_transfer_t){.kind = PT_SEND, .comm = comm, .peer = (rank + 1) % size};
    t.send = tensor(memory, PT_F32, N);
    MUST(pt_comm_begin(&t, &sending));
    MUST(pt_comm_end(&receiving, ranks.stream));
    MUST(pt_comm_end(&sending, ranks.stream));
    MUST(pt_comm_barrier(comm));
    MUST(pt_comm_sum_int64(comm, &value, 1));
    MUST(pt_comm_gather_bytes(comm, 0, &value, sizeof value, starts));
    MUST(pt_comm_agree(comm, PT_OK, false));
    MUST(pt_comm_exchange(comm, NULL, 0, &value, 1, PT_OK));
}

static bool is_row(const pt_traffic_row_t *row, int64_t calls, int64_t messages,
                   int64_t bytes)
{
    bool ok =
        row->calls == calls && row->messages == messages && row->bytes_sent == bytes;

    if (!ok)
        tap_note("rank %d: calls %lld messages %lld bytes %lld", ranks.rank,
                 (long long)row->calls, (long long)row->messages,
                 (long long)row->bytes_sent);
    return ok;
}

static void formulas(void)
{
    const pt_traffic_t *traffic = pt_engine_traffic(ranks.engine);
    const pt_traffic_row_t *row = traffic->rows[PT_AXIS_WORLD];
    int64_t others = ranks.size - 1, unequal = 0, root = ranks.rank == others;
    int64_t many = others > 0, leaf = ranks.rank != 0;

    for (int r = 0; r < ranks.size; r++)
        unequal += r == ranks.rank ? 0 : 8 * (1 + (ranks.rank + r) % 3);
    tap_all(is_row(&row[PT_BROADCAST], 1, root * others, root * others * 4 * N),
            "broadcast: from its root");
    tap_all(is_row(&row[PT_ALL_GATHER], 2, others + leaf, others * 8 * N + 8 * leaf),
            "all-gather, and a gather");
    tap_all(is_row(&row[PT_ALL_TO_ALL], 2, 2 * others, others * 8 * N + unequal),
            "all-to-all, equal and not");
    tap_all(is_row(&row[PT_MAX], 1, many, many * 4 * N), "max: payload once");
    tap_all(is_row(&row[PT_SUM_INT64], 2, 2 * many, many * 8), "a barrier and a sum");
    tap_all(is_row(&row[PT_SEND], 1, many, many * 4 * N), "send");
    tap_all(is_row(&row[PT_RECV], 1, 0, 0), "receive");
    tap_all(is_row(&traffic->control, 2, 2 * many,
                   many * 8 * (1 + 1 + PT_STATUS_COUNT + 1)),
            "agree and exchange: control");
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void ring_formulas(void)
{
    const pt_traffic_row_t *row = pt_engine_traffic(ranks.engine)->rows[PT_AXIS_DATA];
    int64_t others = ranks.size - 1, own = block_count(ranks.rank, ranks.size);
    int64_t messages = 0;

    for (int r = 0; r < ranks.size; r++)
        if (r != ranks.rank)
            messages += divide_up(block_count(r, ranks.size), PEER / 2);
    tap_all(is_row(&row[PT_REDUCE_SCATTER], 1, messages, 2 * (WHOLE - own)),
            "reduce-scatter, in the type on the wire");
    tap_all(is_row(&row[PT_ALL_GATHER], 1, divide_up(own, PEER / 4) * others,
                   4 * own * others),
            "all-gather of unequal blocks");
    tap_all(
        is_row(&row[PT_ALL_REDUCE], 1, divide_up(N, PEER / 4) * others, 4 * N * others),
        "all-reduce");
}

static void dry_equals_real(void)
{
    pt_engine_options_t options = {0};
    pt_traffic_t real = *pt_engine_traffic(ranks.engine), dry;
    pt_device_t *device;
    pt_transport_t *transport;
    pt_engine_t *engine;
    pt_comm_t *ring;
    pt_arena_t work;
    int64_t staging;

    MUST(pt_device_open(&(pt_device_options_t){.kind = PT_DEVICE_DRY, .threads = 1},
                        &device));
    options.device = device;
    MUST(pt_transport_open_dry(ranks.rank, ranks.size, &transport));
    MUST(pt_engine_create(transport, &options, &engine));
    pt_arena_init(&work, PT_CLASS_COMMUNICATION, PT_MEMORY_DEVICE);
    pt_arena_place(&work, buffer, sizeof buffer);
    ring = open_ring(engine, &work);
    sequence(pt_engine_world(engine), (char *)buffer);
    ring_sequence(ring, (char *)buffer);
    dry = *pt_engine_traffic(engine);
    staging = pt_engine_staging_peak(engine);
    real.wait_sec = dry.wait_sec = 0;
    real.waits = dry.waits = 0;
    tap_all(memcmp(&real, &dry, sizeof dry) == 0, "a dry run counts the same");
    tap_all(staging > 0 && staging == pt_engine_staging_peak(ranks.engine),
            "and needs the same %lld bytes of staging", (long long)staging);
    pt_comm_free(ring);
    pt_engine_destroy(engine);
    pt_transport_close(transport);
    pt_device_close(device);
}

int main(int argc, char **argv)
{
    pt_tensor_t memory, work;
    pt_arena_t arena;
    pt_comm_t *ring;

    ranks_start(&argc, &argv);
    ranks_open_engine(0);
    memory = ranks_put(PT_MEMORY_DEVICE, PT_U8, sizeof buffer, buffer);
    work = ranks_put(PT_MEMORY_DEVICE, PT_U8, sizeof buffer, buffer);
    pt_arena_init(&arena, PT_CLASS_COMMUNICATION, PT_MEMORY_DEVICE);
    pt_arena_place(&arena, work.data, sizeof buffer);
    ring = open_ring(ranks.engine, &arena);
    pt_alloc_seal();
    sequence(ranks.world, memory.data);
    ring_sequence(ring, memory.data);
    pt_alloc_unseal();
    formulas();
    ring_formulas();
    dry_equals_real();
    ranks_get(&work, NULL);
    ranks_get(&memory, NULL);
    pt_comm_free(ring);
    ranks_close_engine();
    return ranks_finish();
}
