/* SPDX-License-Identifier: Apache-2.0 */
/* device.h — memory, streams and events of what computes (layer: ops).
 *
 * One device per run: `cpu`, `cuda` (not in this version), `shadow` (tests: the CPU kernels behind
 * memory the host cannot touch, lazy streams, events that become ready late) or `dry` (plans:
 * address space without memory, ops and copies only counted). Everything that differs between
 * them is in pt_device_ops_t and pt_kernels_t; code above never asks which one it has.
 *
 * Rules a device may rely on, and the shadow device enforces: host code never dereferences
 * PT_MEMORY_DEVICE pointers; work on one stream runs in order; work of two streams is ordered
 * only by events; host buffers given to an asynchronous copy stay untouched until the stream
 * or a later event is waited for. Not thread-safe: one thread drives a device. */
#ifndef PENTA_DEVICE_H
#define PENTA_DEVICE_H

#include "penta/base/arena.h"
#include "penta/base/device_kind.h"
#include "penta/ops/ops.h"

typedef struct pt_device pt_device_t;
typedef struct pt_stream pt_stream_t; /* layout known to the device only */
typedef struct pt_event pt_event_t;

typedef struct pt_device_ops {
    const char *name;
    void (*close)(pt_device_t *device);
    /* Memory of the device, or host memory it can copy from asynchronously (pinned). Zero-filled
     * is not promised. Fails: MEMORY (local). */
    pt_status_t (*alloc)(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                         void **out);
    void (*free)(pt_device_t *device, pt_memory_t memory, void *pointer, int64_t bytes);
    pt_status_t (*stream_create)(pt_device_t *device, pt_stream_t **out);
    void (*stream_destroy)(pt_device_t *device, pt_stream_t *stream);
    pt_status_t (*event_create)(pt_device_t *device, pt_event_t **out);
    void (*event_destroy)(pt_device_t *device, pt_event_t *event);
    /* Marks the work put on `stream` so far. An event never recorded is ready. */
    pt_status_t (*event_record)(pt_device_t *device, pt_event_t *event,
                                pt_stream_t *stream);
    /* Never blocks. Devices may start queued work only here or in stream_sync. */
    pt_status_t (*event_query)(pt_device_t *device, pt_event_t *event, bool *ready);
    /* Work put on `stream` from now on waits for the event. */
    pt_status_t (*stream_wait)(pt_device_t *device, pt_stream_t *stream,
                               pt_event_t *event);
    /* Blocks the host until all work of `stream` is done; spins or sleeps inside. Only for
     * set-up and tools: a running step waits through pt_comm_wait_event (comm.h). */
    pt_status_t (*stream_sync)(pt_device_t *device, pt_stream_t *stream);
    /* Bytes between any two kinds of memory; blocks may not overlap. */
    pt_status_t (*copy)(pt_device_t *device, pt_stream_t *stream, void *to,
                        pt_memory_t to_memory, const void *from,
                        pt_memory_t from_memory, int64_t bytes);
    /* Makes ready what a product of these shapes and strides needs, without touching data, so that no
     * step waits for it; NULL: nothing does. */
    pt_status_t (*prepare_gemm)(pt_device_t *device, const pt_op_gemm_t *args);
    /* cpu, dry: MPI may be handed device pointers, and no staging is ever needed. */
    bool device_memory_is_host_memory;
} pt_device_ops_t;

struct pt_device {
    const pt_device_ops_t *ops;
    const pt_kernels_t *kernels;
    const char *isa;   /* "v3", "sm_90", … as printed and recorded */
    char library[128]; /* that multiplies its matrices, with its version; "": none */
    int threads;
    bool dry;               /* ops are counted, not run; data must not be read */
    pt_device_t *rehearses; /* of a dry device: where its products are made ready; or NULL */
    void *state;            /* the device's own */
    pt_op_count_t counts[PT_OP_COUNT]; /* calls, FLOPs, bytes since open */
    int64_t workspace_peak; /* most bytes of scratch an op asked for since open */
    int64_t live_bytes, peak_bytes; /* handed out by pt_device_alloc, both memories */
};

typedef struct pt_device_options {
    pt_device_kind_t kind;
    pt_isa_t isa;  /* of the CPU kernels; AUTO: the highest this CPU has */
    int threads;   /* per rank, >= 1 */
    uint64_t seed; /* shadow: of its random readiness; differs per rank */
} pt_device_options_t;

/* Opens a device and checks that its kernel table is complete. Local; the caller makes ranks
 * agree. Fails: CONFIG (a device this build lacks, an ISA this CPU lacks), INTERNAL (incomplete table: names
 * what is missing). Caller closes with pt_device_close. */
pt_status_t pt_device_open(const pt_device_options_t *options, pt_device_t **out);
void pt_device_close(pt_device_t *device);

pt_status_t pt_device_alloc(pt_device_t *device, pt_memory_t memory, const char *name,
                            int64_t bytes, void **out);
void pt_device_free(pt_device_t *device, pt_memory_t memory, void *pointer,
                    int64_t bytes);
/* Lends `stream` device memory (aligned as arenas are) as scratch of the ops put on it from now
 * on; they use it in stream order, its content means nothing between them. The memory stays the
 * caller's and serves one stream at a time. An op that needs more than its stream has fails
 * INTERNAL; how much that is depends on shapes and threads: the column of ops.def, and
 * pt_attention_workspace. */
void pt_device_set_workspace(pt_device_t *device, pt_stream_t *stream, void *memory,
                             int64_t bytes);
/* Gives a planned arena memory of its peak size (touched, so that page faults happen now), and
 * empties it for the place pass. Fails: MEMORY, naming class and size. */
pt_status_t pt_device_place_arena(pt_device_t *device, pt_arena_t *arena);
void pt_device_free_arena(pt_device_t *device, pt_arena_t *arena);
/* The sum, INT64_MAX where it is larger. */
static inline int64_t pt_bytes_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
/* Host memory that can still be had without swapping: what the kernel calls available, less where
 * a control group or a strict account of all promises (vm.overcommit_memory=2) allows less. INT64_MAX where the system does not tell. Local. */
int64_t pt_host_memory_available(void);
/* What a process may take, beside others of its host that need as much each. */
typedef struct pt_memory_share {
    int64_t bytes;
    char reason[96];  /* "3 of them on this host, where 4.0 GiB are available" */
    char remedy[160]; /* "take a host with more memory" */
} pt_memory_share_t;
/* Do `bytes` fit into that share? It is the least of: an equal part of pt_host_memory_available, less
 * 5 %; what the limits of the process leave (ulimit -v, -d), less what libraries, and threads yet to
 * begin, still take. Local. */
bool pt_host_memory_fits(int64_t bytes, int processes, int threads,
                         pt_memory_share_t *out);
/* Fails MEMORY, naming the limit of the process that leaves less than `bytes` for `what`, and a value
 * that would do. Local. */
pt_status_t pt_process_memory_check(int64_t bytes, const char *what);
/* Can the process begin `count` threads more? Libraries crash, or end it, where they cannot. `advice`: "" or
 * what else helps, with "or" at its end. Fails: MEMORY, naming the limits. Local. */
pt_status_t pt_process_threads_check(int count, const char *advice);
/* Bytes of addresses a new thread takes for its stack. */
int64_t pt_thread_stack_bytes(void);
/* Dense tensors of equal bytes, any memories. */
pt_status_t pt_device_copy(pt_device_t *device, pt_stream_t *stream,
                           const pt_tensor_t *to, const pt_tensor_t *from);

/* The CPU kernel table of a level, for tests; NULL when this build or this CPU lacks it, and for AUTO. */
const pt_kernels_t *pt_cpu_kernels(pt_isa_t isa);
const char *pt_isa_name(pt_isa_t isa); /* "base", … */

#endif
