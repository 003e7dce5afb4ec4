/* lock.h — one live run a directory: DIRECTORY/run.lock (private to io). All Local. */
#ifndef PT_IO_LOCK_H
#define PT_IO_LOCK_H

#include "penta/status.h"

typedef struct pt_lock {
    const char *directory; /* borrowed, for messages */
    char *path;
    int fd; /* -1: not held */
} pt_lock_t;

/* CONFIG when a live run holds it, naming host and process; one that nobody holds is taken over with a
 * warning. Release also after a failure. */
pt_status_t pt_lock_take(const char *directory, pt_lock_t *out);
/* Is it still ours? CONFIG, saying what became of it. */
pt_status_t pt_lock_check(const pt_lock_t *lock);
void pt_lock_release(pt_lock_t *lock);

#endif
