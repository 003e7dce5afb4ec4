/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h — the watchdog: what each rank is doing, and which rank delays the others
 * (layer: comm).
 *
 * Each rank records its transfers (communicator, sequence number, operation, bytes,
 * peer, place in the run; when it was begun, put on the wire and completed) in memory
 * shared by the ranks of a host. Where ranks cannot share memory, each one sees only
 * its own records.
 *
 * A thread of each rank inspects these records about once a second. The only MPI
 * function it calls is MPI_Abort. When no transfer has advanced for a given time, it
 * follows the waiting ranks to the one that does not take part, reports it and ends the
 * run: HANG. Ranks that have begun different collectives are reported as a defect of
 * the program: INTERNAL.
 *
 * The thread that uses the engine writes the records. Before pt_watch_open, and on
 * transports other than MPI, every call here does nothing. State is global: one process
 * is one rank. */
#ifndef PENTA_WATCH_H
#define PENTA_WATCH_H

#include "penta/comm/comm.h"

/* Begins to keep records. Takes part in a broadcast and an agreement over the
 * transport's world. transport: its communicators are recorded.
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
    double timeout_sec; /* 0: no watchdog */
    const char *
        directory; /* visible to all hosts; copied. During a hang each host writes its records to
                              DIRECTORY/hang */
    /* Called on one rank, in the watching thread, before all ranks are ended. `report`
     * is borrowed. NULL: none. */
    void (*tell)(void *self, const pt_watch_report_t *report);
    /* Writes the host of a rank without visible records to `host`, "" if it is not
     * known. Called like tell. NULL: none. */
    void (*find_host)(void *self, int rank, char *host, size_t size);
    void *self; /* borrowed until the next start, or close */
} pt_watch_options_t;

/* Until the options of a run are known. */
enum { PT_WATCH_DEFAULT_SEC = 600 };

/* Starts the thread, or gives it other options. A thread that cannot be started is a
 * warning. Local. */
void pt_watch_start(const pt_watch_options_t *options);

/* Multiple of the timeout that a rank may take in set-up, load, data, evaluation, save
 * and finish, and after pt_watch_be_patient(true) (the first step). */
enum { PT_WATCH_PATIENCE = 3 };
void pt_watch_be_patient(bool patient);

/* Records what this rank does besides transfers, such as "reading data": a static text
 * of at most 23 characters; NULL: nothing in particular. Counts as progress. Local. */
void pt_watch_mark(const char *doing);
/* Counts as progress, and records where in the run this rank is. About 10 ns. Local. */
void pt_watch_beat(void);
/* To be called before MPI_Finalize, in which ranks wait for each other, too. Local. */
void pt_watch_finish(void);

/* Returns a number whose sum over the world (modulo 2^64) is 0 as long as the members
 * of each communicator have begun the same collectives on it. */
int64_t pt_watch_signature(void);
/* To be called by all ranks of the world when the signatures do not sum to 0. Compares
 * the records and ends the run with a message that names ranks and operations. Returns
 * only without a watchdog: INTERNAL, common. */
pt_status_t pt_watch_disagree(void);
/* To be called after MPI has reported an error. If records of this host differ, records
 * that as the error instead. Returns `status`. Local. */
pt_status_t pt_watch_explain(pt_status_t status);

#endif
