/* SPDX-License-Identifier: Apache-2.0 */
/* status.h — how calls fail (layer: base).
 *
 * Every call that can fail returns pt_status_t. The first detector raises: it records code,
 * place and text in the error record of this thread and returns the code; everyone above
 * passes it up with PT_TRY. Nothing is printed on the way. A record is printed once: by
 * main, by an agreement point (pt_comm_agree: the lowest failing rank speaks), or by a
 * caller that recovers (pt_error_warn).
 *
 * Scope says who knows: COMMON errors are computed equally by every rank of the run (rank 0
 * prints, clean exit); LOCAL ones are known to this rank only, and are fatal unless they
 * reach an agreement point, which makes them COMMON.  Kinds: doc/errors.md. */
#ifndef PENTA_STATUS_H
#define PENTA_STATUS_H

#include "penta/base/where.h"
#include <stdbool.h>

typedef enum pt_status {
#define PT_STATUS(name, code, sentence) PT_##name,
#include "penta/base/status.def"
#undef PT_STATUS
    PT_STATUS_COUNT
} pt_status_t;

typedef enum pt_scope { PT_SCOPE_LOCAL, PT_SCOPE_COMMON } pt_scope_t;

enum { PT_ERROR_TEXT = 2048, PT_ERROR_TRACE = 16 };

typedef struct pt_error {
    pt_status_t status; /* PT_OK: no error recorded */
    pt_scope_t scope;
    bool reported; /* printed already, here or on the rank that speaks */
    int os_error; /* errno of the system call that failed; 0: none did, or it is not known */
    pt_where_t where;
    char text[PT_ERROR_TEXT]; /* what, where, what to do; no trailing newline */
    int depth;                /* valid entries of trace, innermost first */
    struct {
        const char *file;
        int line;
    } trace[PT_ERROR_TRACE];
} pt_error_t;

int pt_status_exit_code(pt_status_t status);
const char *pt_status_name(pt_status_t status);     /* "CONFIG" */
const char *pt_status_sentence(pt_status_t status); /* "wrong usage or configuration" */

/* Records the error unless an unreported one is already recorded (the first is the cause);
 * returns `status`. %m in the format is what os_error means. Use the macros. */
pt_status_t pt_error_raise(pt_status_t status, pt_scope_t scope, int os_error,
                           const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Adds a place to the trace of the current error; returns `status`. */
pt_status_t pt_error_trace(pt_status_t status, const char *file, int line);
/* The record of this thread; never NULL. Borrowed; valid until the next raise or clear. */
const pt_error_t *pt_error_last(void);
/* Replaces the record, for agreement points that learn of another rank's error. */
void pt_error_set(const pt_error_t *error);
void pt_error_clear(void);
/* A LOCAL error is recorded: other ranks do not know. From here to pt_transport_abort no MPI call. */
bool pt_error_is_fatal(void);
/* Prints the record, once: an error line with place and, when local, host (common ones on
 * rank 0 only), at debug level its trace. Marks it reported. Nothing when there is none. */
void pt_error_print(void);
/* Prints "PREFIX: text" as a warning and clears the record: the caller recovered. */
void pt_error_warn(const char *prefix);
/* The same for what may fail again and again: only the first, second, fourth, eighth … of one prefix, a string that
 * lasts, is printed. Main thread only. */
void pt_error_warn_seldom(const char *prefix);

#define PT_FAIL(status_, ...)        PT_FAIL_OS(status_, 0, __VA_ARGS__)
#define PT_FAIL_COMMON(status_, ...) PT_FAIL_COMMON_OS(status_, 0, __VA_ARGS__)
/* After a system call that failed with errno_. */
#define PT_FAIL_OS(status_, errno_, ...)                                               \
    pt_error_raise((status_), PT_SCOPE_LOCAL, (errno_), __FILE__, __LINE__, __VA_ARGS__)
#define PT_FAIL_COMMON_OS(status_, errno_, ...)                                        \
    pt_error_raise((status_), PT_SCOPE_COMMON, (errno_), __FILE__, __LINE__,           \
                   __VA_ARGS__)

/* Returns from the calling function when `call` fails. */
#define PT_TRY(call)                                                                   \
    do {                                                                               \
        pt_status_t try_ = (call);                                                     \
        if (try_ != PT_OK)                                                             \
            return pt_error_trace(try_, __FILE__, __LINE__);                           \
    } while (0)
/* Same with cleanup: needs a local `pt_status_t status`. */
#define PT_TRY_GOTO(label, call)                                                       \
    do {                                                                               \
        status = (call);                                                               \
        if (status != PT_OK) {                                                         \
            (void)pt_error_trace(status, __FILE__, __LINE__);                          \
            goto label;                                                                \
        }                                                                              \
    } while (0)
/* Raises and returns unless `cond` holds. */
#define PT_CHECK(cond, status_, ...) PT_CHECK_OS(cond, status_, 0, __VA_ARGS__)
#define PT_CHECK_COMMON(cond, status_, ...)                                            \
    PT_CHECK_COMMON_OS(cond, status_, 0, __VA_ARGS__)
#define PT_CHECK_OS(cond, status_, errno_, ...)                                        \
    do {                                                                               \
        if (!(cond))                                                                   \
            return PT_FAIL_OS((status_), (errno_), __VA_ARGS__);                       \
    } while (0)
#define PT_CHECK_COMMON_OS(cond, status_, errno_, ...)                                 \
    do {                                                                               \
        if (!(cond))                                                                   \
            return PT_FAIL_COMMON_OS((status_), (errno_), __VA_ARGS__);                \
    } while (0)
/* For our own bugs: always on, INTERNAL, names the condition. Cheap conditions only. */
#define PT_REQUIRE(cond) PT_CHECK(cond, PT_INTERNAL, "violated: %s", #cond)

#endif
