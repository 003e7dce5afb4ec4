/* SPDX-License-Identifier: Apache-2.0 */
/* log.h — lines for people (layer: base).
 *
 * One line = UTC date and time as in status.json, rank, step, text; lower case, cause not guess. Levels are defined by what
 * may appear at 1,000 ranks: ERROR nothing in a clean run; WARN a few lines a run; INFO a few
 * lines a step from rank 0; DEBUG anything. Lines go to stderr; results of commands and the
 * training lines go to stdout by src/cmd and src/train only.
 *
 * Mutable globals of Penta, all of them: the log context (level, rank, host, where), the error
 * record of status.h, how often a warning was due, the seal and the byte count of alloc, the list of injected failures, how
 * comm waits (src/comm/wait.c), the watchdog's records and thread (src/comm/watch*.c), and the stop flag of train. */
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

/* Who speaks: rank and size of the job, host name. main calls it once after MPI_Init;
 * before that rank is 0 of 1. */
void pt_log_set_rank(int rank, int size, const char *host);
void pt_log_set_level(pt_log_level_t level);
/* Borrowed; NULL: none. Read whenever a line or an error is made. */
void pt_log_set_where(const pt_where_t *where);
const pt_where_t *pt_log_where(void); /* never NULL */
int pt_log_rank(void);
int pt_log_size(void);
const char *pt_log_host(void);

/* Of what repeats: the first, second, fourth, eighth … time is worth a line. */
static inline bool pt_log_is_due(int64_t count)
{
    return (count & (count - 1)) == 0;
}

/* Rank 0 only. */
void pt_log_root(pt_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Every rank that calls it. */
void pt_log_all(pt_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Every rank that calls it, from any thread: `step` instead of that of the context. */
void pt_log_at(pt_log_level_t level, int64_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
