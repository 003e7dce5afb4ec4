/* SPDX-License-Identifier: Apache-2.0 */
/* shadow.h — a device for tests: the CPU kernels with the hazards of a GPU.
 *
 * Memory: device blocks are PROT_NONE except while queued work runs. New memory is all
 * ones (NaN). Freed addresses stay unreadable and are not used again.
 *
 * Streams: rings of copied arguments. Submitting an item runs nothing. Items run only
 * in stream_sync, in event_query (a random number of items of a random stream), and
 * when a ring is full.
 *
 * Events: an event is a position in a ring. Recording therefore queues nothing, and a
 * wait stores the position at the time of the call. A position is reached when all
 * items before it have run; event_query reports it some queries later.
 *
 * Progress: an item waits only for items submitted before it. The oldest of all queued
 * items can therefore always run, and some query eventually runs it. */
#ifndef PT_OPS_SHADOW_H
#define PT_OPS_SHADOW_H

#include "src/ops/backend.h"

/* As deep as the queues of CUDA before a launch blocks. */
enum { RING_ITEMS = 1024 };
enum { ITEM_COPY = PT_OP_COUNT, ITEM_WAIT }; /* smaller kinds are a pt_op_id_t */
enum { POISON = 0xFF };

typedef struct shadow_item {
    int kind;
    pt_workspace_t workspace; /* of the stream when the op was submitted */
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

/* The ring holds items done .. queued-1. The host knows that items below told <=
 * done have run. A stream lives as long as the device, because events and waits
 * point to it. */
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
    int delay; /* queries until it is reported as ready */
};

typedef struct shadow_block {
    struct shadow_block *next;
    char *map; /* followed by a page that is never accessible */
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
    bool open; /* device memory is accessible */
    pt_status_t failed;
};

/* Memory: shadow_memory.c. Opens the device blocks for work that runs, or closes
 * them. */
pt_status_t shadow_protect(shadow_t *shadow, bool open);
/* Places the end of the block at its inaccessible page (up to alignment), so that
 * overruns crash, too. */
pt_status_t shadow_alloc(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                         void **out);
/* Returns the pages to the system and keeps the addresses. */
void shadow_free(pt_device_t *device, pt_memory_t memory, void *pointer, int64_t bytes);
void shadow_unmap(shadow_block_t *blocks);

/* The queues and their execution: shadow_queue.c. */
uint64_t shadow_draw(shadow_t *shadow, uint64_t below);
bool shadow_is_reached(const pt_stream_t *stream, int64_t place);
void shadow_tell(pt_stream_t *stream, int64_t place);
/* Runs `stream` up to `place`, and first whatever it waits for on other streams. */
pt_status_t shadow_run_to(pt_stream_t *stream, int64_t place);
/* Runs none, a few or many items of a random stream that is not empty. */
pt_status_t shadow_run_random(shadow_t *shadow);
/* Ends a call that may have run work. Errors persist, as on a GPU. */
pt_status_t shadow_finish(shadow_t *shadow, pt_status_t status);
/* Returns a free slot of the ring. The caller fills it and increments `queued`. */
pt_status_t shadow_next_item(pt_stream_t *stream, int kind, shadow_item_t **out);

/* Calls of the host on streams and events: shadow_streams.c. */
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
