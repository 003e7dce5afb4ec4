/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds up a run: graphs of waiting ranks, drawn by hand. */
#include "regression/tap.h"

#include "penta/base/clock.h"
#include "src/comm/watch.h"

#include <string.h>

enum { RANKS = 5, WORLD = 1, LEFT = 2, RIGHT = 3 };

static watch_view_t views[RANKS];

/* Ranks 0 to 4 in the world; 0, 1 in LEFT, 2, 3, 4 in RIGHT. All have done ten
 * collectives in each. */
static void begin_scene(void)
{
    memset(views, 0, sizeof views);
    for (int r = 0; r < RANKS; r++) {
        bool left = r < 2;
        views[r].rank = r;
        views[r].process = views[r].thread = 'S';
        snprintf(views[r].host, sizeof views[r].host, "node%d", r / 2);
        views[r].comms[0] = (watch_comm_t){.id = WORLD,
                                           .begun = 10,
                                           .done = 10,
                                           .rank = r,
                                           .size = RANKS,
                                           .name = "world"};
        views[r].comms[1] = (watch_comm_t){.id = left ? LEFT : RIGHT,
                                           .begun = 10,
                                           .done = 10,
                                           .rank = left ? r : r - 2,
                                           .size = left ? 2 : 3,
                                           .name = "data"};
    }
}

static int slot_of(int rank, uint64_t comm)
{
    return views[rank].comms[0].id == comm ? 0 : 1;
}

static watch_record_t *begin(int rank, uint64_t comm, int kind, int64_t bytes)
{
    watch_comm_t *c = &views[rank].comms[slot_of(rank, comm)];
    watch_record_t *record = views[rank].records;

    while (record->number > 0)
        record++;
    *record = (watch_record_t){.number = (uint64_t)(record - views[rank].records) + 1,
                               .comm = comm,
                               .sequence = ++c->begun,
                               .bytes = bytes,
                               .kind = kind,
                               .begun_nsec = 1000 * c->begun};
    return record;
}

static void waits(int rank, uint64_t comm)
{
    views[rank].wait = *begin(rank, comm, PT_MAX, 8);
}

static watch_verdict_t judge_first(int ranks)
{
    watch_verdict_t verdict = {.a = -1};

    if (!watch_judge(views, ranks, &verdict))
        tap_ok(0, "memory");
    return verdict;
}

static watch_verdict_t judge(void)
{
    return judge_first(RANKS);
}

static void sleeper(void)
{
    for (int culprit = 0; culprit < RANKS; culprit++) {
        begin_scene();
        for (int r = 0; r < RANKS; r++)
            if (r != culprit)
                waits(r, WORLD);
        watch_verdict_t v = judge();
        tap_ok(v.finding == WATCH_ROOT && v.a == culprit && v.waiting == RANKS - 1 &&
                   !v.begun && watch_status(&v) == PT_HANG,
               "rank %d does not come", culprit);
    }
}

static void chain(void)
{
    begin_scene();
    waits(0, WORLD), waits(1, WORLD), waits(2, RIGHT), waits(3, RIGHT);
    watch_verdict_t v = judge();
    tap_ok(v.finding == WATCH_ROOT && v.a == 4 && v.waiting == 4,
           "ranks 0 and 1 wait for 2 and 3, which wait for 4");
    begin_scene();
    waits(0, WORLD), waits(1, WORLD), waits(2, WORLD), waits(4, WORLD);
    views[3].wait = (watch_record_t){.number = 1, .kind = WATCH_DEVICE};
    v = judge();
    tap_ok(v.finding == WATCH_ROOT && v.a == 3, "rank 3 waits for its device");
}

static void stopped(void)
{
    begin_scene();
    for (int r = 0; r < RANKS; r++)
        waits(r, WORLD);
    watch_verdict_t v = judge();
    tap_ok(v.finding == WATCH_ARRIVED, "all have come: it is MPI");
    views[2].frozen = true, views[2].process = 'T';
    v = judge();
    tap_ok(v.finding == WATCH_ROOT && v.a == 2 && v.begun,
           "rank 2 came, and was stopped");
    begin_scene();
    for (int r = 0; r < RANKS; r++)
        (void)begin(r, WORLD, PT_MAX, 8);
    for (int r = 0; r < RANKS; r++)
        if (r != 1)
            views[r].wait = views[r].records[0];
    v = judge();
    tap_ok(v.finding == WATCH_ROOT && v.a == 1 && v.begun,
           "rank 1 has begun it, and makes no progress with it");
    views[1].records[0].done_nsec = 1, views[1].comms[0].done++;
    v = judge();
    tap_ok(v.finding == WATCH_ARRIVED, "rank 1 has done its part");
}

static void nobody_waits(void)
{
    begin_scene();
    watch_verdict_t v = judge();
    tap_ok(v.finding == WATCH_STILL && v.a == 0, "all stand still: the first");
    views[3].frozen = true;
    v = judge();
    tap_ok(v.finding == WATCH_STILL && v.a == 3, "the one that is stopped");
}

static void cycle(void)
{
    begin_scene();
    waits(0, WORLD), waits(1, WORLD), waits(2, WORLD), waits(3, RIGHT), waits(4, WORLD);
    watch_verdict_t v = judge();
    tap_ok(v.finding == WATCH_CYCLE && watch_status(&v) == PT_INTERNAL &&
               ((v.a == 2 && v.b == 3) || (v.a == 3 && v.b == 2)),
           "2 waits for 3 in the world, 3 for 2 in data");
}

static void messages(void)
{
    begin_scene();
    for (int r = 0; r < RANKS - 1; r++)
        views[r].wait = (watch_record_t){
            .number = 1, .comm = WORLD, .kind = PT_RECV, .peer = r + 1, .tag = 7};
    watch_verdict_t v = judge();
    tap_ok(v.finding == WATCH_ROOT && v.a == 4 && v.b == 3 && v.waiting == 4,
           "each waits for the message of the next");
    views[4].wait = (watch_record_t){
        .number = 1, .comm = WORLD, .kind = PT_RECV, .peer = 0, .tag = 7};
    v = judge();
    tap_ok(v.finding == WATCH_CYCLE, "and the last for that of the first");
}

static void absent(void)
{
    begin_scene();
    for (int r = 0; r < 4; r++)
        waits(r, WORLD);
    watch_verdict_t v = judge_first(4);
    tap_ok(v.finding == WATCH_ABSENT && v.missing == 4, "nothing is known of rank 4");
    begin_scene();
    waits(0, WORLD), waits(1, WORLD), waits(2, WORLD);
    v = judge_first(4);
    tap_ok(v.finding == WATCH_ROOT && v.a == 3,
           "nor is that needed when 3 has not come");
}

static void difference(void)
{
    char text[WATCH_TEXT];

    begin_scene();
    for (int r = 0; r < RANKS; r++) {
        (void)begin(r, WORLD, PT_MAX, 8);
        (void)begin(r, WORLD, PT_BROADCAST, 40);
    }
    tap_ok(judge().finding != WATCH_DIFFERS, "equal records");
    views[3].records[1].bytes = 39;
    watch_verdict_t v = judge();
    tap_ok(v.finding == WATCH_DIFFERS && v.a == 0 && v.b == 3 &&
               watch_status(&v) == PT_INTERNAL,
           "rank 3 broadcasts less");
    watch_describe(views, RANKS, RANKS, &v, text, sizeof text);
    tap_ok(strstr(text, "rank 0 ") && strstr(text, "rank 3 ") &&
               strstr(text, "broadcast of 40 bytes over world, number 12") &&
               strstr(text, "broadcast of 39 bytes"),
           "%s", text);
    views[2].records[0].kind = PT_SUM_INT64;
    v = judge();
    tap_ok(v.finding == WATCH_DIFFERS && v.b == 2, "rank 2 differed before");
    views[2].records[0].comm = RIGHT;
    views[2].records[0].sequence = 11;
    v = judge();
    tap_ok(v.b == 3, "another communicator is another matter");
}

/* What a transfer pays: three records. */
static void cost(void)
{
    enum { BATCHES = 20, TRANSFERS = 10000 };
    pt_transport_t *transport = NULL;
    pt_engine_t *engine = NULL;
    pt_request_t request = {.transfer = {.kind = PT_MAX},
                            .ticket = {.move = {.count = 1}}};
    double best = 1;

    if (pt_transport_open_serial(&transport) != PT_OK ||
        pt_watch_open(transport, NULL) != PT_OK ||
        pt_engine_create(transport, &(pt_engine_options_t){.device = NULL}, &engine) !=
            PT_OK)
        tap_ok(0, "an engine: %s", pt_error_last()->text);
    request.transfer.comm = pt_engine_world(engine);
    for (int b = 0; b < BATCHES; b++) {
        double start = pt_clock_sec();
        for (int i = 0; i < TRANSFERS; i++) {
            watch_begin_request(&request);
            watch_on_wire(request.watch);
            watch_done(request.transfer.comm, request.watch);
        }
        double sec = (pt_clock_sec() - start) / (3.0 * TRANSFERS);
        best = sec < best ? sec : best;
    }
    tap_ok(best < 1e-6 && request.watch.number >= (uint64_t)BATCHES * TRANSFERS,
           "a record takes %.3f us", 1e6 * best);
    tap_ok(pt_watch_signature() == 0, "one rank is of one mind");
    pt_engine_destroy(engine);
    pt_watch_close();
    pt_transport_close(transport);
}

int main(void)
{
    cost();
    sleeper();
    chain();
    stopped();
    nobody_waits();
    cycle();
    messages();
    absent();
    difference();
    return tap_done();
}
