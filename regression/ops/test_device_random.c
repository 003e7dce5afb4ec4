/* TEST backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Random work that is ordered by events gives the bits of the same work done at once,
 * and the shadow device shows work that is not ordered. */
#include "penta/base/rng.h"
#include "regression/ops/device_world.h"

/* What a sequence neglects. */
typedef enum duty { ALL_DUTIES, NO_STREAM_WAIT, NO_HOST_WAIT } duty_t;
static duty_t neglected;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state += 0x9E3779B97F4A7C15u;
    return pt_mix64(*state) % below;
}

/* Orders stream `s` behind all that used buffer `b` before. */
static void acquire(world_t *w, int s, int b)
{
    if (neglected != NO_STREAM_WAIT)
        wait_on_stream(w, s, b);
}

static void acquire_on_host(world_t *w, int b)
{
    if (neglected != NO_HOST_WAIT)
        (void)wait_on_host(w, b);
}

/* One random step, the same for every world that draws the same numbers. Returns a host
 * buffer that was read, else -1. */
static int random_step(world_t *w, uint64_t *numbers)
{
    int s = (int)draw(numbers, STREAMS), kind = (int)draw(numbers, 8);
    int host = DEVICE_BUFFERS + (int)draw(numbers, BUFFERS - DEVICE_BUFFERS);
    int y = (int)draw(numbers, DEVICE_BUFFERS), a = (int)draw(numbers, DEVICE_BUFFERS);
    int to = (int)draw(numbers, BUFFERS);
    int from = (to + 1 + (int)draw(numbers, BUFFERS - 1)) % BUFFERS;
    double value = (double)draw(numbers, 1000) / 8;

    if (kind == 0) {
        acquire(w, s, y);
        fill(w, s, y, value);
        record(w, y, s);
    } else if (kind <= 2) {
        acquire(w, s, y);
        acquire(w, s, a);
        add(w, s, y, y, a);
        record(w, y, s);
        record(w, a, s);
    } else if (kind <= 5) {
        acquire(w, s, to);
        acquire(w, s, from);
        copy(w, s, to, from);
        record(w, to, s);
        record(w, from, s);
    } else if (kind == 6) {
        acquire_on_host(w, host);
        for (int i = 0; i < COUNT; i++)
            w->buffer[host][i] = value + i;
    } else {
        acquire_on_host(w, host);
        return host;
    }
    return -1;
}

static void start(world_t *w)
{
    for (int b = 0; b < BUFFERS; b++)
        if (b < DEVICE_BUFFERS) {
            fill(w, 0, b, b);
            record(w, b, 0);
        } else {
            memset(w->buffer[b], b, BYTES);
        }
}

/* The same random work on `w` and, at once, on `reference`; returns whether all that
 * the host read and all buffers at the end had the same bits. */
static int random_sequence(world_t *w, world_t *reference, uint64_t seed)
{
    uint64_t numbers = seed;
    int same = 1;

    start(w);
    start(reference);
    for (int n = 4 + (int)draw(&numbers, 28); n > 0; n--) {
        uint64_t again = numbers;
        int read = random_step(reference, &again);
        (void)random_step(w, &numbers);
        if (read >= 0)
            same &= memcmp(w->buffer[read], reference->buffer[read], BYTES) == 0;
    }
    for (int s = 0; s < STREAMS; s++)
        sync_stream(w, s);
    for (int b = BUFFERS - 1; b >= 0; b--) {
        int host = b < DEVICE_BUFFERS ? DEVICE_BUFFERS : b; /* compared by then */
        if (b < DEVICE_BUFFERS) {
            copy(w, 0, host, b);
            copy(reference, 0, host, b);
            sync_stream(w, 0);
        }
        same &= memcmp(w->buffer[host], reference->buffer[host], BYTES) == 0;
    }
    return same;
}

/* How many of `count` sequences gave other bits than the work done at once. */
static int wrong_sequences(duty_t without, int count)
{
    world_t w, reference;
    int wrong = 0;

    neglected = without;
    open_world(&reference, PT_DEVICE_CPU, 0);
    for (int i = 0; i < count; i++) {
        if (i % 100 == 0)
            open_world(&w, backend, (uint64_t)i);
        wrong += !random_sequence(&w, &reference, 1000003u * (uint64_t)i);
        if (i % 100 == 99 || i == count - 1)
            close_world(&w);
    }
    close_world(&reference);
    return wrong;
}

static void test_random(void)
{
    enum { SEQUENCES = 10000, SOME = 500 };
    int wrong = wrong_sequences(ALL_DUTIES, SEQUENCES);

    tap_ok(wrong == 0, "%d random sequences: %d wrong", SEQUENCES, wrong);
    if (backend != PT_DEVICE_SHADOW)
        return;
    wrong = wrong_sequences(NO_STREAM_WAIT, SOME);
    tap_ok(wrong > SOME / 20, "without stream_wait %d of %d are wrong", wrong, SOME);
    wrong = wrong_sequences(NO_HOST_WAIT, SOME);
    tap_ok(wrong > SOME / 20, "without waits of the host %d of %d are wrong", wrong,
           SOME);
}

int main(void)
{
    backend = backend_of_test();
    test_random();
    return tap_done();
}
