/* SPDX-License-Identifier: Apache-2.0 */
/* shadow.h — the device of tests: the CPU kernels behind everything that makes a GPU dangerous.
 *
 * Memory: device blocks are PROT_NONE except while queued work runs; new memory is all ones
 * (NaN), freed addresses stay unreadable and are not used again.
 * Streams: rings of copied arguments. Nothing runs when it is put there, only in stream_sync,
 * in event_query (a random part of a random stream) and when a ring is full.
 * Events: a place in a ring, so recording queues nothing and a wait holds the place that was
 * current when it was asked for. A place is reached when the work before it has run, and is
 * admitted some queries later.
 *
 * Progress: an item waits only for items put before it, so the oldest of all queued items can
 * always run, and a query meets it sooner or later. */
#ifndef PT_OPS_SHADOW_H
#define PT_OPS_SHADOW_H

#include "src/ops/backend.h"

/* As deep as queues of CUDA are before a launch blocks. */
enum { RING_ITEMS = 1024 };
enum { ITEM_COPY = PT_OP_COUNT, ITEM_WAIT }; /* below: a pt_op_id_t */
enum { POISON = 0xFF };

typedef struct shadow_item {
    int kind;
    pt_workspace_t workspace; /* of the stream when the op was put there */
    union {
        struct {
            void *to;
            const void *from;
            int64_t bytes;
            pt_memory_t from_memory;
        } copy;
        struct {
            pt_stream_t *stream;
            int64_t place;
        } wait;
#define PT_OP(name, dtypes, flops, bytes, workspace) pt_op_##name##_t name;
#include "penta/ops/ops.def"
#undef PT_OP
    } args;
} shadow_item_t;

typedef struct shadow shadow_t;

/* Items done .. queued-1 are in the ring; told <= done is what the host knows of. Lives as
 * long as the device, because events and waits point to it. */
struct pt_stream {
    pt_workspace_t workspace;
    shadow_t *shadow;
    pt_stream_t *next;
    int64_t queued, done, told;
    shadow_item_t *ring; /* NULL: destroyed */
};

struct pt_event {
    pt_stream_t *stream; /* NULL: never recorded */
    int64_t place;
    int delay; /* queries until it is admitted */
};

typedef struct shadow_block {
    struct shadow_block *next;
    char *map; /* followed by a page that is never opened */
    size_t map_bytes;
    void *pointer;
    pt_memory_t memory;
} shadow_block_t;

struct shadow {
    pt_device_t *cpu;
    pt_stream_t *cpu_stream;
    pt_stream_t *streams;
    shadow_block_t *blocks, *freed;
    uint64_t random;
    bool open; /* device memory can be touched */
    pt_status_t failed;
};

/* Memory: shadow_memory.c. Only work that runs may touch the blocks of the device. */
pt_status_t shadow_protect(shadow_t *shadow, bool open);
/* The block ends where its closed page begins, up to alignment: overruns die too. */
pt_status_t shadow_alloc(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                         void **out);
/* Gives the pages back and keeps the addresses. */
void shadow_free(pt_device_t *device, pt_memory_t memory, void *pointer, int64_t bytes);
void shadow_unmap(shadow_block_t *blocks);

/* The rings and what runs of them: shadow_queue.c. */
uint64_t shadow_draw(shadow_t *shadow, uint64_t below);
bool shadow_is_reached(const pt_stream_t *stream, int64_t place);
void shadow_tell(pt_stream_t *stream, int64_t place);
/* Runs `stream` up to `place` and of other streams what that waits for. */
pt_status_t shadow_run_to(pt_stream_t *stream, int64_t place);
/* Nothing, a few items or many, of any stream that has some. */
pt_status_t shadow_run_random(shadow_t *shadow);
/* Ends a call that may have run work; errors stay, as on a GPU. */
pt_status_t shadow_finish(shadow_t *shadow, pt_status_t status);
/* Room for one item; the caller fills it and counts it in. */
pt_status_t shadow_next_item(pt_stream_t *stream, int kind, shadow_item_t **out);

/* What the host asks of streams and events: shadow_streams.c. */
pt_status_t shadow_stream_create(pt_device_t *device, pt_stream_t **out);
void shadow_stream_destroy(pt_device_t *device, pt_stream_t *stream);
pt_status_t shadow_event_create(pt_device_t *device, pt_event_t **out);
void shadow_event_destroy(pt_device_t *device, pt_event_t *event);
pt_status_t shadow_event_record(pt_device_t *device, pt_event_t *event,
                                pt_stream_t *stream);
pt_status_t shadow_event_query(pt_device_t *device, pt_event_t *event, bool *ready);
pt_status_t shadow_stream_wait(pt_device_t *device, pt_stream_t *stream,
                               pt_event_t *event);
pt_status_t shadow_stream_sync(pt_device_t *device, pt_stream_t *stream);
pt_status_t shadow_copy(pt_device_t *device, pt_stream_t *stream, void *to,
                        pt_memory_t to_memory, const void *from,
                        pt_memory_t from_memory, int64_t bytes);

#endif
