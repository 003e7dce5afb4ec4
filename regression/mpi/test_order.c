/* TEST np=1,2,4,8 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests in flight, ready at random times, different on each rank. MPI matches
 * collectives by order of call, so equal sizes and one root would swap data if the
 * engine let a ready one go first. Messages are matched by tag, whatever the order of
 * begin. */
#include "regression/mpi/ranks.h"

#include "penta/base/rng.h"

enum { REQUESTS = 200, COUNT = 16, MOST_RANKS = 8, COMMS = 3 };

typedef struct job {
    pt_transfer_t transfer;
    pt_request_t *request;
    int number; /* what its data say */
} job_t;

static job_t jobs[REQUESTS];
static pt_comm_t *comms[COMMS];
static int split_color[COMMS];

static int64_t value(int world_rank, int number, int64_t i)
{
    return 1000000 * (int64_t)(world_rank + 1) + 100 * number + i;
}

/* Which rank of the world is rank r of communicator c. */
static int world_rank(int c, int r)
{
    if (c == 1) /* even and odd */
        return 2 * r + split_color[1];
    return c == 2 ? ranks.size - 1 - r : r; /* 2: reversed */
}

static void make_comms(void)
{
    int odd = ranks.rank % 2;
    pt_comm_place_t half = {odd, ranks.rank / 2, (ranks.size + 1 - odd) / 2};
    pt_comm_place_t reversed = {0, ranks.size - 1 - ranks.rank, ranks.size};

    comms[0] = ranks.world;
    split_color[1] = odd;
    MUST(pt_comm_split(ranks.world, half, "half", PT_AXIS_DATA, &comms[1]));
    MUST(pt_comm_split(ranks.world, reversed, "reversed", PT_AXIS_TENSOR, &comms[2]));
}

static int comm_of(int number)
{
    return (int)(pt_mix64((uint64_t)number) % COMMS);
}

static void begin(job_t *job, int number)
{
    int64_t data[MOST_RANKS * COUNT], count = COUNT;
    pt_comm_t *comm = comms[comm_of(number)];
    pt_transfer_t *t = &job->transfer;

    *t = (pt_transfer_t){.kind = comm_of(number) == 1 ? PT_ALL_GATHER : PT_BROADCAST,
                         .comm = comm};
    job->number = number;
    for (int64_t i = 0; i < count; i++)
        data[i] = value(ranks.rank, number, i);
    if (t->kind == PT_ALL_GATHER) {
        t->send = ranks_put(PT_MEMORY_DEVICE, PT_I64, count, data);
        count *= pt_comm_size(comm);
        memset(data, 0, sizeof data);
    }
    t->recv = ranks_put(PT_MEMORY_DEVICE, PT_I64, count, data);
    MUST(pt_comm_mark(ranks.engine, ranks.stream, &t->ready));
    MUST(pt_comm_begin(t, &job->request));
}

static bool end(job_t *job)
{
    int64_t data[MOST_RANKS * COUNT];
    int c = comm_of(job->number);
    bool ok = true;

    MUST(pt_comm_end(&job->request, ranks.stream));
    ranks_get(&job->transfer.recv, data);
    if (job->transfer.kind == PT_ALL_GATHER)
        ranks_get(&job->transfer.send, NULL);
    for (int r = 0;
         r < (job->transfer.kind == PT_ALL_GATHER ? pt_comm_size(comms[c]) : 1); r++)
        for (int64_t i = 0; i < COUNT; i++)
            ok = ok && data[r * COUNT + i] == value(world_rank(c, r), job->number, i);
    return ok;
}

/* Every rank ends in an order of its own. */
static bool collectives(void)
{
    bool ok = true;

    for (int i = 0; i < REQUESTS; i++) {
        begin(&jobs[i], i);
        if (i % 17 == ranks.rank)
            MUST(pt_comm_progress(ranks.engine));
    }
    for (int i = 0; i < REQUESTS; i++)
        ok = end(&jobs[pt_permute((uint64_t)ranks.rank, 1, i, REQUESTS)]) && ok;
    return ok;
}

/* To every rank, itself too; receives begun in another order than sends. */
static bool messages(void)
{
    enum { TAGS = 5 };
    static int64_t out[MOST_RANKS * TAGS], in[MOST_RANKS * TAGS];
    pt_request_t *sends[MOST_RANKS * TAGS], *receives[MOST_RANKS * TAGS];
    int count = ranks.size * TAGS;
    bool ok = true;

    for (int i = 0; i < count; i++) {
        int s = (int)pt_permute(9, (uint64_t)ranks.rank, i, count);
        pt_transfer_t t = {.kind = PT_RECV,
                           .comm = ranks.world,
                           .peer = s / TAGS,
                           .tag = pt_tag(PT_TAG_GRADIENT, s % TAGS, 300)};
        in[s] = -1;
        t.recv = pt_tensor_1d(&in[s], PT_I64, PT_MEMORY_HOST, 1);
        MUST(pt_comm_begin(&t, &receives[s]));
        t = (pt_transfer_t){.kind = PT_SEND,
                            .comm = ranks.world,
                            .peer = i / TAGS,
                            .tag = pt_tag(PT_TAG_GRADIENT, i % TAGS, 300)};
        out[i] = value(ranks.rank, i % TAGS, i / TAGS);
        t.send = pt_tensor_1d(&out[i], PT_I64, PT_MEMORY_HOST, 1);
        MUST(pt_comm_begin(&t, &sends[i]));
    }
    for (int i = 0; i < count; i++) {
        MUST(pt_comm_end(&receives[i], NULL));
        MUST(pt_comm_end(&sends[i], NULL));
        ok = ok && in[i] == value(i / TAGS, i % TAGS, ranks.rank);
    }
    return ok;
}

/* Equal peer and tag: in the order of begin. */
static bool one_tag(void)
{
    enum { COPIES = 50 };
    int64_t out[COPIES], in[COPIES];
    pt_request_t *sends[COPIES], *receives[COPIES];
    int right = (ranks.rank + 1) % ranks.size;
    int left = (ranks.rank + ranks.size - 1) % ranks.size;
    bool ok = true;

    for (int i = 0; i < COPIES; i++) {
        pt_transfer_t t = {.kind = PT_SEND, .comm = ranks.world, .peer = right};
        out[i] = value(ranks.rank, i, 0);
        t.send = pt_tensor_1d(&out[i], PT_I64, PT_MEMORY_HOST, 1);
        MUST(pt_comm_begin(&t, &sends[i]));
        t = (pt_transfer_t){.kind = PT_RECV, .comm = ranks.world, .peer = left};
        t.recv = pt_tensor_1d(&in[i], PT_I64, PT_MEMORY_HOST, 1);
        MUST(pt_comm_begin(&t, &receives[i]));
    }
    for (int i = COPIES - 1; i >= 0; i--) {
        MUST(pt_comm_end(&receives[i], NULL));
        MUST(pt_comm_end(&sends[i], NULL));
        ok = ok && in[i] == value(left, i, 0);
    }
    return ok;
}

/* A blocking collective begun while others wait takes its place behind them. */
static bool blocking_between(void)
{
    bool ok = true;

    for (int i = 0; i < 40; i++) {
        int64_t sum = ranks.rank;
        begin(&jobs[i], i);
        MUST(pt_comm_sum_int64(comms[comm_of(i)], &sum, 1));
        ok = ok && (comm_of(i) == 1 || sum == ranks.size * (ranks.size - 1) / 2);
    }
    for (int i = 0; i < 40; i++)
        ok = end(&jobs[i]) && ok;
    return ok;
}

int main(int argc, char **argv)
{
    ranks_start(&argc, &argv);
    for (uint64_t chaos = 0; chaos < 4; chaos++) {
        ranks_open_engine(chaos);
        make_comms();
        tap_all(collectives(), "%d collectives over %d communicators, chaos %d",
                REQUESTS, COMMS, (int)chaos);
        tap_all(messages(), "messages matched by peer and tag");
        tap_all(one_tag(), "equal tags arrive in order");
        tap_all(blocking_between(), "blocking collectives between others");
        pt_comm_free(comms[2]);
        pt_comm_free(comms[1]);
        ranks_close_engine();
    }
    return ranks_finish();
}
