/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h — DIRECTORY/run.lock: one live run per directory (private to io). All
 * Local. */
#ifndef PT_IO_LOCK_H
#define PT_IO_LOCK_H

#include "penta/base/status.h"

#include <stdint.h>

typedef struct pt_lock {
    const char *directory; /* borrowed, for messages */
    char *path;
    int fd;      /* -1: not held */
    uint64_t id; /* of this run, random: host names change, pids repeat */
} pt_lock_t;

/* Takes the lock. A lock that no process holds is taken over with a warning.
 * wait_sec: how long to wait for a lock that the file system still holds for a run
 *   whose state is unknown here, such as a dead run on another host.
 * out: [out] to be released, also after a failure.
 * Fails: IO, CONFIG (a live run holds it, naming host and process). */
pt_status_t pt_lock_take(const char *directory, double wait_sec, pt_lock_t *out);
/* Checks that the lock is still ours. One removed by hand is created again.
 * Fails: CONFIG, saying what happened to it; IO if the file system does not tell. */
pt_status_t pt_lock_check(pt_lock_t *lock);
void pt_lock_release(pt_lock_t *lock);

#endif
