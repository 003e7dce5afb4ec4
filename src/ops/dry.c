/* SPDX-License-Identifier: Apache-2.0 */
/* The device for plans: addresses without memory. A plan that touches a tensor crashes
 * at once, and a plan may exceed the memory of the machine. ops.c counts the ops, which
 * never reach the kernels. */
#include "src/ops/backend.h"
#include <sys/mman.h>

/* Nothing is queued, so one stream and one event suffice. */
struct pt_stream {
    pt_workspace_t workspace; /* unused: nothing runs */
};
struct pt_event {
    char unused;
};
static pt_stream_t the_stream;
static pt_event_t the_event;

#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    static pt_status_t dry_##name(pt_stream_t *stream, const pt_op_##name##_t *args)   \
    {                                                                                  \
        (void)stream;                                                                  \
        (void)args;                                                                    \
        return PT_FAIL(PT_INTERNAL, "dry: " #name " was run instead of counted");      \
    }
#include "penta/ops/ops.def"
#undef PT_OP

static const pt_kernels_t dry_kernels = {
    .name = "dry",
#define PT_OP(name, dtypes, flops, bytes, workspace) .name = dry_##name,
#include "penta/ops/ops.def"
#undef PT_OP
};

static void dry_close(pt_device_t *device)
{
    (void)device;
}

/* Addresses in the upper half, which no process can map, so they do not count against a
 * limit (ulimit -v). */
static const uintptr_t no_memory = UINT64_C(0xFFFF800000000000);
static const int64_t no_memory_bytes = INT64_C(1) << 46;

static size_t dry_mapped_bytes(int64_t bytes)
{
    return bytes > 0 ? (size_t)bytes : 1;
}

/* Host memory is real, because headers of files are read into it. It costs only the
 * pages that are touched. */
static pt_status_t dry_alloc(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                             void **out)
{
    if (memory != PT_MEMORY_HOST) {
        uintptr_t taken = (uintptr_t)device->state; /* addresses are not reused */
        if (bytes > no_memory_bytes - (int64_t)taken)
            return PT_MEMORY;
        *out = (void *)(no_memory + taken);
        device->state =
            (void *)(taken + (dry_mapped_bytes(bytes) | (PT_ARENA_ALIGN - 1)) + 1);
        return PT_OK;
    }
    *out = mmap(NULL, dry_mapped_bytes(bytes), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *out == MAP_FAILED ? PT_MEMORY : PT_OK;
}

static void dry_free(pt_device_t *device, pt_memory_t memory, void *pointer,
                     int64_t bytes)
{
    (void)device;
    if (memory == PT_MEMORY_HOST)
        (void)munmap(pointer, dry_mapped_bytes(bytes));
}

static pt_status_t dry_stream_create(pt_device_t *device, pt_stream_t **out)
{
    (void)device;
    *out = &the_stream;
    return PT_OK;
}

static void dry_stream_destroy(pt_device_t *device, pt_stream_t *stream)
{
    (void)device, (void)stream;
}

static pt_status_t dry_event_create(pt_device_t *device, pt_event_t **out)
{
    (void)device;
    *out = &the_event;
    return PT_OK;
}

static void dry_event_destroy(pt_device_t *device, pt_event_t *event)
{
    (void)device, (void)event;
}

static pt_status_t dry_event_record(pt_device_t *device, pt_event_t *event,
                                    pt_stream_t *stream)
{
    (void)device, (void)event, (void)stream;
    return PT_OK;
}

static pt_status_t dry_event_query(pt_device_t *device, pt_event_t *event, bool *ready)
{
    (void)device, (void)event;
    *ready = true;
    return PT_OK;
}

static pt_status_t dry_stream_wait(pt_device_t *device, pt_stream_t *stream,
                                   pt_event_t *event)
{
    (void)device, (void)stream, (void)event;
    return PT_OK;
}

static pt_status_t dry_stream_sync(pt_device_t *device, pt_stream_t *stream)
{
    (void)device, (void)stream;
    return PT_OK;
}

static pt_status_t dry_copy(pt_device_t *device, pt_stream_t *stream, void *to,
                            pt_memory_t to_memory, const void *from,
                            pt_memory_t from_memory, int64_t bytes)
{
    (void)device, (void)stream, (void)to, (void)to_memory, (void)from,
        (void)from_memory, (void)bytes;
    return PT_OK;
}

static const pt_device_ops_t dry_ops = {
    .name = "dry",
    .close = dry_close,
    .alloc = dry_alloc,
    .free = dry_free,
    .stream_create = dry_stream_create,
    .stream_destroy = dry_stream_destroy,
    .event_create = dry_event_create,
    .event_destroy = dry_event_destroy,
    .event_record = dry_event_record,
    .event_query = dry_event_query,
    .stream_wait = dry_stream_wait,
    .stream_sync = dry_stream_sync,
    .copy = dry_copy,
    .device_memory_is_host_memory = true,
};

pt_status_t pt_device_open_dry(const pt_device_options_t *options, pt_device_t *device)
{
    device->ops = &dry_ops;
    device->kernels = &dry_kernels;
    device->isa = "none";
    device->threads = options->threads;
    device->dry = true;
    return PT_OK;
}
