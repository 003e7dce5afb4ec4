/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — what the files of src/comm share.
 *
 *   engine.c    communicators, pools, layout        request.c  the state machine
 *   check.c     is a transfer well formed?          staging.c  host segments of device
 * tensors
 *   pieces.c    what goes through a ring            ring.c     rings, block.c blocks
 *   collect.c   small blocking collectives          traffic.c   what was sent
 *   wait.c      how to be idle                      wire*.c    MPI (mpi3.h), serial,
 * dry
 *   watch*.c    the watchdog (watch.h) */
#ifndef PT_COMM_PRIVATE_H
#define PT_COMM_PRIVATE_H

#include "src/comm/transport.h"

enum { PT_COMM_NAME = 32 };

typedef enum pt_request_state {
    PT_REQUEST_FREE,
    PT_REQUEST_READY, /* waits for its event, for what it comes after, for its staging */
    PT_REQUEST_STAGING, /* copy or cast on the device under way */
    PT_REQUEST_QUEUED,  /* waits for its turn */
    PT_REQUEST_ON_WIRE,
    PT_REQUEST_DONE
} pt_request_state_t;

/* What the watchdog knows a transfer by. number 0: it is not recorded. */
typedef struct watch_ticket {
    uint64_t number;  /* in the order of begin on this rank */
    int64_t sequence; /* of collectives of the communicator, from 1; 0: a message */
} watch_ticket_t;

/* A piece of staging, held from begin to end. bytes 0: none. */
typedef struct pt_segment {
    int64_t start, bytes;
    struct pt_segment *next; /* by start */
} pt_segment_t;

/* A piece that a device copy may still read after its end. */
typedef struct pt_guard {
    int64_t start, bytes;
    uint64_t number; /* concerns only requests begun later, which have greater ones */
    pt_event_t *event;
} pt_guard_t;

struct pt_request {
    pt_transfer_t transfer;
    pt_request_state_t state;
    uint64_t number;          /* order of begin in the engine */
    uint64_t after[PT_AFTER]; /* numbers of the requests that transfer.after names */
    int delay;                /* chaos: polls until it may be ready */
    int64_t piece; /* elements of a block that a piece carries; 0: goes as a whole */
    int64_t pieces, opened, started, landed; /* in all, and so far */
    uint64_t first_piece;                    /* its number in the ring */
    bool staged;                             /* device tensors go through host memory */
    bool marked;       /* `event` stands for device work that end has to order */
    pt_event_t *event; /* first `ready`, then of staging, then of the device part */
    pt_segment_t segment;
    char *stage_send, *stage_recv; /* in the segment */
    pt_transport_ticket_t ticket;
    watch_ticket_t watch;
    pt_request_t *previous, *next; /* active ones of the engine, in order of begin */
    pt_request_t *later;           /* in the queue of its communicator */
};

typedef struct pt_ring pt_ring_t;

/* Begun, not yet on the wire. */
typedef struct pt_queue {
    pt_request_t *first, *last;
} pt_queue_t;

/* A buffer of a ring, and the piece in it: elements [first, first + piece) of every
 * block. */
typedef struct pt_slot {
    int64_t first;
    int delay;             /* chaos: polls until it may go on the wire */
    bool marked;           /* `event` stands for device work on the buffer */
    pt_event_t *event;     /* of staging, then of the sum; NULL without device */
    char *sent, *received; /* device: rounded to the wire's type; blocks to be summed */
    int64_t stage_sent, stage_received; /* offsets in the staging of the engine */
    int64_t *counts; /* [4·size]: of send, starts of send, of recv, starts of recv; NULL: dry */
    pt_transport_ticket_t ticket;
} pt_slot_t;

/* Pieces of a communicator take the slots in turn: number n has slot n modulo slots.
 * Those of an earlier request go first, so the oldest piece never waits for a later
 * one. */
struct pt_ring {
    pt_ring_options_t options;
    uint64_t opened, started, landed; /* pieces so far */
    pt_segment_t segment;             /* of staging */
    pt_slot_t *slot;
};

struct pt_comm {
    pt_engine_t *engine;
    pt_transport_group_t *group;
    char name[PT_COMM_NAME];
    pt_axis_t axis;
    pt_queue_t collectives, messages;
    struct watch_slot *watch; /* of watch.c; NULL: not recorded */
    pt_ring_t *ring;          /* NULL: none */
};

struct pt_engine {
    pt_transport_t *transport;
    pt_device_t *device;
    pt_stream_t *stream; /* of staging copies, casts and sums; NULL without device */
    bool direct;         /* the transport may touch device memory */
    uint64_t chaos;
    pt_comm_t *world;

    pt_request_t *requests, *unused, *first,
        *last; /* pool, free list (next), active list */
    int max_requests;
    uint64_t begun;
    uint64_t moves; /* state changes so far: tells waiting from progress */

    pt_event_t **events, **all_events; /* events: the unused ones */
    int event_count, max_events;

    char *staging;
    int64_t staging_bytes, staging_peak;
    pt_segment_t *segments;
    pt_guard_t *guards;
    int guard_count;

    pt_traffic_t traffic;
};

/* engine.c */
pt_status_t pt_engine_take_event(pt_engine_t *engine, pt_event_t **out);
void pt_engine_return_event(pt_engine_t *engine, pt_event_t *event); /* NULL is fine */

/* check.c: names what is wrong. */
pt_status_t pt_transfer_check(const pt_transfer_t *transfer);
/* The tensor that says where the transfer's memory is. */
const pt_tensor_t *pt_transfer_tensor(const pt_transfer_t *transfer);

/* request.c */
pt_status_t pt_request_wait(pt_request_t *request);
void pt_request_release(pt_request_t *request);
/* Puts a move of host memory in the queue of `comm`: the small collectives. */
pt_status_t pt_request_begin_move(pt_comm_t *comm, const pt_transport_move_t *move,
                                  pt_request_t **out);
bool pt_request_has_turn(const pt_request_t *request);
void pt_request_leave_queue(pt_request_t *request);
/* Waits until nothing of `comm` waits for its turn. */
pt_status_t pt_comm_flush(pt_comm_t *comm);

/* block.c */
/* The largest block. */
int64_t pt_rank_block_most(int64_t count, int64_t granularity, int size);
/* Pieces of `piece` elements, not empty, of all blocks together. */
int64_t pt_rank_block_pieces(int64_t count, int64_t granularity, int size,
                             int64_t piece);

/* pieces.c */
/* Does a ring carry it? */
bool pt_transfer_is_sum(const pt_transfer_t *transfer);
bool pt_transfer_has_pieces(const pt_transfer_t *transfer);
pt_rank_block_t pt_transfer_block(const pt_transfer_t *transfer, int rank);
int64_t pt_transfer_granularity(const pt_transfer_t *transfer); /* at least 1 */
pt_dtype_t pt_transfer_wire_dtype(const pt_transfer_t *transfer);
void pt_pieces_count(pt_request_t *request);
/* Moves the pieces of a request as far as they go. */
pt_status_t pt_pieces_advance(pt_request_t *request);

/* ring.c */
void pt_ring_destroy(pt_comm_t *comm);

/* staging.c */
int64_t pt_staging_aligned(int64_t bytes);
void pt_staging_insert(pt_engine_t *engine, pt_segment_t *segment);
void pt_staging_remove(pt_engine_t *engine, pt_segment_t *segment);
pt_status_t pt_staging_take(pt_request_t *request);
pt_status_t pt_staging_is_vacant(pt_request_t *request, bool *vacant);
pt_status_t pt_staging_release(pt_request_t *request);
pt_status_t pt_staging_out(pt_request_t *request);
pt_status_t pt_staging_in(pt_request_t *request);

/* traffic.c: books a begin; counts what leaves this rank. */
void pt_traffic_book(const pt_request_t *request);
void pt_traffic_book_small(pt_comm_t *comm, const pt_transport_move_t *move);
void pt_traffic_book_control(pt_comm_t *comm, int64_t messages, int64_t bytes);

/* watch.c: records of what this rank begins and waits for. Operations beside
 * pt_transfer_kind_t and those of transport.h: */
enum {
    WATCH_SPLIT = PT_TRANSPORT_GATHER + 1,
    WATCH_FREE,
    WATCH_FINALIZE,
    WATCH_DEVICE /* waits for its own device */
};
/* A new communicator, made of `parent` (NULL: the world) with this color; its end. */
void watch_join(pt_comm_t *comm, const pt_comm_t *parent, int color);
void watch_leave(pt_comm_t *comm);
void watch_begin_request(pt_request_t *request);
void watch_on_wire(watch_ticket_t ticket);
void watch_done(const pt_comm_t *comm, watch_ticket_t ticket);
/* From here to watch_waited this rank does nothing but wait. */
void watch_wait_request(const pt_request_t *request);
void watch_wait_device(void);
void watch_waited(void);
/* Around a collective call that blocks in MPI. */
watch_ticket_t watch_block(const pt_comm_t *comm, int kind);
void watch_blocked(const pt_comm_t *comm, watch_ticket_t ticket);
/* A failure injected into this collective, at the site of the phase this rank is in:
 * shortens a block of `move`; true: it is left out. */
bool watch_inject(const pt_comm_t *comm, pt_transport_move_t *move);
/* Asks the watching threads to compare the records. */
void watch_ask(void);
/* Releases the records. */
void watch_forget(void);

/* wait.c: one loop that waits holds one of these, zeroed. */
typedef struct pt_idle {
    int polls;
    uint64_t activity;
} pt_idle_t;

/* Called after each poll that found nothing done: spins once, yields, then sleeps.
 * `moves`: a counter of the caller's own progress. */
void pt_wait_idle(pt_idle_t *idle, uint64_t moves);
/* From the hook below the MPI library: its progress engine was polled and moved or
 * not. */
void pt_wait_polled(bool moved);
/* Ranks on this host and the cores they may use together; decides how early to
 * sleep. */
void pt_wait_set_ranks(int ranks_on_host, int cores);

#endif
