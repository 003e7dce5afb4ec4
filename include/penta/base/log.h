/* SPDX-License-Identifier: Apache-2.0 */
/* log.h — log lines for people (layer: base).
 *
 * A line contains UTC date and time as in status.json, rank, step and text. The text is
 * in lower case and names the cause, not a guess. Each level is defined by how much may
 * appear at 1,000 ranks: ERROR nothing in a clean run; WARN a few lines per run; INFO a
 * few lines per step from rank 0; DEBUG anything. Lines go to stderr. Only src/cmd and
 * src/train print to stdout: results of commands and the lines of training.
 *
 * These are all mutable globals of Penta: the log context (level, rank, host, where),
 * the error record of status.h, the counts of repeated warnings, the seal and the byte
 * count of alloc, the list of injected failures, how comm waits (src/comm/wait.c), the
 * watchdog's records and thread (src/comm/watch*.c), and the stop flag of train. */
#ifndef PENTA_LOG_H
#define PENTA_LOG_H

#include "penta/base/where.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum pt_log_level {
    PT_LOG_ERROR,
    PT_LOG_WARN,
    PT_LOG_INFO,
    PT_LOG_DEBUG
} pt_log_level_t;

/* Sets rank and size of the job and the host name for all lines. main calls it once
 * after MPI_Init; before that, this is rank 0 of 1. */
void pt_log_set_rank(int rank, int size, const char *host);
void pt_log_set_level(pt_log_level_t level);
/* Sets what is read whenever a line or an error is made. Borrowed; NULL: none. */
void pt_log_set_where(const pt_where_t *where);
const pt_where_t *pt_log_where(void); /* never NULL */
int pt_log_rank(void);
int pt_log_size(void);
const char *pt_log_host(void);

/* Whether to log the `count`-th repetition of an event: the first, second, fourth,
 * eighth … */
static inline bool pt_log_is_due(int64_t count)
{
    return (count & (count - 1)) == 0;
}

/* Logs on rank 0 only. */
void pt_log_root(pt_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs on every rank that calls it. */
void pt_log_all(pt_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs on every rank that calls it, from any thread, with `step` instead of the step of
 * the context. */
void pt_log_at(pt_log_level_t level, int64_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
