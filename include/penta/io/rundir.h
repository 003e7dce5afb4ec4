/* SPDX-License-Identifier: Apache-2.0 */
/* rundir.h — files of a run directory (layer: io). Rank 0 only, all Local.
 *
 * config.resolved.ini, hosts.txt, metrics.jsonl, timing.json, summary.json, status.json, run.lock, checkpoints/. Whole files
 * are written beside and renamed, so readers never see half a file. */
#ifndef PENTA_RUNDIR_H
#define PENTA_RUNDIR_H

#include "penta/base/status.h"
#include <jansson.h>
#include <stdint.h>

/* Makes the directory and checkpoints/ (parents too), checks it is writable, and takes the lock
 * file (a second live run in the same directory is CONFIG, naming host and pid; the lock of
 * another host that nobody holds is taken over with a warning; one that the file system still
 * holds is waited for, a minute at most). */
typedef struct pt_rundir pt_rundir_t;
pt_status_t pt_rundir_open(const char *path, pt_rundir_t **out);
/* The same without waiting. */
pt_status_t pt_rundir_open_at_once(const char *path, pt_rundir_t **out);
void pt_rundir_close(pt_rundir_t *dir);
/* Before writing: has a run on another host, whose file system cannot tell it that we live, taken
 * over meanwhile? CONFIG, naming it. A lock file that was removed by hand is made again. */
pt_status_t pt_rundir_check_owner(pt_rundir_t *dir);
/* Before a save: makes checkpoints/ again, with a warning, when somebody removed it meanwhile. */
pt_status_t pt_rundir_restore(const pt_rundir_t *dir);
const char *pt_rundir_path(const pt_rundir_t *dir);
const char *pt_rundir_checkpoints(const pt_rundir_t *dir);

/* Whole file by write-beside, fsync, rename, fsync of the directory. */
pt_status_t pt_file_write(const char *path, const char *text);
/* The last size - 1 bytes of a regular file (a pipe is not waited for), terminated; "" and not *found where there
 * is none. Fails: IO (common: for tools). */
pt_status_t pt_file_read_tail(const char *path, char *text, size_t size, bool *found);
/* What a small file holds; NULL: it cannot be read so, or is no JSON. The caller's. The error record stays as it is. */
json_t *pt_json_read(const char *path);
pt_status_t pt_rundir_write(pt_rundir_t *dir, const char *name, const char *text);
pt_status_t pt_rundir_write_json(pt_rundir_t *dir, const char *name,
                                 json_t *object); /* steals */

/* A JSON text of any bytes, such as a file's name: what is no UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *pt_json_text(const char *text);

/* metrics.jsonl: one object a line. Opening drops lines of steps > last_step (and a torn last line). */
pt_status_t pt_rundir_open_metrics(pt_rundir_t *dir, int64_t last_step);
pt_status_t pt_rundir_add_metrics(pt_rundir_t *dir,
                                  json_t *object); /* steals; one write, flushed */

/* Why a run stops early. */
typedef enum pt_stop_reason {
    PT_STOP_NOT,
#define PT_STOP_REASON(name, word) PT_STOP_##name,
#include "penta/io/stop_reason.def"
#undef PT_STOP_REASON
    PT_STOP_REASONS
} pt_stop_reason_t;

/* Its word in status.json and summary.json, null for NOT. */
json_t *pt_stop_reason_json(pt_stop_reason_t reason);
/* The reason of such a word; NOT where it is null or no reason. */
pt_stop_reason_t pt_stop_reason_of(const json_t *word);
/* Does somebody want the run to end here? */
static inline bool pt_stop_reason_is_wanted(pt_stop_reason_t reason)
{
    return reason >= PT_STOP_STOP_FILE;
}

/* What status.json says beside the error record and the place of the log context. */
typedef struct pt_run_status {
    bool is_running;     /* the heartbeat of a run at work: `status` does not count */
    pt_status_t status;  /* how it ended */
    const char *message; /* NULL: that of the error record */
    pt_stop_reason_t reason;
    int64_t step, steps;     /* done; train.steps */
    int64_t checkpoint_step; /* of the newest published checkpoint, -1: none */
    int64_t ranks;
    double started; /* pt_clock_wall when the run began */
} pt_run_status_t;
enum { PT_STATUS_BYTES = 1 << 14 };
/* The text of such a file; false: it does not fit. */
bool pt_status_text(const pt_run_status_t *what, char text[PT_STATUS_BYTES]);
/* status.json in directory `path`: doc/formats/rundir.md. Works on any rank and without an open run
 * directory (a missing directory is not made: silently nothing). The heartbeat is renamed into place
 * without fsync and allocates nothing with pt_alloc; the end is durable. False: it could not be written,
 * errno says why. The error record stays as it is. */
bool pt_status_write(const char *path, const pt_run_status_t *what);
/* Keeps room (status.reserve) for the end in status.json, should the disk be full by then; gives it back. Rank 0. */
void pt_status_reserve(const char *directory);
void pt_status_release(const char *directory);
/* The newest published checkpoint, as a status.json of an earlier start tells; -1: none, or no such file. */
int64_t pt_status_checkpoint_step(const char *directory);

#endif
