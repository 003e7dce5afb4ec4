/* TEST np=1,2,3,4,8 backend=cpu,shadow timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that come after others, over several communicators, ready at random times:
 * a sum, the gather of it in the same memory, and a message with what was gathered.
 * Nobody waits in between. */
#include "regression/mpi/ranks.h"

enum { CHAINS = 30, BLOCK = 7, MOST_RANKS = 8, MOST = MOST_RANKS * BLOCK };

typedef struct chain {
    pt_tensor_t whole, copy;
    pt_request_t *sum, *gather, *send, *receive;
} chain_t;

static chain_t chains[CHAINS];
static pt_comm_t *gathers;

/* Exact in fp32, and so is the sum of all ranks'. */
static float value(int rank, int chain, int64_t i)
{
    return (float)((rank + 1) * (chain + 3) + (int)i);
}

static pt_tensor_t put(int chain)
{
    float numbers[MOST];

    for (int64_t i = 0; i < MOST; i++)
        numbers[i] = value(ranks.rank, chain, i);
    return ranks_put(PT_MEMORY_DEVICE, PT_F32, (int64_t)BLOCK * ranks.size, numbers);
}

static void begin(int i)
{
    chain_t *c = &chains[i];
    pt_transfer_t t = {.kind = PT_REDUCE_SCATTER, .comm = ranks.world};
    int64_t first = (int64_t)ranks.rank * BLOCK;

    t.send = c->whole = put(i), c->copy = put(i), t.wire_dtype = PT_F32;
    t.recv = pt_tensor_slice(c->whole, 0, first, BLOCK);
    MUST(pt_comm_mark(ranks.engine, ranks.stream, &t.ready));
    MUST(pt_comm_begin(&t, &c->sum));
    t = (pt_transfer_t){.kind = PT_ALL_GATHER, .comm = gathers, .recv = c->whole};
    t.send = pt_tensor_slice(c->whole, 0, first, BLOCK);
    t.after[t.after_count++] = c->sum;
    MUST(pt_comm_begin(&t, &c->gather));
    t = (pt_transfer_t){.kind = PT_SEND, .comm = ranks.world, .send = c->whole};
    t.peer = (ranks.rank + 1) % ranks.size, t.tag = i;
    t.after_count = 2, t.after[0] = c->sum, t.after[1] = c->gather;
    MUST(pt_comm_begin(&t, &c->send));
    t = (pt_transfer_t){.kind = PT_RECV, .comm = ranks.world, .recv = c->copy};
    t.peer = (ranks.rank + ranks.size - 1) % ranks.size, t.tag = i;
    MUST(pt_comm_mark(ranks.engine, ranks.stream, &t.ready));
    MUST(pt_comm_begin(&t, &c->receive));
    if (i % 3 == 0) /* the others do not need its handle any more */
        MUST(pt_comm_end(&c->sum, ranks.stream));
}

static bool holds(pt_tensor_t *x, int chain)
{
    float got[MOST];
    bool ok = true;

    ranks_get(x, got);
    for (int64_t i = 0; i < (int64_t)BLOCK * ranks.size; i++) {
        float sum = 0;
        for (int r = 0; r < ranks.size; r++)
            sum += value(r, chain, i);
        ok = ok && got[i] == sum;
    }
    return ok;
}

static bool end(int i)
{
    chain_t *c = &chains[i];
    bool ok;

    MUST(pt_comm_end(&c->receive, ranks.stream));
    MUST(pt_comm_end(&c->send, ranks.stream));
    MUST(pt_comm_end(&c->gather, ranks.stream));
    MUST(pt_comm_end(&c->sum, ranks.stream));
    ok = holds(&c->copy, i);
    return holds(&c->whole, i) && ok;
}

static void test_chains(int chaos)
{
    pt_comm_place_t place = {0, ranks.rank, ranks.size};
    bool ok = true;

    MUST(pt_comm_split(ranks.world, place, "gathers", PT_AXIS_DATA, &gathers));
    for (int i = 0; i < CHAINS; i++)
        begin(i);
    for (int i = CHAINS - 1; i >= 0; i--)
        ok = end(i) && ok;
    tap_all(ok, "%d chains of sum, gather and message, chaos %d", CHAINS, chaos);
    pt_comm_free(gathers);
}

static void refused(pt_transfer_t t, const char *wanted)
{
    static int64_t number;
    pt_request_t *request;

    t.kind = PT_SEND, t.comm = ranks.world;
    t.send = pt_tensor_1d(&number, PT_I64, PT_MEMORY_HOST, 1);
    tap_all(pt_comm_begin(&t, &request) == PT_INTERNAL && !request &&
                strstr(pt_error_last()->text, wanted),
            "refused: %s", pt_error_last()->text);
    pt_error_clear();
}

static void test_refusals(void)
{
    pt_engine_options_t options = {0};
    pt_engine_t *other;
    pt_request_t *send, *receive;
    int64_t out = 1, in = 0;
    pt_transfer_t t = {.kind = PT_SEND, .peer = ranks.rank};

    refused((pt_transfer_t){.after_count = 1}, "never begun");
    refused((pt_transfer_t){.after_count = PT_AFTER + 1}, "too many");
    MUST(pt_engine_create(ranks.transport, &options, &other));
    t.comm = pt_engine_world(other);
    t.send = pt_tensor_1d(&out, PT_I64, PT_MEMORY_HOST, 1);
    MUST(pt_comm_begin(&t, &send));
    t.kind = PT_RECV, t.recv = pt_tensor_1d(&in, PT_I64, PT_MEMORY_HOST, 1);
    MUST(pt_comm_begin(&t, &receive));
    refused((pt_transfer_t){.after_count = 1, .after = {send}}, "another engine");
    MUST(pt_comm_end(&receive, NULL));
    MUST(pt_comm_end(&send, NULL));
    pt_engine_destroy(other);
    t.comm = ranks.world;
    MUST(pt_comm_begin(&t, &receive));
    t.kind = PT_SEND;
    MUST(pt_comm_begin(&t, &send));
    t.after_count = 1, t.after[0] = send;
    MUST(pt_comm_end(&send, NULL));
    MUST(pt_comm_end(&receive, NULL));
    refused(t, "ended");
}

int main(int argc, char **argv)
{
    ranks_start(&argc, &argv);
    for (int chaos = 0; chaos < 4; chaos++) {
        ranks_open_engine((uint64_t)chaos);
        ranks_open_ring(1 + chaos, 8 * (1 + 2 * chaos));
        test_chains(chaos);
        if (chaos == 0)
            test_refusals();
        ranks_close_engine();
    }
    return ranks_finish();
}
