/* The device of tests: the CPU kernels behind everything that makes a GPU dangerous.
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
#include "penta/base/alloc.h"
#include "penta/base/rng.h"
#include "src/ops/backend.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As deep as queues of CUDA are before a launch blocks. */
enum { RING_ITEMS = 1024 };
enum { ITEM_COPY = PT_OP_COUNT, ITEM_WAIT }; /* below: a pt_op_id_t */
enum { POISON = 0xFF };

typedef struct item {
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
} item_t;

typedef struct shadow shadow_t;

/* Items done .. queued-1 are in the ring; told <= done is what the host knows of. Lives as
 * long as the device, because events and waits point to it. */
struct pt_stream {
    pt_workspace_t workspace;
    shadow_t *shadow;
    pt_stream_t *next;
    int64_t queued, done, told;
    item_t *ring; /* NULL: destroyed */
};

struct pt_event {
    pt_stream_t *stream; /* NULL: never recorded */
    int64_t place;
    int delay; /* queries until it is admitted */
};

typedef struct block {
    struct block *next;
    char *map; /* followed by a page that is never opened */
    size_t map_bytes;
    void *pointer;
    pt_memory_t memory;
} block_t;

struct shadow {
    pt_device_t *cpu;
    pt_stream_t *cpu_stream;
    pt_stream_t *streams;
    block_t *blocks, *freed;
    uint64_t random;
    bool open; /* device memory can be touched */
    pt_status_t failed;
};

static uint64_t draw(shadow_t *shadow, uint64_t below)
{
    shadow->random += 0x9E3779B97F4A7C15u;
    return pt_mix64(shadow->random) % below;
}

static pt_status_t protect(shadow_t *shadow, bool open)
{
    if (shadow->open == open)
        return PT_OK;
    shadow->open = open;
    for (block_t *b = shadow->blocks; b; b = b->next)
        if (b->memory == PT_MEMORY_DEVICE && b->map_bytes > 0)
            PT_CHECK(mprotect(b->map, b->map_bytes,
                              open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
                     PT_INTERNAL, "shadow: cannot change the protection of %zu bytes",
                     b->map_bytes);
    return PT_OK;
}

static pt_status_t run_item(shadow_t *shadow, const item_t *item)
{
    pt_device_set_workspace(shadow->cpu, shadow->cpu_stream, item->workspace.memory,
                            item->workspace.bytes);
    switch (item->kind) {
#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    case PT_OP_##name:                                                                 \
        return shadow->cpu->kernels->name(shadow->cpu_stream, &item->args.name);
#include "penta/ops/ops.def"
#undef PT_OP
    case ITEM_COPY:
        memcpy(item->args.copy.to, item->args.copy.from, (size_t)item->args.copy.bytes);
        return PT_OK;
    default: return PT_OK;
    }
}

static bool is_reached(const pt_stream_t *stream, int64_t place)
{
    return stream->done >= place;
}

static void tell(pt_stream_t *stream, int64_t place)
{
    if (stream->told < place)
        stream->told = place;
}

/* The oldest item, which must not have to wait. */
static pt_status_t run_oldest(pt_stream_t *stream)
{
    shadow_t *shadow = stream->shadow;
    item_t *item = &stream->ring[stream->done % RING_ITEMS];

    if (item->kind == ITEM_WAIT) {
        /* Whoever learns of work behind the wait knows what was waited for. */
        tell(item->args.wait.stream, item->args.wait.place);
    } else {
        PT_TRY(protect(shadow, true));
        PT_TRY(run_item(shadow, item));
    }
    stream->done++;
    return PT_OK;
}

/* Runs `stream` up to `place` and of other streams what that waits for. */
static pt_status_t run_to(pt_stream_t *stream, int64_t place)
{
    while (!is_reached(stream, place)) {
        const item_t *item = &stream->ring[stream->done % RING_ITEMS];

        if (item->kind == ITEM_WAIT)
            PT_TRY(run_to(item->args.wait.stream, item->args.wait.place));
        PT_TRY(run_oldest(stream));
    }
    return PT_OK;
}

/* Runs up to `limit` items as far as they need not wait. */
static pt_status_t run_some(pt_stream_t *stream, int64_t limit)
{
    for (int64_t i = 0; i < limit && stream->done < stream->queued; i++) {
        const item_t *item = &stream->ring[stream->done % RING_ITEMS];

        if (item->kind == ITEM_WAIT &&
            !is_reached(item->args.wait.stream, item->args.wait.place))
            return PT_OK;
        PT_TRY(run_oldest(stream));
    }
    return PT_OK;
}

/* Nothing, a few items or many, of any stream that has some. */
static pt_status_t run_random(shadow_t *shadow)
{
    pt_stream_t *chosen = NULL;
    uint64_t busy = 0;

    for (pt_stream_t *s = shadow->streams; s; s = s->next)
        if (s->done < s->queued && draw(shadow, ++busy) == 0)
            chosen = s;
    if (!chosen || draw(shadow, 2) == 0)
        return PT_OK;
    PT_TRY(run_some(chosen, (int64_t)1 << draw(shadow, 8)));
    return PT_OK;
}

/* Ends a call that may have run work; errors stay, as on a GPU. */
static pt_status_t finish(shadow_t *shadow, pt_status_t status)
{
    pt_status_t closed = protect(shadow, false);

    if (shadow->failed == PT_OK)
        shadow->failed = status != PT_OK ? status : closed;
    PT_CHECK(shadow->failed == PT_OK, shadow->failed,
             "shadow: work queued before has failed; its own error says how");
    return PT_OK;
}

/* Room for one item; the caller fills it and counts it in. */
static pt_status_t next_item(pt_stream_t *stream, int kind, item_t **out)
{
    pt_status_t status = stream->shadow->failed;

    if (status == PT_OK && stream->queued - stream->done == RING_ITEMS)
        status = run_to(stream, stream->done + 1);
    PT_TRY(finish(stream->shadow, status));
    *out = &stream->ring[stream->queued % RING_ITEMS];
    (*out)->kind = kind;
    (*out)->workspace = stream->workspace;
    return PT_OK;
}

#define PT_OP(name, dtypes, flops, bytes, workspace)                                    \
    static pt_status_t shadow_##name(pt_stream_t *stream, const pt_op_##name##_t *args) \
    {                                                                                   \
        item_t *item = NULL;                                                            \
        PT_TRY(next_item(stream, PT_OP_##name, &item));                                 \
        item->args.name = *args;                                                        \
        stream->queued++;                                                               \
        return PT_OK;                                                                   \
    }
#include "penta/ops/ops.def"
#undef PT_OP

static const pt_kernels_t shadow_kernels = {
    .name = "shadow",
#define PT_OP(name, dtypes, flops, bytes, workspace) .name = shadow_##name,
#include "penta/ops/ops.def"
#undef PT_OP
};

/* The block ends where its closed page begins, up to alignment: overruns die too. */
static pt_status_t shadow_alloc(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                                void **out)
{
    shadow_t *shadow = device->state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used =
        ((size_t)bytes + PT_ARENA_ALIGN - 1) / PT_ARENA_ALIGN * PT_ARENA_ALIGN;
    size_t map_bytes = (used + page - 1) / page * page;
    block_t *block = NULL;
    char *map =
        mmap(NULL, map_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return PT_MEMORY;
    if (map_bytes > 0 && mprotect(map, map_bytes, PROT_READ | PROT_WRITE) != 0)
        goto unmap;
    memset(map, POISON, map_bytes);
    if (map_bytes > 0 && memory == PT_MEMORY_DEVICE &&
        mprotect(map, map_bytes, PROT_NONE) != 0)
        goto unmap;
    if (PT_NEW("shadow block", 1, &block) != PT_OK)
        goto unmap;
    *out = map + (map_bytes - used);
    *block = (block_t){.next = shadow->blocks,
                       .map = map,
                       .map_bytes = map_bytes,
                       .pointer = *out,
                       .memory = memory};
    shadow->blocks = block;
    return PT_OK;
unmap:
    (void)munmap(map, map_bytes + page);
    return PT_MEMORY;
}

/* Gives the pages back and keeps the addresses. */
static void shadow_free(pt_device_t *device, pt_memory_t memory, void *pointer,
                        int64_t bytes)
{
    shadow_t *shadow = device->state;

    (void)memory, (void)bytes;
    for (block_t **at = &shadow->blocks; *at; at = &(*at)->next) {
        block_t *b = *at;

        if (b->pointer != pointer)
            continue;
        *at = b->next;
        b->next = shadow->freed;
        shadow->freed = b;
        if (b->map_bytes > 0)
            (void)mmap(b->map, b->map_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        return;
    }
}

static pt_status_t shadow_stream_create(pt_device_t *device, pt_stream_t **out)
{
    shadow_t *shadow = device->state;
    pt_stream_t *stream = NULL;
    pt_status_t status = PT_OK;

    PT_TRY(PT_NEW("shadow stream", 1, &stream));
    PT_TRY_GOTO(release, PT_NEW("shadow queue", RING_ITEMS, &stream->ring));
    stream->shadow = shadow;
    stream->next = shadow->streams;
    shadow->streams = stream;
    *out = stream;
    return PT_OK;
release:
    pt_free(stream);
    return status;
}

/* What is still queued is dropped: after an error its memory may be gone. */
static void shadow_stream_destroy(pt_device_t *device, pt_stream_t *stream)
{
    (void)device;
    if (!stream)
        return;
    stream->done = stream->told = stream->queued;
    pt_free(stream->ring);
    stream->ring = NULL;
}

static pt_status_t shadow_event_create(pt_device_t *device, pt_event_t **out)
{
    (void)device;
    PT_TRY(PT_NEW("shadow event", 1, out));
    return PT_OK;
}

static void shadow_event_destroy(pt_device_t *device, pt_event_t *event)
{
    (void)device;
    pt_free(event);
}

static pt_status_t shadow_event_record(pt_device_t *device, pt_event_t *event,
                                       pt_stream_t *stream)
{
    shadow_t *shadow = device->state;

    PT_TRY(finish(shadow, PT_OK));
    event->stream = stream;
    event->place = stream->queued;
    event->delay = (int)draw(shadow, 4);
    return PT_OK;
}

static pt_status_t shadow_event_query(pt_device_t *device, pt_event_t *event,
                                      bool *ready)
{
    shadow_t *shadow = device->state;
    pt_stream_t *stream = event->stream;

    *ready = false;
    PT_TRY(finish(shadow, shadow->failed ? shadow->failed : run_random(shadow)));
    if (stream && event->place > stream->told) {
        if (!is_reached(stream, event->place) || event->delay-- > 0)
            return PT_OK;
        tell(stream, event->place);
    }
    *ready = true;
    return PT_OK;
}

static pt_status_t shadow_stream_wait(pt_device_t *device, pt_stream_t *stream,
                                      pt_event_t *event)
{
    item_t *item = NULL;

    (void)device;
    if (!event->stream)
        return PT_OK;
    PT_TRY(next_item(stream, ITEM_WAIT, &item));
    item->args.wait.stream = event->stream;
    item->args.wait.place = event->place;
    stream->queued++;
    return PT_OK;
}

static pt_status_t shadow_stream_sync(pt_device_t *device, pt_stream_t *stream)
{
    shadow_t *shadow = device->state;
    pt_status_t status = shadow->failed;

    for (uint64_t i = draw(shadow, 4); i > 0 && status == PT_OK; i--)
        status = run_random(shadow);
    if (status == PT_OK)
        status = run_to(stream, stream->queued);
    PT_TRY(finish(shadow, status));
    tell(stream, stream->queued);
    return PT_OK;
}

/* Does queued work still read of this host memory? */
static bool is_read_later(const shadow_t *shadow, const char *host, int64_t bytes)
{
    for (const pt_stream_t *s = shadow->streams; s; s = s->next)
        for (int64_t i = s->done; i < s->queued; i++) {
            const item_t *item = &s->ring[i % RING_ITEMS];
            const char *from = item->args.copy.from;

            if (item->kind == ITEM_COPY &&
                item->args.copy.from_memory == PT_MEMORY_HOST && from < host + bytes &&
                host < from + item->args.copy.bytes)
                return true;
        }
    return false;
}

/* A host destination is poisoned now, so that reading it too early shows. */
static pt_status_t shadow_copy(pt_device_t *device, pt_stream_t *stream, void *to,
                               pt_memory_t to_memory, const void *from,
                               pt_memory_t from_memory, int64_t bytes)
{
    item_t *item = NULL;

    PT_TRY(next_item(stream, ITEM_COPY, &item));
    if (to_memory == PT_MEMORY_HOST && !is_read_later(device->state, to, bytes))
        memset(to, POISON, (size_t)bytes);
    item->args.copy.to = to;
    item->args.copy.from = from;
    item->args.copy.bytes = bytes;
    item->args.copy.from_memory = from_memory;
    stream->queued++;
    return PT_OK;
}

static void unmap_all(block_t *blocks)
{
    for (block_t *b = blocks, *next; b; b = next) {
        next = b->next;
        (void)munmap(b->map, b->map_bytes + (size_t)sysconf(_SC_PAGESIZE));
        pt_free(b);
    }
}

static void shadow_close(pt_device_t *device)
{
    shadow_t *shadow = device->state;

    for (pt_stream_t *s = shadow->streams, *next; s; s = next) {
        next = s->next;
        pt_free(s->ring);
        pt_free(s);
    }
    unmap_all(shadow->blocks);
    unmap_all(shadow->freed);
    if (shadow->cpu_stream)
        shadow->cpu->ops->stream_destroy(shadow->cpu, shadow->cpu_stream);
    pt_device_close(shadow->cpu);
    pt_free(shadow);
    device->state = NULL;
}

static const pt_device_ops_t shadow_ops = {
    .name = "shadow",
    .close = shadow_close,
    .alloc = shadow_alloc,
    .free = shadow_free,
    .stream_create = shadow_stream_create,
    .stream_destroy = shadow_stream_destroy,
    .event_create = shadow_event_create,
    .event_destroy = shadow_event_destroy,
    .event_record = shadow_event_record,
    .event_query = shadow_event_query,
    .stream_wait = shadow_stream_wait,
    .stream_sync = shadow_stream_sync,
    .copy = shadow_copy,
    .device_memory_is_host_memory = false,
};

pt_status_t pt_device_open_shadow(const pt_device_options_t *options,
                                  pt_device_t *device)
{
    pt_device_options_t of_cpu = *options;
    shadow_t *shadow = NULL;
    pt_status_t status = PT_OK;

    of_cpu.name = "cpu";
    PT_TRY(PT_NEW("shadow device", 1, &shadow));
    device->state = shadow;
    shadow->random = options->seed;
    PT_TRY_GOTO(close, pt_device_open(&of_cpu, &shadow->cpu));
    PT_TRY_GOTO(close,
                shadow->cpu->ops->stream_create(shadow->cpu, &shadow->cpu_stream));
    device->ops = &shadow_ops;
    device->kernels = &shadow_kernels;
    device->isa = shadow->cpu->isa;
    memcpy(device->library, shadow->cpu->library, sizeof device->library);
    device->threads = shadow->cpu->threads;
    return PT_OK;
close:
    shadow_close(device);
    return status;
}
