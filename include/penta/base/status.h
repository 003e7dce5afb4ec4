/* SPDX-License-Identifier: Apache-2.0 */
/* status.h — how calls fail (layer: base).
 *
 * Every call that can fail returns pt_status_t. The function that detects an error
 * raises it: it records status, source line and text in the error record of this thread
 * and returns the status. All callers pass it up with PT_TRY. Nothing is printed on the
 * way. A record is printed once: by main, by an agreement point (pt_comm_agree: the
 * lowest failing rank prints), or by a caller that recovers (pt_error_warn).
 *
 * The scope says which ranks know of the error. Every rank of the run detects a COMMON
 * error with the same status (rank 0 prints it, and the run ends cleanly). Only this
 * rank knows of a LOCAL error; it is fatal unless it reaches an agreement point, which
 * makes it COMMON. doc/errors.md describes the kinds. */
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
    bool reported; /* already printed, here or on the rank that prints it */
    int os_error;  /* errno of the failed system call; 0: none, or unknown */
    pt_where_t where;
    char text[PT_ERROR_TEXT]; /* what happened, where, what to do; no final newline */
    int depth;                /* valid entries of trace, innermost first */
    struct {
        const char *file;
        int line;
    } trace[PT_ERROR_TRACE];
} pt_error_t;

int pt_status_exit_code(pt_status_t status);
const char *pt_status_name(pt_status_t status);     /* "CONFIG" */
const char *pt_status_sentence(pt_status_t status); /* "wrong usage or configuration" */

/* Records an error, unless an unreported one is already recorded, which is then the
 * cause. Returns `status`. %m in the format prints os_error. Use the macros below. */
pt_status_t pt_error_raise(pt_status_t status, pt_scope_t scope, int os_error,
                           const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Adds a source line to the trace of the current error. Returns `status`. */
pt_status_t pt_error_trace(pt_status_t status, const char *file, int line);
/* Returns the record of this thread, never NULL. Borrowed; valid until the next raise
 * or clear. */
const pt_error_t *pt_error_last(void);
/* Replaces the record: agreement points use it for the error of another rank. */
void pt_error_set(const pt_error_t *error);
void pt_error_clear(void);
/* Whether a LOCAL error is recorded, which other ranks do not know of. If so, no MPI
 * call may follow before pt_transport_abort. */
bool pt_error_is_fatal(void);
/* Prints the record once and marks it reported: an error line with its place and, if
 * local, the host; at debug level also the trace. Only rank 0 prints common errors.
 * Prints nothing if no error is recorded. */
void pt_error_print(void);
/* Prints "PREFIX: text" as a warning and clears the record, for a caller that
 * recovers. */
void pt_error_warn(const char *prefix);
/* The same for failures that may repeat: prints only the first, second, fourth, eighth
 * … of a prefix. `prefix` must remain valid (a literal). Main thread only. */
void pt_error_warn_seldom(const char *prefix);

#define PT_FAIL(status_, ...)        PT_FAIL_OS(status_, 0, __VA_ARGS__)
#define PT_FAIL_COMMON(status_, ...) PT_FAIL_COMMON_OS(status_, 0, __VA_ARGS__)
/* After a system call that failed with errno_. */
#define PT_FAIL_OS(status_, errno_, ...)                                               \
    pt_error_raise((status_), PT_SCOPE_LOCAL, (errno_), __FILE__, __LINE__, __VA_ARGS__)
#define PT_FAIL_COMMON_OS(status_, errno_, ...)                                        \
    pt_error_raise((status_), PT_SCOPE_COMMON, (errno_), __FILE__, __LINE__,           \
                   __VA_ARGS__)

/* Returns from the calling function if `call` fails. */
#define PT_TRY(call)                                                                   \
    do {                                                                               \
        pt_status_t try_ = (call);                                                     \
        if (try_ != PT_OK)                                                             \
            return pt_error_trace(try_, __FILE__, __LINE__);                           \
    } while (0)
/* The same, but jumps to a cleanup label; needs a local `pt_status_t status`. */
#define PT_TRY_GOTO(label, call)                                                       \
    do {                                                                               \
        status = (call);                                                               \
        if (status != PT_OK) {                                                         \
            (void)pt_error_trace(status, __FILE__, __LINE__);                          \
            goto label;                                                                \
        }                                                                              \
    } while (0)
/* Raises an error and returns unless `cond` holds. */
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
/* Detects bugs of Penta: raises INTERNAL, naming the condition. Active in every build,
 * so use it for cheap conditions only. */
#define PT_REQUIRE(cond) PT_CHECK(cond, PT_INTERNAL, "violated: %s", #cond)

#endif
