/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h — the watchdog: what each rank is doing, and who holds up the others (layer: comm).
 *
 * Each rank keeps a record of its transfers (communicator, number on it, operation, bytes, peer,
 * place in the run; when it was begun, put on the wire and done) in memory that the ranks of a
 * host share. Where they cannot share memory, each rank sees only its own records.
 *
 * A thread of each rank looks at these records about once a second. It calls no MPI function but
 * MPI_Abort. When nothing moves for a given time, it follows who waits for whom to the rank that
 * does not come, reports it and ends the run: HANG. Ranks that have begun different collectives
 * are reported as a defect of the program: INTERNAL.
 *
 * Records are written by the thread that uses the engine. Before pt_watch_open and on other
 * transports than MPI every call here does nothing. State is global: one process is one rank. */
#ifndef PENTA_WATCH_H
#define PENTA_WATCH_H

#include "penta/comm/comm.h"

/* Begins to keep records. Takes part in a broadcast and an agreement over the transport's world.
 * wire: its communicators are recorded.
 * abort: ends all ranks of the job with this exit code; called from another thread.
 * Collective (world). Fails: MEMORY. */
pt_status_t pt_watch_open(pt_transport_t *transport, void (*abort)(int exit_code));
/* Ends the thread and forgets the records. After MPI_Finalize. Local. */
void pt_watch_close(void);

/* What the thread has found when it ends the run. */
typedef struct pt_watch_report {
    pt_status_t status; /* HANG or INTERNAL */
    const char *text;   /* one message for people */
    const char *table;  /* a line for each known rank: what it does */
    int rank;           /* the rank the message is about */
    const char *host;   /* its host, "" when not known */
    pt_where_t where;   /* where that rank is */
} pt_watch_report_t;

typedef struct pt_watch_options {
    double timeout_sec;    /* 0: nobody watches */
    const char *directory; /* copied: a directory that all hosts see; hosts leave what they
                              know in DIRECTORY/hang when nothing moves */
    /* Called on one rank, in the watching thread, before all ranks are ended. `report` is
     * borrowed. NULL: none. */
    void (*tell)(void *self, const pt_watch_report_t *report);
    /* The host of a rank of which nothing is seen: into host, "" where it is not known. Called like tell. NULL: none. */
    void (*find_host)(void *self, int rank, char *host, size_t size);
    void *self; /* borrowed until the next start, or close */
} pt_watch_options_t;

/* Until the options of a run are known. */
enum { PT_WATCH_DEFAULT_SEC = 600 };

/* Starts the thread, or gives it other options. A thread that cannot be started is a warning.
 * Local. */
void pt_watch_start(const pt_watch_options_t *options);

/* How many times the timeout a rank may stand still: in set-up, load, data, evaluation, save and
 * finish, and while pt_watch_be_patient(true) holds (the first step). */
enum { PT_WATCH_PATIENCE = 3 };
void pt_watch_be_patient(bool patient);

/* Says what this rank does now beside transfers, such as "reading data": a static text of at most
 * 23 characters; NULL: nothing particular. Counts as a movement. Local. */
void pt_watch_mark(const char *doing);
/* Counts a movement, and notes where in the run this rank is. About 10 ns. Local. */
void pt_watch_beat(void);
/* Before MPI_Finalize, in which ranks wait for each other, too. Local. */
void pt_watch_finish(void);

/* A number that is 0 when added up over the world (modulo 2^64), as long as the members of each
 * communicator have begun the same collectives on it. */
int64_t pt_watch_signature(void);
/* The signatures did not add up to 0. The records are compared, and the run is ended with a
 * message that names ranks and operations. Returns only where nobody watches: INTERNAL, common.
 * All ranks of the world. */
pt_status_t pt_watch_disagree(void);
/* After MPI has reported an error: when records of this host differ, that is recorded as the
 * error instead. Returns `status`. Local. */
pt_status_t pt_watch_explain(pt_status_t status);

#endif
