/* SPDX-License-Identifier: Apache-2.0 */
/* device.h — memory, streams and events of a compute device (layer: ops).
 *
 * A run uses one device: `cpu`; `cuda` (not in this version); `shadow` (for tests: the
 * CPU kernels behind memory the host cannot touch, lazy streams, and events that become
 * ready late); or `dry` (for plans: address space without memory; ops and copies are
 * only counted). Everything that differs between devices is in pt_device_ops_t and
 * pt_kernels_t. Code above never asks which device it runs on.
 *
 * Rules for callers, which a device may rely on and the shadow device enforces:
 * - Host code never dereferences PT_MEMORY_DEVICE pointers.
 * - Work on one stream runs in order. Only events order the work of two streams.
 * - The caller leaves the host buffers of an asynchronous copy untouched until it has
 *   waited for the stream or for a later event.
 * - One thread drives a device; nothing here is thread-safe. */
#ifndef PENTA_DEVICE_H
#define PENTA_DEVICE_H

#include "penta/base/arena.h"
#include "penta/base/device_kind.h"
#include "penta/ops/ops.h"

typedef struct pt_device pt_device_t;
typedef struct pt_stream pt_stream_t; /* opaque: each device defines its own */
typedef struct pt_event pt_event_t;

typedef struct pt_device_ops {
    const char *name;
    void (*close)(pt_device_t *device);
    /* Allocates device memory, or (PT_MEMORY_HOST) pinned host memory that the device
     * can copy from asynchronously. The content is undefined. Fails: MEMORY (local). */
    pt_status_t (*alloc)(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                         void **out);
    void (*free)(pt_device_t *device, pt_memory_t memory, void *pointer, int64_t bytes);
    pt_status_t (*stream_create)(pt_device_t *device, pt_stream_t **out);
    void (*stream_destroy)(pt_device_t *device, pt_stream_t *stream);
    pt_status_t (*event_create)(pt_device_t *device, pt_event_t **out);
    void (*event_destroy)(pt_device_t *device, pt_event_t *event);
    /* Records the work submitted to `stream` so far. An event that was never recorded
     * is ready. */
    pt_status_t (*event_record)(pt_device_t *device, pt_event_t *event,
                                pt_stream_t *stream);
    /* Never blocks. A device may start queued work only here and in stream_sync. */
    pt_status_t (*event_query)(pt_device_t *device, pt_event_t *event, bool *ready);
    /* Makes work submitted to `stream` from now on wait for the event. */
    pt_status_t (*stream_wait)(pt_device_t *device, pt_stream_t *stream,
                               pt_event_t *event);
    /* Blocks the host until all work of `stream` is done, spinning or sleeping. For
     * set-up and tools only: a running step waits through pt_comm_wait_event
     * (comm.h). */
    pt_status_t (*stream_sync)(pt_device_t *device, pt_stream_t *stream);
    /* Copies bytes between any two kinds of memory. The two blocks must not overlap. */
    pt_status_t (*copy)(pt_device_t *device, pt_stream_t *stream, void *to,
                        pt_memory_t to_memory, const void *from,
                        pt_memory_t from_memory, int64_t bytes);
    /* Prepares (compiles) a matrix product of these shapes and strides without touching
     * data, so that no step waits for it. NULL: the device needs no preparation. */
    pt_status_t (*prepare_gemm)(pt_device_t *device, const pt_op_gemm_t *args);
    /* True for cpu and dry: MPI accepts device pointers, and no staging is needed. */
    bool device_memory_is_host_memory;
} pt_device_ops_t;

struct pt_device {
    const pt_device_ops_t *ops;
    const pt_kernels_t *kernels;
    const char *isa;   /* "v3", "sm_90", …; as printed and recorded */
    char library[128]; /* name and version of the matrix library; "": none */
    int threads;
    bool dry;               /* ops are counted, not run; data must not be read */
    pt_device_t *rehearses; /* dry only: device that prepares products; or NULL */
    void *state;            /* private to the device */
    pt_op_count_t counts[PT_OP_COUNT]; /* calls, FLOPs and bytes since open */
    int64_t workspace_peak;         /* largest workspace an op asked for since open */
    int64_t live_bytes, peak_bytes; /* allocated by pt_device_alloc, both memories */
};

typedef struct pt_device_options {
    pt_device_kind_t kind;
    pt_isa_t isa;  /* level of the CPU kernels; AUTO: the highest this CPU supports */
    int threads;   /* per rank, >= 1 */
    uint64_t seed; /* shadow: seed of the random delays; differs per rank */
} pt_device_options_t;

/* Opens a device and checks that its kernel table is complete. Local; the caller agrees
 * on the status among the ranks. Fails: CONFIG (this build lacks the device, or the CPU
 * lacks the ISA), INTERNAL (incomplete kernel table; the message names what is
 * missing). The caller closes the device with pt_device_close. */
pt_status_t pt_device_open(const pt_device_options_t *options, pt_device_t **out);
void pt_device_close(pt_device_t *device);

/* Allocates memory and counts it in live_bytes.
 *   name  [in]  names the memory in messages
 *   out   [out] undefined content; freed with pt_device_free; NULL on failure
 * Local. Fails: MEMORY, naming size and limit. */
pt_status_t pt_device_alloc(pt_device_t *device, pt_memory_t memory, const char *name,
                            int64_t bytes, void **out);
/* Frees `bytes` bytes at `pointer`, as allocated; NULL is allowed. */
void pt_device_free(pt_device_t *device, pt_memory_t memory, void *pointer,
                    int64_t bytes);
/* Gives a stream the memory that its ops use as scratch.
 *   stream  [in] later ops on it use the memory, in stream order
 *   memory  [in] device memory, aligned like an arena; borrowed; serves one stream at a
 *           time; its content is undefined between ops
 *   bytes   [in] its size
 * An op that needs more fails with INTERNAL. The need depends on shapes and threads:
 * see the workspace column of ops.def, and pt_attention_workspace. */
void pt_device_set_workspace(pt_device_t *device, pt_stream_t *stream, void *memory,
                             int64_t bytes);
/* Allocates memory for the peak size of a planned arena and empties the arena for the
 * place pass. The pages are touched, so that page faults happen now. Fails: MEMORY,
 * naming class and size. */
pt_status_t pt_device_place_arena(pt_device_t *device, pt_arena_t *arena);
/* Frees the memory of a placed arena and initialises it for another plan. */
void pt_device_free_arena(pt_device_t *device, pt_arena_t *arena);
/* Returns a + b, or INT64_MAX on overflow. */
static inline int64_t pt_bytes_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
/* Bytes of host memory that can be allocated without swapping: what the kernel
 * reports as available, or less if a control group or strict overcommit
 * (vm.overcommit_memory=2) allows less. INT64_MAX if the system does not tell.
 * Local. */
int64_t pt_host_memory_available(void);
/* The memory that one of several equal processes of a host may use. */
typedef struct pt_memory_share {
    int64_t bytes;
    char reason[96];  /* "3 of them on this host, where 4.0 GiB are available" */
    char remedy[160]; /* "take a host with more memory" */
} pt_memory_share_t;
/* Whether each of several processes of this host can allocate `bytes`. Local.
 *   bytes      [in]  need of each process
 *   processes  [in]  number of processes on the host
 *   threads    [in]  threads of each process
 *   out        [out] the share of a process, and texts for a message
 * The share is the smaller of two: an equal part of pt_host_memory_available less 5 %;
 * and what the limits of the process (ulimit -v, -d) leave, less what libraries and
 * threads not yet started will take. */
bool pt_host_memory_fits(int64_t bytes, int processes, int threads,
                         pt_memory_share_t *out);
/* Checks that the limits of the process leave `bytes` for `what`. Fails: MEMORY, naming
 * the limit and a sufficient value. Local. */
pt_status_t pt_process_memory_check(int64_t bytes, const char *what);
/* Checks that the process can start `count` more threads: libraries crash, or end the
 * process, if they cannot. `advice` is "" or another remedy, ending in "or". Fails:
 * MEMORY, naming the limits. Local. */
pt_status_t pt_process_threads_check(int count, const char *advice);
/* Address space in bytes that the stack of a new thread takes. */
int64_t pt_thread_stack_bytes(void);
/* Copies a dense tensor to another of equal bytes, in any memories. */
pt_status_t pt_device_copy(pt_device_t *device, pt_stream_t *stream,
                           const pt_tensor_t *to, const pt_tensor_t *from);

/* CPU kernel table of a level, for tests. NULL if this build or this CPU lacks the
 * level, and for AUTO. */
const pt_kernels_t *pt_cpu_kernels(pt_isa_t isa);
const char *pt_isa_name(pt_isa_t isa); /* "base", … */

#endif
