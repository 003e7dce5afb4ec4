/* TEST np=1,2,3,4,8 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of transfer, awkward sizes, host and device memory, against the
 * definition. */
#include "regression/mpi/ranks.h"

enum { MOST = 4099, ROOM = 9 * MOST };

static const int64_t sizes[] = {0, 1, 3, 1000, MOST};
static int64_t from[ROOM], to[ROOM]; /* bytes of any type */

/* Element i of what rank r brings. Exact in every type used here. */
static int64_t value(int r, int64_t i)
{
    return 1000 * (int64_t)(r + 1) + i % 911;
}

static void store(pt_dtype_t dtype, void *array, int64_t i, int64_t v)
{
    switch (dtype) {
    case PT_F64: ((double *)array)[i] = (double)v; break;
    case PT_F32: ((float *)array)[i] = (float)v; break;
    case PT_I64: ((int64_t *)array)[i] = v; break;
    case PT_I32: ((int32_t *)array)[i] = (int32_t)v; break;
    case PT_U8: ((uint8_t *)array)[i] = (uint8_t)v; break;
    default: ((uint16_t *)array)[i] = (uint16_t)v; break;
    }
}

static bool holds(pt_dtype_t dtype, const void *array, int64_t i, int64_t v)
{
    char wanted[8] = {0};
    size_t size = pt_dtype_size(dtype);

    store(dtype, wanted, 0, v);
    return memcmp((const char *)array + (size_t)i * size, wanted, size) == 0;
}

static pt_tensor_t put_own(pt_memory_t memory, pt_dtype_t dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        store(dtype, from, i, value(ranks.rank, i));
    return ranks_put(memory, dtype, count, from);
}

static pt_tensor_t put_blank(pt_memory_t memory, pt_dtype_t dtype, int64_t count)
{
    memset(to, 0x55, sizeof to);
    return ranks_put(memory, dtype, count, to);
}

static void transfer(pt_transfer_t *transfer)
{
    pt_request_t *request;
    bool device = (transfer->send.data ? transfer->send : transfer->recv).memory ==
                  PT_MEMORY_DEVICE;

    if (!transfer->comm)
        transfer->comm = ranks.world;
    if (device)
        MUST(pt_comm_mark(ranks.engine, ranks.stream, &transfer->ready));
    MUST(pt_comm_begin(transfer, &request));
    MUST(pt_comm_end(&request, ranks.stream));
    if (request)
        must_at(PT_INTERNAL, "request is NULL after end", __LINE__);
}

/* ---- kinds -------------------------------------------------------------------------------- */

static bool broadcast(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    bool ok = true;

    for (int root = 0; root < ranks.size; root++) {
        pt_transfer_t t = {.kind = PT_BROADCAST, .peer = root};
        t.recv = put_own(memory, dtype, n);
        transfer(&t);
        ranks_get(&t.recv, to);
        for (int64_t i = 0; i < n; i++)
            ok = ok && holds(dtype, to, i, value(root, i));
    }
    return ok;
}

static bool gathered(pt_dtype_t dtype, int64_t n)
{
    bool ok = true;

    for (int r = 0; r < ranks.size; r++)
        for (int64_t i = 0; i < n; i++)
            ok = ok && holds(dtype, to, r * n + i, value(r, i));
    return ok;
}

static bool all_gather(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    pt_transfer_t t = {.kind = PT_ALL_GATHER};

    t.send = put_own(memory, dtype, n);
    t.recv = put_blank(memory, dtype, n * ranks.size);
    transfer(&t);
    ranks_get(&t.recv, to);
    ranks_get(&t.send, NULL);
    return gathered(dtype, n);
}

static bool all_gather_in_place(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    pt_transfer_t t = {.kind = PT_ALL_GATHER};

    memset(from, 0x55, sizeof from);
    for (int64_t i = 0; i < n; i++)
        store(dtype, from, ranks.rank * n + i, value(ranks.rank, i));
    t.recv = ranks_put(memory, dtype, n * ranks.size, from);
    t.send = pt_tensor_slice(t.recv, 0, ranks.rank * n, n);
    transfer(&t);
    ranks_get(&t.recv, to);
    return gathered(dtype, n);
}

static bool all_to_all_in(bool in_place, pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    pt_transfer_t t = {.kind = PT_ALL_TO_ALL};
    bool ok = true;

    t.send = put_own(memory, dtype, n * ranks.size);
    t.recv = in_place ? t.send : put_blank(memory, dtype, n * ranks.size);
    transfer(&t);
    ranks_get(&t.recv, to);
    if (!in_place)
        ranks_get(&t.send, NULL);
    for (int r = 0; r < ranks.size; r++)
        for (int64_t i = 0; i < n; i++)
            ok = ok && holds(dtype, to, r * n + i, value(r, ranks.rank * n + i));
    return ok;
}

static bool all_to_all(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    return all_to_all_in(false, memory, dtype, n);
}

static bool all_to_all_in_place(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    return all_to_all_in(true, memory, dtype, n);
}

/* From r to s go (3r + 5s + n) mod 7 elements, some none, with holes of 2 in both
 * buffers. */
static int64_t unequal_count(int r, int s, int64_t n)
{
    return (3 * r + 5 * s + n) % 7;
}

static bool unequal(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    int64_t send_counts[64], send_starts[64], recv_counts[64], recv_starts[64];
    int64_t sent = 0, received = 0, at = 0;
    pt_transfer_t t = {.kind = PT_ALL_TO_ALL,
                       .send_counts = send_counts,
                       .send_starts = send_starts,
                       .recv_counts = recv_counts,
                       .recv_starts = recv_starts};
    bool ok = true;

    for (int r = 0; r < ranks.size; r++) {
        send_starts[r] = sent, recv_starts[r] = received;
        send_counts[r] = unequal_count(ranks.rank, r, n);
        recv_counts[r] = unequal_count(r, ranks.rank, n);
        sent += send_counts[r] + 2, received += recv_counts[r] + 2;
    }
    t.send = put_own(memory, dtype, sent);
    t.recv = put_blank(memory, dtype, received);
    transfer(&t);
    ranks_get(&t.recv, to);
    ranks_get(&t.send, NULL);
    for (int r = 0; r < ranks.size; r++) {
        int64_t start = 0;
        size_t hole = 2 * pt_dtype_size(dtype);
        for (int s = 0; s < ranks.rank; s++)
            start += unequal_count(r, s, n) + 2;
        for (int64_t i = 0; i < recv_counts[r]; i++)
            ok = ok && holds(dtype, to, at + i, value(r, start + i));
        at += recv_counts[r];
        for (size_t i = 0; i < hole; i++)
            ok = ok && ((char *)to)[(size_t)at * pt_dtype_size(dtype) + i] == 0x55;
        at += 2;
    }
    return ok;
}

static bool reduction(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    bool ok = true;
    int64_t total = 0;

    for (int in_place = 0; in_place < 2; in_place++) {
        bool sum = dtype == PT_I64;
        pt_transfer_t t = {.kind = sum ? PT_SUM_INT64 : PT_MAX};
        t.send = put_own(memory, dtype, n);
        t.recv = in_place ? t.send : put_blank(memory, dtype, n);
        transfer(&t);
        ranks_get(&t.recv, to);
        if (!in_place)
            ranks_get(&t.send, NULL);
        for (int64_t i = 0; i < n; i++) {
            total = 0;
            for (int r = 0; r < ranks.size; r++)
                total += value(r, i);
            ok = ok && holds(dtype, to, i, sum ? total : value(ranks.size - 1, i));
        }
    }
    return ok;
}

static bool ring(pt_memory_t memory, pt_dtype_t dtype, int64_t n)
{
    int right = (ranks.rank + 1) % ranks.size;
    int left = (ranks.rank + ranks.size - 1) % ranks.size;
    pt_transfer_t s = {.kind = PT_SEND, .comm = ranks.world, .peer = right, .tag = 5};
    pt_transfer_t r = {.kind = PT_RECV, .comm = ranks.world, .peer = left, .tag = 5};
    pt_request_t *sending, *receiving;
    bool ok = true;

    s.send = put_own(memory, dtype, n);
    r.recv = put_blank(memory, dtype, n);
    MUST(pt_comm_begin(&r, &receiving));
    MUST(pt_comm_begin(&s, &sending));
    MUST(pt_comm_end(&receiving, ranks.stream));
    MUST(pt_comm_end(&sending, ranks.stream));
    ranks_get(&r.recv, to);
    ranks_get(&s.send, NULL);
    for (int64_t i = 0; i < n; i++)
        ok = ok && holds(dtype, to, i, value(left, i));
    return ok;
}

typedef bool (*case_fn)(pt_memory_t memory, pt_dtype_t dtype, int64_t n);

static void every_size(const char *name, case_fn run, const pt_dtype_t *types, int count)
{
    for (int memory = 0; memory < 2; memory++) {
        bool ok = true;
        for (int d = 0; d < count; d++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                ok = run((pt_memory_t)memory, types[d], sizes[i]) && ok;
        tap_all(ok, "%s, %s memory", name, memory ? "device" : "host");
    }
}

int main(int argc, char **argv)
{
    const pt_dtype_t moved[] = {PT_F64, PT_F32, PT_BF16, PT_U8};
    const pt_dtype_t reduced[] = {PT_F64, PT_F32, PT_I32, PT_I64};

    ranks_start(&argc, &argv);
    ranks_open_engine(0);
    every_size("broadcast", broadcast, moved, 4);
    every_size("all-gather", all_gather, moved, 4);
    every_size("all-gather in place", all_gather_in_place, moved, 4);
    every_size("all-to-all", all_to_all, moved, 4);
    every_size("all-to-all in place", all_to_all_in_place, moved, 4);
    every_size("unequal all-to-all", unequal, moved, 4);
    every_size("maximum and integer sum", reduction, reduced, 4);
    every_size("ring of messages", ring, moved, 4);
    ranks_close_engine();
    return ranks_finish();
}
