/* TEST backend=cpu,shadow,dry timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, streams and events: what the contract promises on every device, what the
 * shadow device forbids, and that it shows work which is not ordered. */
#include "penta/base/alloc.h"
#include "regression/ops/device_world.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEEDS = 64 };

/* Does reading a byte kill the process? A child tries. */
static int kills(const void *address)
{
    int how = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(*(const volatile char *)address == 1 ? 2 : 0);
    }
    if (child < 0 || waitpid(child, &how, 0) != child)
        must(PT_FAIL(PT_INTERNAL, "no child process"), "fork");
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV;
}

static void *take(world_t *w, pt_memory_t memory, int64_t bytes)
{
    void *out = NULL;
    MUST(pt_device_alloc(w->device, memory, "a block", bytes, &out));
    return out;
}

/* ---- memory ---- */

static void test_access(void)
{
    world_t w;
    int closed = backend != PT_DEVICE_CPU;

    open_world(&w, backend, 1);
    tap_ok(kills(w.buffer[0]) == closed, "device memory is closed to the host");
    tap_ok(!kills(w.buffer[DEVICE_BUFFERS]), "host memory is open");
    fill(&w, 0, 0, 3);
    sync_stream(&w, 0);
    tap_ok(kills(w.buffer[0]) == closed, "the same after work ran");
    fill(&w, 0, 1, 4);
    tap_ok(kills(w.buffer[1]) == closed, "and while work is queued");
    close_world(&w);
}

static void test_poison(void)
{
    enum { SMALL = 100 };
    world_t w;
    char *block;

    open_world(&w, backend, 1);
    memset(w.buffer[DEVICE_BUFFERS], 7, BYTES);
    copy(&w, 0, DEVICE_BUFFERS, 0);
    sync_stream(&w, 0);
    tap_ok(all_poison(w.buffer[DEVICE_BUFFERS]), "new device memory is poison");
    tap_ok(all_poison(w.buffer[DEVICE_BUFFERS + 1]), "new host memory is poison");
    block = take(&w, PT_MEMORY_HOST, SMALL);
    tap_ok(!kills(block + SMALL - 1) && kills(block + PT_ARENA_ALIGN),
           "reading behind a block kills");
    pt_device_free(w.device, PT_MEMORY_HOST, block, SMALL);
    tap_ok(kills(block), "freed memory is closed");
    char *other = take(&w, PT_MEMORY_HOST, SMALL);
    tap_ok(other != block && kills(block), "its addresses are not used again");
    pt_device_free(w.device, PT_MEMORY_HOST, other, SMALL);
    close_world(&w);
}

static void test_counting(void)
{
    world_t w;
    void *none = NULL;

    open_world(&w, backend, 1);
    int64_t before = w.device->live_bytes;
    void *block = take(&w, PT_MEMORY_DEVICE, 1000);
    tap_ok(before == 2 * BUFFERS * BYTES && w.device->live_bytes == before + 1000,
           "live bytes are counted");
    pt_status_t got = pt_device_alloc(w.device, PT_MEMORY_DEVICE, "the world",
                                      (int64_t)1 << 60, &none);
    const char *said = pt_error_last()->text;
    tap_ok(got == PT_MEMORY && !none &&
               strstr(said, "no device memory for the world: 1.00 EiB"),
           "too much memory is refused: %s", said);
    pt_error_clear();
    pt_device_free(w.device, PT_MEMORY_DEVICE, block, 1000);
    tap_ok(w.device->live_bytes == before && w.device->peak_bytes == before + 1000,
           "peak bytes are counted, what was refused is not");
    close_world(&w);
}

/* ---- streams and events ---- */

static void test_lazy(void)
{
    enum { HOST = DEVICE_BUFFERS };
    world_t w;
    int wrong = 0;

    open_world(&w, backend, 5);
    tap_ok(query(&w, 0) && query(&w, 0), "an event never recorded is ready");
    memset(w.buffer[HOST], 7, BYTES);
    fill(&w, 0, 0, 3);
    copy(&w, 0, HOST, 0);
    record(&w, HOST, 0);
    tap_ok(backend == PT_DEVICE_CPU ? all_are(w.buffer[HOST], 3)
                                    : all_poison(w.buffer[HOST]),
           "nothing ran yet, and the destination is poison (cpu: it ran)");
    int queries = wait_on_host(&w, HOST);
    tap_ok(all_are(w.buffer[HOST], 3), "a ready event means done: %d queries", queries);
    tap_ok(query(&w, HOST), "and stays ready");
    fill(&w, 1, 1, 4);
    for (int n = 0; n < 100; n++)
        add(&w, 1, 1, 1, 0);
    copy(&w, 1, HOST + 1, 1);
    record(&w, 1, 1);
    sync_stream(&w, 1);
    tap_ok(all_are(w.buffer[HOST + 1], 304), "after a sync all is done");
    tap_ok(query(&w, 1), "and its events are ready");
    for (int seed = 0; seed < SEEDS; seed++) {
        copy(&w, 0, HOST, 1);
        record(&w, HOST, 0);
        while (!query(&w, HOST))
            wrong += !all_poison(w.buffer[HOST]) && !all_are(w.buffer[HOST], 304);
        wrong += !all_are(w.buffer[HOST], 304);
    }
    tap_ok(wrong == 0, "a destination holds poison or all of the copy");
    close_world(&w);
}

static void test_copies(void)
{
    enum { A = DEVICE_BUFFERS, B, C };
    world_t w;

    open_world(&w, backend, 7);
    for (int i = 0; i < COUNT; i++) {
        w.buffer[A][i] = i;
        w.buffer[C][i] = 100 + i;
    }
    copy(&w, 0, 0, A); /* host to device */
    copy(&w, 0, 1, 0); /* device to device */
    copy(&w, 0, B, 1); /* device to host */
    copy(&w, 0, 2, C);
    copy(&w, 0, C, B); /* host to host, into what is still to be read */
    copy(&w, 0, A, 2);
    sync_stream(&w, 0);
    int right[3] = {0};
    for (int i = 0; i < COUNT; i++) {
        right[0] += w.buffer[A][i] == 100 + i;
        right[1] += w.buffer[B][i] == i;
        right[2] += w.buffer[C][i] == i;
    }
    for (int b = 0; b < 3; b++)
        tap_ok(right[b] == COUNT, "host buffer %d after copies in all directions", b);
    close_world(&w);
}

/* What stream 1 copies of a buffer that stream 0 fills with 1, then, recording again,
 * with 2. */
static double seen_by_wait(uint64_t seed, int wait_last)
{
    enum { HOST = DEVICE_BUFFERS };
    world_t w;
    double seen;

    open_world(&w, backend, seed);
    fill(&w, 0, 0, 1);
    record(&w, 0, 0);
    if (!wait_last) {
        wait_on_stream(&w, 1, 0);
        copy(&w, 1, HOST, 0);
    }
    fill(&w, 0, 0, 2);
    record(&w, 0, 0);
    if (wait_last) {
        wait_on_stream(&w, 1, 0);
        copy(&w, 1, HOST, 0);
    }
    sync_stream(&w, 1);
    seen = w.buffer[HOST][COUNT - 1];
    if (!all_are(w.buffer[HOST], seen) || (wait_last && !query(&w, 0)))
        seen = -1;
    close_world(&w);
    return seen;
}

static void test_record_again(void)
{
    int first = 0, other = 0, last = 0;

    for (int seed = 0; seed < SEEDS; seed++) {
        double seen = seen_by_wait((uint64_t)seed, 0);
        first += seen == 1;
        other += seen != 1 && seen != 2;
        last += seen_by_wait((uint64_t)seed, 1) == 2;
    }
    tap_ok(first > 0 && other == 0, "recording again does not move a wait: %d of %d",
           first, SEEDS);
    tap_ok(last == SEEDS,
           "a wait takes the last record, and is known with what follows");
}

static void test_short_event(void)
{
    enum { HOST = DEVICE_BUFFERS };
    world_t w;
    pt_event_t *event = NULL;
    int right = 0;

    open_world(&w, backend, 3);
    for (int n = 0; n < SEEDS; n++) {
        MUST(w.device->ops->event_create(w.device, &event));
        fill(&w, 0, 0, n);
        MUST(w.device->ops->event_record(w.device, event, w.stream[0]));
        MUST(w.device->ops->stream_wait(w.device, w.stream[1], event));
        w.device->ops->event_destroy(w.device, event);
        copy(&w, 1, HOST, 0);
        sync_stream(&w, 1);
        right += all_are(w.buffer[HOST], n);
    }
    tap_ok(right == SEEDS, "a wait outlives its event");
    close_world(&w);
}

static void test_overflow(void)
{
    enum { MANY = 5000, HOST = DEVICE_BUFFERS };
    world_t w;

    open_world(&w, backend, 9);
    fill(&w, 0, 0, 0);
    fill(&w, 0, 1, 1);
    for (int n = 0; n < MANY; n++)
        add(&w, 0, 0, 0, 1);
    copy(&w, 0, HOST, 0);
    sync_stream(&w, 0);
    tap_ok(all_are(w.buffer[HOST], MANY), "%d ops on one stream", MANY);
    for (int n = 0; n < MANY; n++) {
        add(&w, n % 2, 0, 0, 1);
        record(&w, 0, n % 2);
        wait_on_stream(&w, (n + 1) % 2, 0);
    }
    copy(&w, 0, HOST, 0);
    sync_stream(&w, 0);
    tap_ok(all_are(w.buffer[HOST], 2 * MANY), "%d ops on two, in turns", MANY);
    close_world(&w);
}

/* ---- what is random ---- */

/* Does stream 1 see the work of stream 0? */
static int is_seen(uint64_t seed, int waits)
{
    enum { HOST = DEVICE_BUFFERS };
    world_t w;

    open_world(&w, backend, seed);
    fill(&w, 0, 0, 1);
    record(&w, 0, 0);
    if (waits)
        wait_on_stream(&w, 1, 0);
    copy(&w, 1, HOST, 0);
    sync_stream(&w, 1);
    int seen = all_are(w.buffer[HOST], 1);
    close_world(&w);
    return seen;
}

static void test_missing_wait(void)
{
    int with = 0, without = 0;

    for (int seed = 0; seed < SEEDS; seed++) {
        with += is_seen((uint64_t)seed, 1);
        without += is_seen((uint64_t)seed, 0);
    }
    tap_ok(with == SEEDS, "work waited for is seen under every seed");
    if (backend == PT_DEVICE_SHADOW)
        tap_ok(without < SEEDS, "a missing wait shows under %d of %d seeds",
               SEEDS - without, SEEDS);
}

/* Queries until the streams 0 and 1 are ready, in turns. */
static void race(uint64_t seed, int queries[2])
{
    world_t w;

    open_world(&w, backend, seed);
    queries[0] = queries[1] = 0;
    for (int s = 0; s < 2; s++) {
        fill(&w, s, s, s);
        record(&w, s, s);
    }
    for (int n = 1; n < QUERIES && !(queries[0] && queries[1]); n++)
        for (int s = 0; s < 2; s++)
            if (!queries[s] && query(&w, s))
                queries[s] = n;
    if (!queries[0] || !queries[1])
        must(PT_FAIL(PT_HANG, "no end after %d queries", QUERIES), "events");
    close_world(&w);
}

static void test_seeds(void)
{
    int wins[2] = {0}, differ = 0, same = 0, first[2], now[2], again[2];

    race(0, first);
    for (uint64_t seed = 1; seed < SEEDS; seed++) {
        race(seed, now);
        race(seed, again);
        wins[0] += now[0] < now[1];
        wins[1] += now[1] < now[0];
        differ += memcmp(now, first, sizeof now) != 0;
        same += memcmp(now, again, sizeof now) == 0;
    }
    tap_ok(same == SEEDS - 1, "a seed does the same again");
    if (backend != PT_DEVICE_SHADOW)
        return;
    tap_ok(wins[0] > 5 && wins[1] > 5, "either stream may be first: %d, %d times",
           wins[0], wins[1]);
    tap_ok(differ > SEEDS / 2, "seeds differ: %d of %d from the first", differ,
           SEEDS - 1);
}

/* ---- dry ---- */

static void test_dry(void)
{
    enum { HOST = DEVICE_BUFFERS };
    world_t w;
    int64_t huge = (int64_t)1 << 44;

    open_world(&w, backend, 1);
    void *block = take(&w, PT_MEMORY_DEVICE, huge);
    tap_ok(kills(block) && kills((char *)block + huge - 1),
           "more memory than any machine has, and none can be touched");
    pt_device_free(w.device, PT_MEMORY_DEVICE, block, huge);
    for (int i = 0; i < COUNT; i++)
        w.buffer[HOST][i] = i;
    fill(&w, 0, 0, 3);
    add(&w, 0, 1, 0, 0);
    copy(&w, 0, HOST, 1);
    record(&w, HOST, 0);
    wait_on_stream(&w, 1, HOST);
    sync_stream(&w, 1);
    tap_ok(query(&w, HOST) && w.buffer[HOST][COUNT - 1] == COUNT - 1,
           "copies move nothing, and everything is ready");
    const pt_op_count_t *counts = w.device->counts;
    tap_ok(counts[PT_OP_fill].calls == 1 && counts[PT_OP_add].calls == 1 &&
               counts[PT_OP_add].flops == COUNT && counts[PT_OP_add].bytes == 3 * BYTES,
           "ops are counted");
    close_world(&w);
}

int main(void)
{
    backend = backend_of_test();
    test_access();
    test_counting();
    if (backend == PT_DEVICE_SHADOW)
        test_poison();
    if (backend == PT_DEVICE_DRY) {
        test_dry();
    } else {
        test_lazy();
        test_copies();
        test_record_again();
        test_short_event();
        test_overflow();
        test_missing_wait();
        test_seeds();
    }
    tap_ok(pt_alloc_live_bytes() == 0, "all memory was given back");
    return tap_done();
}
