/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h — what carries bytes between ranks (private to src/comm).
 *
 * A thin table: start one transfer of raw memory without blocking, ask whether it is
 * done, make and free groups. It knows no devices, queues or ledgers. Three
 * implementations: MPI, serial (one rank) and dry (nothing moves). */
#ifndef PT_COMM_WIRE_H
#define PT_COMM_WIRE_H

#include "penta/comm/comm.h"

/* What the small collectives need beside pt_transfer_kind_t. */
enum { PT_TRANSPORT_BARRIER = PT_TRANSFER_KINDS, PT_TRANSPORT_GATHER };

enum { PT_TRANSPORT_PIECES = 16 };

/* A communicator as the transport sees it; first member of the transport's own
 * struct. */
typedef struct pt_transport_group {
    int rank, size;
} pt_transport_group_t;

/* Sums never come here: the engine makes them of all-to-alls and gathers. `send` equal
 * to its place in `recv` means in place. Starts and counts (elements) must live until
 * it is done; an all-gather of unequal blocks has those of recv only, and `count` of
 * its own. */
typedef struct pt_transport_move {
    int kind; /* pt_transfer_kind_t or one of the above */
    int peer, tag;
    pt_dtype_t dtype;
    int64_t count; /* elements of one block: gathers, all-to-all; else of the whole */
    const void *send;
    void *recv;
    const int64_t *send_counts, *send_starts, *recv_counts, *recv_starts;
    int *room; /* [4·size], for libraries whose counts are int; NULL: the group has some for one */
} pt_transport_move_t;

/* A transfer under way; stays where it is from start until it is done. */
typedef struct pt_transport_ticket {
    pt_transport_move_t move;
    pt_transport_group_t *group;
    int64_t handles[PT_TRANSPORT_PIECES]; /* MPI's requests: one, or one a piece */
    int pieces;
    struct pt_transport_ticket *next; /* serial: of those without a partner */
    bool done;
} pt_transport_ticket_t;

typedef struct pt_transport_ops {
    const char *name;
    void (*close)(pt_transport_t *transport); /* makes no MPI call after a fatal error */
    /* Collective over `parent`; `*out` NULL for a negative color. */
    pt_status_t (*split)(pt_transport_t *transport, pt_transport_group_t *parent,
                         pt_comm_place_t place, const char *name,
                         pt_transport_group_t **out);
    void (*free_group)(pt_transport_t *transport,
                       pt_transport_group_t *group); /* like close */
    /* Of ticket->move over ticket->group. */
    pt_status_t (*start)(pt_transport_t *transport, pt_transport_ticket_t *ticket);
    pt_status_t (*test)(pt_transport_t *transport, pt_transport_ticket_t *ticket,
                        bool *done);
    void *(*mpi)(pt_transport_group_t *group); /* pointer to the MPI_Comm, or NULL */
    void (*abort)(pt_transport_t *transport, int exit_code);
} pt_transport_ops_t;

struct pt_transport {
    const pt_transport_ops_t *ops;
    pt_transport_group_t *world;
    bool moves_data;   /* false: dry, pointers may be NULL */
    int ranks_on_host; /* that share this host's memory; 0: not known, so 1 */
    int rank_on_host;
};

/* For transports without ranks to split. */
pt_status_t pt_transport_group_new(int rank, int size, pt_transport_group_t **out);
/* Leaves by _exit. */
void pt_transport_leave(pt_transport_t *transport, int exit_code);

#endif
