/* TEST np=2 backend=cpu level=long timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* More than 2^31 bytes in one transfer: needs 9 GiB. */
#include "regression/mpi/ranks.h"

#include "penta/base/rng.h"

static const int64_t large = (INT64_C(1) << 31) + 12345;

static uint8_t byte(int rank, int64_t i)
{
    return (uint8_t)pt_mix64((uint64_t)i / 4096 * 8 + (uint64_t)rank);
}

static void *take(int rank, int64_t count)
{
    void *place;

    MUST(pt_device_alloc(ranks.device, PT_MEMORY_HOST, "test", count, &place));
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)place)[i] = byte(rank, i);
    return place;
}

static void run(const pt_transfer_t *transfer)
{
    pt_request_t *request;

    MUST(pt_comm_begin(transfer, &request));
    MUST(pt_comm_end(&request, NULL));
}

int main(int argc, char **argv)
{
    pt_transfer_t t = {.kind = PT_BROADCAST, .peer = 1};
    int64_t half = large / 2 + 1, bad = 0, counts[2], starts[2] = {0, large};
    uint8_t *send, *recv;

    ranks_start(&argc, &argv);
    ranks_open_engine(0);
    t.comm = ranks.world;
    send = take(ranks.rank, 2 * half);
    t.recv = pt_tensor_1d(send, PT_U8, PT_MEMORY_HOST, large);
    run(&t);
    for (int64_t i = 0; i < large; i++)
        bad += send[i] != byte(1, i);
    tap_all(bad == 0, "a broadcast of %lld bytes", (long long)large);
    recv = take(2, large + 8);
    t = (pt_transfer_t){.kind = PT_ALL_TO_ALL, .comm = ranks.world};
    t.send = pt_tensor_1d(send, PT_U8, PT_MEMORY_HOST, 2 * half);
    t.recv = pt_tensor_1d(recv, PT_U8, PT_MEMORY_HOST, 2 * half);
    run(&t);
    for (int64_t i = 0; i < 2 * half; i++) {
        int64_t place = ranks.rank * half + i % half; /* beyond large: not broadcast */
        bad += place < large && recv[i] != byte(1, place);
    }
    tap_all(bad == 0, "an all-to-all of %lld bytes", (long long)(2 * half));
    counts[ranks.rank] = 3, counts[1 - ranks.rank] = large - 3;
    starts[0] = 0, starts[1] = counts[0];
    t.recv = pt_tensor_1d(recv, PT_U8, PT_MEMORY_HOST, large);
    t.send = pt_tensor_1d(send, PT_U8, PT_MEMORY_HOST, large);
    t.send_counts = t.recv_counts = counts, t.send_starts = t.recv_starts = starts;
    run(&t);
    for (int64_t i = 0; i < counts[1 - ranks.rank]; i++)
        bad += recv[starts[1 - ranks.rank] + i] != byte(1, i + 3 * ranks.rank);
    tap_all(bad == 0, "an unequal all-to-all of %lld bytes", (long long)large);
    pt_device_free(ranks.device, PT_MEMORY_HOST, recv, large + 8);
    pt_device_free(ranks.device, PT_MEMORY_HOST, send, 2 * half);
    ranks_close_engine();
    return ranks_finish();
}
