/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h — one live run a directory: DIRECTORY/run.lock (private to io). All Local. */
#ifndef PT_IO_LOCK_H
#define PT_IO_LOCK_H

#include "penta/base/status.h"

#include <stdint.h>

typedef struct pt_lock {
    const char *directory; /* borrowed, for messages */
    char *path;
    int fd; /* -1: not held */
    uint64_t id; /* of this run, drawn at random: hosts are renamed, process numbers used again */
} pt_lock_t;

/* CONFIG when a live run holds it, naming host and process; one that nobody holds is taken over with a
 * warning. One that the file system still holds for a run of which nothing can be known here (another host,
 * maybe one that died) is waited for, up to wait_sec. Release also after a failure. */
pt_status_t pt_lock_take(const char *directory, double wait_sec, pt_lock_t *out);
/* Is it still ours? One that was removed by hand is made again. CONFIG, saying what became of it; IO when the
 * file system does not tell. */
pt_status_t pt_lock_check(pt_lock_t *lock);
void pt_lock_release(pt_lock_t *lock);

#endif
