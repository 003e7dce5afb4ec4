/* SPDX-License-Identifier: Apache-2.0 */
/* rundir.h — files of a run directory (layer: io). Rank 0 only; all Local.
 *
 * config.resolved.ini, hosts.txt, metrics.jsonl, timing.json, summary.json,
 * status.json, run.lock, checkpoints/. A file is written under a temporary name and
 * renamed, so readers never see an incomplete file. */
#ifndef PENTA_RUNDIR_H
#define PENTA_RUNDIR_H

#include "penta/base/status.h"
#include <jansson.h>
#include <stdint.h>

/* Creates the directory with checkpoints/ and parents, checks that it is writable, and
 * takes the lock.
 * A lock that no process holds is taken over with a warning. If the file system still
 * holds the lock of another host, waits for a minute at most.
 * Fails: IO, CONFIG (another live run uses the directory, naming host and pid). */
typedef struct pt_rundir pt_rundir_t;
pt_status_t pt_rundir_open(const char *path, pt_rundir_t **out);
/* The same without waiting. */
pt_status_t pt_rundir_open_at_once(const char *path, pt_rundir_t **out);
void pt_rundir_close(pt_rundir_t *dir);
/* Checks before writing that no run on another host has taken over the directory; a
 * file system without locks across hosts allows that. Replaces a lock file removed by
 * hand.
 * Fails: CONFIG, naming the other run. */
pt_status_t pt_rundir_check_owner(pt_rundir_t *dir);
/* Creates checkpoints/ again before a save, with a warning, if it was removed
 * meanwhile. */
pt_status_t pt_rundir_restore(const pt_rundir_t *dir);
const char *pt_rundir_path(const pt_rundir_t *dir);
const char *pt_rundir_checkpoints(const pt_rundir_t *dir);

/* Writes a file durably: temporary file, fsync, rename, fsync of the directory. */
pt_status_t pt_file_write(const char *path, const char *text);
/* Reads the end of a regular file. Does not wait for the writer of a pipe.
 * text: [out] the last size - 1 bytes, NUL-terminated; "" if there is no file.
 * found: [out] whether the file exists.
 * Fails: IO (common, for tools). */
pt_status_t pt_file_read_tail(const char *path, char *text, size_t size, bool *found);
/* The JSON value of a small file, owned by the caller. NULL: it cannot be read, or is
 * not JSON. The error record is unchanged. */
json_t *pt_json_read(const char *path);
pt_status_t pt_rundir_write(pt_rundir_t *dir, const char *name, const char *text);
pt_status_t pt_rundir_write_json(pt_rundir_t *dir, const char *name,
                                 json_t *object); /* takes ownership */

/* A JSON string of arbitrary bytes, such as a file name; invalid UTF-8 becomes U+FFFD.
 * NULL: out of memory. */
json_t *pt_json_text(const char *text);

/* Opens metrics.jsonl, one object per line, and drops lines of steps > last_step and an
 * incomplete last line. */
pt_status_t pt_rundir_open_metrics(pt_rundir_t *dir, int64_t last_step);
pt_status_t pt_rundir_add_metrics(pt_rundir_t *dir,
                                  json_t *object); /* takes ownership; one write */

/* Reason of an early stop. */
typedef enum pt_stop_reason {
    PT_STOP_NOT,
#define PT_STOP_REASON(name, word) PT_STOP_##name,
#include "penta/io/stop_reason.def"
#undef PT_STOP_REASON
    PT_STOP_REASONS
} pt_stop_reason_t;

/* Word of a reason in status.json and summary.json; null for NOT. */
json_t *pt_stop_reason_json(pt_stop_reason_t reason);
/* Reason of a word; NOT: null, or unknown. */
pt_stop_reason_t pt_stop_reason_of(const json_t *word);
/* Whether the user wants the run to end here. */
static inline bool pt_stop_reason_is_wanted(pt_stop_reason_t reason)
{
    return reason >= PT_STOP_STOP_FILE;
}

/* Content of status.json, in addition to the error record and the log context. */
typedef struct pt_run_status {
    bool is_running;     /* heartbeat of a running job; `status` is ignored */
    pt_status_t status;  /* status at the end */
    const char *message; /* NULL: message of the error record */
    pt_stop_reason_t reason;
    int64_t step, steps;     /* steps done; train.steps */
    int64_t checkpoint_step; /* of the newest published checkpoint; -1: none */
    int64_t ranks;
    double started; /* pt_clock_wall at the start of the run */
} pt_run_status_t;
enum { PT_STATUS_BYTES = 1 << 14 };
/* Writes the text of status.json to `text`; false: it does not fit. */
bool pt_status_text(const pt_run_status_t *what, char text[PT_STATUS_BYTES]);
/* Writes status.json to a directory (doc/formats/rundir.md). Works on any rank and
 * without an open run directory; does nothing if the directory is missing. The
 * heartbeat is renamed without fsync and does not call pt_alloc; the final status is
 * durable. The error record is unchanged.
 * Returns false if it cannot be written; errno gives the reason. */
bool pt_status_write(const char *path, const pt_run_status_t *what);
/* Reserves disk space (status.reserve) for the final status.json, in case the disk is
 * full by then; and releases it. Rank 0. */
void pt_status_reserve(const char *directory);
void pt_status_release(const char *directory);
/* Step of the newest published checkpoint, from status.json of an earlier start; -1:
 * none, or no such file. */
int64_t pt_status_checkpoint_step(const char *directory);

#endif
