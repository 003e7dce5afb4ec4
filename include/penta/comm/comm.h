/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h — communication between ranks (layer: comm; with io/ the only code that calls
 * MPI).
 *
 * An engine drives the communication of one run. It has the communicators, the requests
 * in flight, their host staging, the traffic counters, and the one function that waits.
 * Below it is a transport: MPI, `serial` (one rank; link-time twin), or `dry` (any
 * size, counts only: plans).
 *
 * A request is a state machine, advanced only by pt_comm_progress (and the calls that
 * wait), never by another thread:
 *
 *   begin -> READY? (device event) -> staged out -> ON THE WIRE -> staged in, summed ->
 * DONE
 *
 * Requests of one communicator go on the wire strictly in the order of begin, the same
 * on all its ranks; one that is ready earlier waits. (MPI matches nonblocking
 * collectives by call order: begun in opposite order they complete and silently swap
 * data.) Send and receive are matched by (peer, tag) and do not wait for each other or
 * for collectives.
 *
 * Transfers chain: a transfer may name others, on any communicators of the engine, that
 * it starts after, so that the host need not block between them. All ranks of a
 * communicator name the same ones. Only requests that have been begun can be named, so
 * chains cannot deadlock.
 *
 * Reductions of floating-point numbers are all-to-all + a local sum in rank order
 * (never an MPI sum): independent of library, message size and placement. MAX and
 * integer sums are exact.
 *
 * They are divided into pieces that pass through a ring of buffers. The ring belongs to
 * the communicator and is reserved at set-up, so work and staging memory depend on the
 * number of ranks and not on the size of the reduction. The same holds for gathers over
 * a communicator with a ring. To its caller a request is one transfer.
 *
 * Threads: one thread per engine. All calls are Collective over the named communicator
 * unless said Local. Agree and exchange return an agreed status (COMMON); all other
 * failures are local and fatal: arguments, memory in create and split, MPI errors
 * (INTERNAL). Blocking collectives, agree, split and free are part of the begin order
 * of their communicator: requests begun earlier go first. All requests of a
 * communicator must have ended before it is freed. After a fatal error
 * (pt_error_is_fatal) destroy and free release memory only and make no MPI call. */
#ifndef PENTA_COMM_H
#define PENTA_COMM_H

#include "penta/ops/device.h"
#include "penta/base/sum.h"

typedef struct pt_engine pt_engine_t;
typedef struct pt_comm pt_comm_t;
typedef struct pt_request pt_request_t;
typedef struct pt_transport pt_transport_t; /* src/comm/transport.h */

/* ---- set-up ------------------------------------------------------------------------------- */

/* Whether device memory is passed to MPI; in the order of comm.gpu_direct. */
typedef enum pt_gpu_direct {
    PT_GPU_DIRECT_AUTO,
    PT_GPU_DIRECT_ON,
    PT_GPU_DIRECT_OFF
} pt_gpu_direct_t;

typedef struct pt_engine_options {
    pt_device_t *device; /* borrowed; NULL: host tensors only */
    pt_gpu_direct_t gpu_direct;
    int max_requests; /* in flight at once; 0: default */
    uint64_t chaos; /* tests: non-zero makes readiness random, seeded with it and rank */
} pt_engine_options_t;

/* The world of this process. main calls one of these once; the handle passed to the
 * first is a `MPI_Comm *`, which is duplicated once. */
pt_status_t pt_transport_open_mpi(void *mpi_comm, pt_transport_t **out);
pt_status_t pt_transport_open_serial(pt_transport_t **out);
/* rank of size in a world that does not exist; sends vanish, receives leave buffers
 * alone. */
pt_status_t pt_transport_open_dry(int rank, int size, pt_transport_t **out);
void pt_transport_close(pt_transport_t *transport);
/* Before a transport is there: the rank that the launcher (PMI, PMIx, Open MPI, Slurm)
 * gave this process; 0. */
int pt_transport_launched_rank(void);
/* Likewise among the processes of its host. */
int pt_transport_launched_rank_on_host(void);
/* Is a world of `size` as large as what the launcher started? Refuses (CONFIG) a
 * smaller one: then this launcher is not that of the MPI library, and every rank
 * believes to be alone. Common: all ranks of one launch come to the same end. */
pt_status_t pt_transport_check_launch(int size);

/* Collective (transport's world). Several engines, one after the other, may use one
 * transport. */
pt_status_t pt_engine_create(pt_transport_t *transport,
                             const pt_engine_options_t *options, pt_engine_t **out);
void pt_engine_destroy(pt_engine_t *engine);
/* Staging the requests of a run need at most, found by a dry run of its step; carved
 * from arena STAGING (host). Plan and place like any arena user. Local. */
pt_status_t pt_engine_layout(pt_engine_t *engine, int64_t staging_bytes,
                             pt_arena_t *staging);
/* Highest extent of staging held between begin and end so far (first fit, in the order
 * of begin and end); counted on every device for device tensors as if it needed
 * staging. A request given a segment that an earlier device copy still reads waits in
 * READY for that copy's event. */
int64_t pt_engine_staging_peak(const pt_engine_t *engine);

pt_comm_t *pt_engine_world(pt_engine_t *engine);
/* Ranks that share this host's memory, this one included; at least 1. Local. */
int pt_engine_ranks_on_host(const pt_engine_t *engine);
int pt_engine_rank_on_host(
    const pt_engine_t *engine); /* from 0, in the order of the world */
/* Where the caller stands after a split, computed by every rank for itself (the dry
 * transport trusts it, MPI checks it). Equal colors form a communicator; color < 0:
 * none, `*out` NULL. */
typedef struct pt_comm_place {
    int color, rank, size;
} pt_comm_place_t;
/* `axis` says where its traffic is counted. */
pt_status_t pt_comm_split(pt_comm_t *parent, pt_comm_place_t place, const char *name,
                          pt_axis_t axis, pt_comm_t **out);
void pt_comm_free(pt_comm_t *comm); /* NULL is fine */
int pt_comm_rank(const pt_comm_t *comm);
int pt_comm_size(const pt_comm_t *comm);
const char *pt_comm_name(const pt_comm_t *comm);
pt_axis_t pt_comm_axis(const pt_comm_t *comm);
pt_engine_t *pt_comm_engine(const pt_comm_t *comm);
/* For what speaks MPI itself: a pointer to the MPI_Comm of this communicator, NULL on
 * other transports. */
void *pt_comm_mpi(const pt_comm_t *comm);

/* The ring of a communicator. */
typedef struct pt_ring_options {
    int slots; /* pieces under way at once */
    int64_t peer_bytes; /* of a piece, at most, to or from each rank: pt_ring_peer_bytes or less */
    bool sums; /* for PT_REDUCE_SCATTER and PT_ALL_REDUCE: with work memory */
    bool narrows; /* for sums whose type on the wire is narrower than send's: with twice that */
} pt_ring_options_t;
/* What a piece carries for each of `size` ranks: 64 KiB, and more where few ranks share
 * it. */
int64_t pt_ring_peer_bytes(int size);
/* Reserves the ring, in the place of the one before, while no transfer of `comm` is
 * under way. Plan and place like any arena user.
 * work: device memory, slots × size × peer_bytes, once for sums, twice if they narrow.
 * Staging is counted in pt_engine_staging_peak. Local. Fails: MEMORY. */
pt_status_t pt_comm_layout_ring(pt_comm_t *comm, const pt_ring_options_t *options,
                                pt_arena_t *work);

/* ---- transfers ---------------------------------------------------------------------------- */

typedef enum pt_transfer_kind {
    PT_SEND,       /* send -> peer */
    PT_RECV,       /* recv <- peer */
    PT_BROADCAST,  /* recv on all, from `peer` */
    PT_ALL_GATHER, /* block r of recv = rank r's send */
    PT_ALL_TO_ALL, /* recv block r = block `rank` of rank r's send */
    PT_REDUCE_SCATTER, /* recv (+)= sum over ranks, in rank order, of block `rank` of send. Ring */
    PT_ALL_REDUCE, /* recv[n] (+)= sum over ranks, in rank order, of send[n]. It gathers every rank's
                      numbers, so it is for short vectors. Ring */
    PT_MAX,       /* recv = element-wise maximum of send over ranks */
    PT_SUM_INT64, /* recv = element-wise integer sum */
    PT_TRANSFER_KINDS
} pt_transfer_kind_t;

/* Tags of point-to-point messages: everything that may be in flight between two ranks
 * at once differs in (use, chunk, micro-batch). */
typedef enum pt_tag_use {
    PT_TAG_ACTIVATION,
    PT_TAG_GRADIENT,
    PT_TAG_RING_KV,
    PT_TAG_RING_DKV,
    PT_TAG_USES
} pt_tag_use_t;
/* chunk < 32; index (micro-batch, ring step) counts modulo 256: at most 256 in flight
 * per (peer, use, chunk). Below 32,768, which every MPI allows. Equal (peer, tag): in
 * begin order. */
int pt_tag(pt_tag_use_t use, int chunk, int64_t index);

/* Blocks of PT_ALL_GATHER and PT_REDUCE_SCATTER: `count` elements cut over `size` ranks
 * at multiples of `granularity`, as evenly as that allows. Blocks may be unequal or
 * empty. */
typedef struct pt_rank_block {
    int64_t first, count;
} pt_rank_block_t;
pt_rank_block_t pt_rank_block(int64_t count, int64_t granularity, int rank, int size);

enum { PT_AFTER = 4 }; /* requests a transfer may come after */

typedef struct pt_transfer {
    pt_transfer_kind_t kind;
    pt_comm_t *comm;
    int peer, tag;
    /* Dense; host or device; in place where recv contains send. Sums: device. A
     * reduce-scatter may receive into its own block of send. */
    pt_tensor_t send, recv;
    int64_t granularity; /* of blocks; 0: the whole must divide into equal ones. Others need a ring */
    pt_dtype_t
        wire_dtype; /* sums: type on the wire, send's or narrower; own numbers are rounded too */
    /* ALL_TO_ALL of unequal blocks: counts and starts (elements) per rank, host arrays
     * of comm size, borrowed until end; NULL: equal blocks. */
    const int64_t *send_counts, *send_starts, *recv_counts, *recv_starts;
    bool accumulate; /* sums: add to recv */
    pt_event_t *ready; /* device work that makes `send` valid and frees `recv`; NULL: now */
    /* Requests of this engine, begun and not yet ended: this transfer starts when all
     * of them are done, so that it may read what they receive. They may be ended at any
     * time after begin. */
    int after_count;
    pt_request_t *after[PT_AFTER];
} pt_transfer_t;

/* Starts a transfer; the buffers belong to it until end. Never blocks. `ready` is an
 * event from pt_comm_mark; begin consumes it, failed or not. Local call, collective
 * meaning. Fails: INTERNAL (too many requests, staging exceeded, shapes, no ring,
 * `after` of no begun request). */
pt_status_t pt_comm_begin(const pt_transfer_t *transfer, pt_request_t **out);
/* Records an event of the engine's pool on `stream`, to be passed as `ready` of one
 * begin. Local. */
pt_status_t pt_comm_mark(pt_engine_t *engine, pt_stream_t *stream, pt_event_t **out);
/* Advances every request as far as possible without waiting. Cheap when idle (about 0.1
 * µs). Local. */
pt_status_t pt_comm_progress(pt_engine_t *engine);
/* Completes a request: blocks the host until its part on the wire is done, while
 * progressing others; orders its device part (staging in, sum) before what is enqueued
 * on `stream` next; frees the request and sets *request to NULL. Does nothing if
 * *request is NULL. */
pt_status_t pt_comm_end(pt_request_t **request, pt_stream_t *stream);

/* The only way to wait for a device inside a run: progresses transfers, then yields or
 * sleeps. */
pt_status_t pt_comm_wait_event(pt_engine_t *engine, pt_event_t *event);
pt_status_t pt_comm_wait_stream(pt_engine_t *engine, pt_stream_t *stream);

/* Around calls that block in MPI: in between, idle polls of
 * MPI's progress engine yield or sleep instead of spinning. Local; nested; per
 * thread. */
void pt_comm_blocking_begin(void);
void pt_comm_blocking_end(void);

/* ---- small blocking collectives, host memory ------------------------------------------------ */

pt_status_t pt_comm_barrier(pt_comm_t *comm);
pt_status_t pt_comm_broadcast_bytes(pt_comm_t *comm, int root, void *data,
                                    int64_t bytes);
pt_status_t pt_comm_sum_int64(pt_comm_t *comm, int64_t *values, int count);
pt_status_t pt_comm_max_int64(pt_comm_t *comm, int64_t *values, int count);
/* root receives size·bytes in rank order (`all` unused elsewhere). */
pt_status_t pt_comm_gather_bytes(pt_comm_t *comm, int root, const void *mine,
                                 int64_t bytes, void *all);

/* Agreement point: every rank passes its status (and, if it failed, its error record),
 * and all return the most severe one. All ranks take over the record of the lowest rank
 * with that status, with scope COMMON; that rank prints it once, unless `quiet` leaves
 * it to the caller. STOPPED and ABORTED are not failures: records are cleared. */
pt_status_t pt_comm_agree(pt_comm_t *comm, pt_status_t status, bool quiet);
/* The one exchange at the end of a step: merges exact sums and adds values in place on
 * all ranks, and agrees on `mine` like pt_comm_agree, in one integer reduction (an
 * error costs an agree besides). At most 16 sums and 32 values. Agreements whose number
 * depends on time use it too, and are booked under `control`. Over the world it also
 * finds out whether ranks have begun different collectives (watch.h). */
pt_status_t pt_comm_exchange(pt_comm_t *comm, pt_sum_t *sums, int sum_count,
                             int64_t *values, int value_count, pt_status_t mine);

/* Ends all ranks with this exit code, now. Never returns on MPI; on other transports
 * leaves by
 * _exit. Only main and the watchdog call it. */
void pt_transport_abort(pt_transport_t *transport, int exit_code);

/* ---- traffic counters ----------------------------------------------------------------------- */

/* Counted at begin, from this rank's point of view: payload bytes that leave for other
 * ranks, and messages: one per peer addressed (all-to-all, all-gather, broadcast at its
 * root: size-1 each; max, sum: one, payload once; nothing in a communicator of one), in
 * a ring one for each piece that is not empty. The small blocking collectives
 * count as the transfer they are (a barrier as an integer sum of nothing, a gather as
 * an all-gather that sends to the root only), agree and exchange under `control` only:
 * their number may depend on time, so no plan covers them. */
typedef struct pt_traffic_row {
    int64_t calls, messages, bytes_sent;
} pt_traffic_row_t;

typedef struct pt_traffic {
    pt_traffic_row_t rows[PT_AXIS_COUNT + 1][PT_TRANSFER_KINDS];
    pt_traffic_row_t control;
    /* Calls of pt_comm_end that blocked. */
    int64_t waits;
    /* Blocked in pt_comm_end and the small collectives, less the ops that ran there. */
    double wait_sec;
} pt_traffic_t;

const pt_traffic_t *pt_engine_traffic(const pt_engine_t *engine); /* borrowed, live */
const char *pt_transfer_kind_name(pt_transfer_kind_t kind);

#endif
