/* TEST np=1,2,8,16 backend=cpu timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: a poke costs next to nothing and never sleeps; ranks that share cores give
 * way. Limits on CPU time are far above what is measured beside other work and far
 * below what spinning costs. */
#include "regression/mpi/ranks.h"

#include "penta/base/clock.h"

#include <math.h>
#include <sys/resource.h>
#include <time.h>

enum { BATCHES = 20, POKES = 1000, BARRIERS = 60 };

static double cpu_sec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* How often this process went to sleep. */
static long sleeps(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

/* Best of several batches: the CPU time of a poke. Time of the clock would grow with
 * whatever else the machine does. */
static double poke_sec(void)
{
    double best = 1;

    for (int b = 0; b < BATCHES; b++) {
        double start = cpu_sec();
        for (int i = 0; i < POKES; i++)
            MUST(pt_comm_progress(ranks.engine));
        best = fmin(best, (cpu_sec() - start) / POKES);
    }
    return best;
}

static void our_barrier(void)
{
    MUST(pt_comm_barrier(ranks.world));
}

static void library_barrier(void)
{
    pt_comm_blocking_begin();
    MPI_Barrier(*(MPI_Comm *)pt_comm_mpi(ranks.world));
    pt_comm_blocking_end();
}

/* CPU time of a barrier, the mean of many: a wait that spins costs whole time
 * slices. */
static double barrier_sec(void (*barrier)(void))
{
    double start = cpu_sec();

    for (int i = 0; i < BARRIERS; i++)
        barrier();
    return (cpu_sec() - start) / BARRIERS;
}

static void pokes(void)
{
    long asleep = sleeps();
    double idle = poke_sec(), busy;
    int64_t in = 0, out = 1;
    pt_request_t *receive, *send;
    pt_transfer_t t = {.kind = PT_RECV, .comm = ranks.world};

    t.peer = (ranks.rank + ranks.size - 1) % ranks.size;
    t.recv = pt_tensor_1d(&in, PT_I64, PT_MEMORY_HOST, 1);
    MUST(pt_comm_begin(&t, &receive));
    busy = poke_sec();
    asleep = sleeps() - asleep;
    MUST(pt_comm_barrier(ranks.world));
    t.kind = PT_SEND, t.peer = (ranks.rank + 1) % ranks.size;
    t.send = pt_tensor_1d(&out, PT_I64, PT_MEMORY_HOST, 1);
    MUST(pt_comm_begin(&t, &send));
    MUST(pt_comm_end(&receive, NULL));
    MUST(pt_comm_end(&send, NULL));
    tap_all(idle < 1e-6, "an idle poke costs %.3f us of CPU", 1e6 * idle);
    tap_all(busy < 20e-6 && in == 1, "a poke with a receive under way %.3f us",
            1e6 * busy);
    tap_all(asleep < POKES / 10, "%d pokes slept %ld times", 2 * BATCHES * POKES,
            asleep);
}

/* The others wait 0.2 s for rank 0: on shared cores they must not burn it. */
static void long_wait(void)
{
    double cpu = cpu_sec(), before = pt_engine_traffic(ranks.engine)->wait_sec, waited;

    if (ranks.rank == 0)
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    MUST(pt_comm_barrier(ranks.world));
    cpu = cpu_sec() - cpu;
    waited = pt_engine_traffic(ranks.engine)->wait_sec - before;
    tap_all(ranks.rank == 0 || cpu < 0.1, "a wait of 0.2 s costs %.3f s of CPU here",
            cpu);
    tap_all(ranks.rank == 0 || (waited > 0.1 && waited < 5), "and is booked");
}

/* A sum that is made while its end waits is time of the op, not of the wait. */
static void sum_in_wait(void)
{
    enum { MOST = 1 << 20 };
    static float numbers[MOST];
    const pt_op_count_t *sum = &ranks.device->counts[PT_OP_ordered_sum];
    int64_t n = MOST / ranks.size / 16 * 16, count = n * ranks.size;
    pt_transfer_t t = {.kind = PT_REDUCE_SCATTER, .comm = ranks.world};
    pt_request_t *request;

    t.send = ranks_put(PT_MEMORY_DEVICE, PT_F32, count, numbers);
    t.wire_dtype = PT_F32;
    t.recv = ranks_put(PT_MEMORY_DEVICE, PT_F32, n, numbers);
    MUST(pt_comm_mark(ranks.engine, ranks.stream, &t.ready));
    MUST(pt_comm_begin(&t, &request));
    double waited = pt_engine_traffic(ranks.engine)->wait_sec, op = sum->sec;
    double took = pt_clock_sec();
    MUST(pt_comm_end(&request, ranks.stream));
    took = pt_clock_sec() - took;
    waited = pt_engine_traffic(ranks.engine)->wait_sec - waited;
    op = sum->sec - op;
    tap_all(waited >= 0 && waited + op <= took,
            "waited %.0f us and summed %.0f us of %.0f us", 1e6 * waited, 1e6 * op,
            1e6 * took);
    ranks_get(&t.recv, NULL);
    ranks_get(&t.send, NULL);
}

int main(int argc, char **argv)
{
    double barrier;

    ranks_start(&argc, &argv);
    ranks_open_engine(0);
    ranks_open_ring(2, 1 << 16);
    pokes();
    barrier = barrier_sec(our_barrier);
    tap_all(barrier < 1e-3, "a barrier of %d ranks costs %.3f ms of CPU", ranks.size,
            1e3 * barrier);
    barrier = barrier_sec(library_barrier);
    tap_all(barrier < 1e-3, "MPI's own, inside blocking_begin: %.3f ms", 1e3 * barrier);
    long_wait();
    sum_in_wait();
    ranks_close_engine();
    return ranks_finish();
}
