/* SPDX-License-Identifier: Apache-2.0 */
/* A device with streams, events and some buffers, for the tests of devices. */
#ifndef PT_REGRESSION_DEVICE_WORLD_H
#define PT_REGRESSION_DEVICE_WORLD_H

#include "penta/ops/device.h"
#include "regression/backend.h"
#include "regression/tap.h"
#include <string.h>

enum { COUNT = 16, BYTES = COUNT * 8 };                /* fp64 of one buffer */
enum { DEVICE_BUFFERS = 4, BUFFERS = 7, STREAMS = 3 }; /* the last buffers: host */
enum { QUERIES = 200000 }; /* a wait that takes more hangs */

typedef struct world {
    pt_device_t *device;
    pt_stream_t *stream[STREAMS];
    pt_event_t *used[BUFFERS]; /* recorded after each use of the buffer */
    void *block[2];            /* by pt_memory_t */
    double *buffer[BUFFERS];
} world_t;

static pt_device_kind_t backend; /* of this run of the test */

/* A call that a test needs; counts as a result only when it fails. */
static inline void must(pt_status_t status, const char *what)
{
    if (status == PT_OK)
        return;
    tap_ok(0, "%s: %s", what, pt_error_last()->text);
    (void)tap_done();
    exit(1);
}

#define MUST(call) must((call), #call)

static inline pt_memory_t memory_of(int b)
{
    return b < DEVICE_BUFFERS ? PT_MEMORY_DEVICE : PT_MEMORY_HOST;
}

static inline pt_tensor_t tensor(world_t *w, int b)
{
    return pt_tensor_1d(w->buffer[b], PT_F64, memory_of(b), COUNT);
}

static inline void fill(world_t *w, int s, int b, double value)
{
    pt_op_fill_t args = {.x = tensor(w, b), .value = value};
    MUST(pt_op_fill(w->device, w->stream[s], &args));
}

/* y = a + b of buffers seen as one row. */
static inline void add(world_t *w, int s, int y, int a, int b)
{
    pt_memory_t memory = PT_MEMORY_DEVICE;
    pt_op_add_t args = {.a = pt_tensor_2d(w->buffer[a], PT_F64, memory, 1, COUNT),
                        .b = pt_tensor_2d(w->buffer[b], PT_F64, memory, 1, COUNT),
                        .y = pt_tensor_2d(w->buffer[y], PT_F64, memory, 1, COUNT)};
    MUST(pt_op_add(w->device, w->stream[s], &args));
}

static inline void copy(world_t *w, int s, int to, int from)
{
    pt_tensor_t target = tensor(w, to), source = tensor(w, from);
    MUST(pt_device_copy(w->device, w->stream[s], &target, &source));
}

static inline void record(world_t *w, int b, int s)
{
    MUST(w->device->ops->event_record(w->device, w->used[b], w->stream[s]));
}

static inline void wait_on_stream(world_t *w, int s, int b)
{
    MUST(w->device->ops->stream_wait(w->device, w->stream[s], w->used[b]));
}

static inline void sync_stream(world_t *w, int s)
{
    MUST(w->device->ops->stream_sync(w->device, w->stream[s]));
}

static inline int query(world_t *w, int b)
{
    bool ready = false;
    MUST(w->device->ops->event_query(w->device, w->used[b], &ready));
    return ready;
}

/* Queries until the event is ready; returns how many it took. */
static inline int wait_on_host(world_t *w, int b)
{
    for (int n = 1; n < QUERIES; n++)
        if (query(w, b))
            return n;
    must(PT_FAIL(PT_HANG, "no end after %d queries", QUERIES), "event");
    return 0;
}

static inline void open_world(world_t *w, pt_device_kind_t kind, uint64_t seed)
{
    pt_device_options_t options = {
        .kind = kind, .isa = PT_ISA_BASE, .threads = 1, .seed = seed};

    memset(w, 0, sizeof *w);
    MUST(pt_device_open(&options, &w->device));
    for (int s = 0; s < STREAMS; s++)
        MUST(w->device->ops->stream_create(w->device, &w->stream[s]));
    for (int m = 0; m < 2; m++)
        MUST(pt_device_alloc(w->device, (pt_memory_t)m, "test buffers", BUFFERS * BYTES,
                             &w->block[m]));
    for (int b = 0; b < BUFFERS; b++) {
        MUST(w->device->ops->event_create(w->device, &w->used[b]));
        w->buffer[b] = (double *)w->block[memory_of(b)] + b * COUNT;
    }
}

static inline void close_world(world_t *w)
{
    for (int b = 0; b < BUFFERS; b++)
        w->device->ops->event_destroy(w->device, w->used[b]);
    for (int m = 0; m < 2; m++)
        pt_device_free(w->device, (pt_memory_t)m, w->block[m], BUFFERS * BYTES);
    for (int s = 0; s < STREAMS; s++)
        w->device->ops->stream_destroy(w->device, w->stream[s]);
    pt_device_close(w->device);
}

static inline int all_are(const double *x, double value)
{
    int same = 0;
    for (int i = 0; i < COUNT; i++)
        same += x[i] == value;
    return same == COUNT;
}

static inline int all_poison(const void *x)
{
    int same = 0;
    for (int i = 0; i < BYTES; i++)
        same += ((const unsigned char *)x)[i] == 0xFF;
    return same == BYTES;
}

#endif
