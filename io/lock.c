/* SPDX-License-Identifier: Apache-2.0 */
/* run.lock: "HOST PID ID", held with flock where the file system supports it. */
#include "io/lock.h"

#include "io/file.h"
#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "penta/comm/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOST_SIZE = 256, LOCK_SIZE = 512, LOCK_TRIES = 8, HOLD_TRIES = 20 };

static void lock_host_name(char host[HOST_SIZE])
{
    if (gethostname(host, HOST_SIZE) != 0)
        snprintf(host, HOST_SIZE, "unknown");
    host[HOST_SIZE - 1] = '\0';
}

typedef struct owner {
    char host[HOST_SIZE];
    long pid;
    uint64_t id; /* 0: written by a version without ids */
} owner_t;

static bool lock_read(int fd, owner_t *out)
{
    char text[LOCK_SIZE] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    owner_t owner = {.id = 0};

    int found =
        n > 0 ? sscanf(text, "%255s %ld %16" SCNx64, owner.host, &owner.pid, &owner.id)
              : 0;
    /* beyond INT_MAX, kill() would address another process */
    if (found < 2 || owner.pid <= 0 || owner.pid > INT_MAX)
        return false;
    *out = owner;
    return true;
}

static pt_status_t lock_refuse(const pt_lock_t *lock, const owner_t *owner)
{
    return PT_FAIL(
        PT_CONFIG,
        "%s: another run uses this directory (host %s, process %ld); stop it or "
        "choose another run.dir; if it is gone, remove %s",
        lock->directory, owner->host, owner->pid, lock->path);
}

static bool lock_is_alive(const owner_t *owner)
{
    return kill((pid_t)owner->pid, 0) == 0 || errno == EPERM;
}

/* Decides about a lock file that is open. held: we have the flock; otherwise the file
 * system has none. */
static pt_status_t lock_judge(const pt_lock_t *lock, bool held)
{
    owner_t owner;
    char mine[HOST_SIZE];

    if (!lock_read(lock->fd, &owner))
        return PT_OK;
    lock_host_name(mine);
    if (strcmp(owner.host, mine) != 0) {
        /* Usually that run died with its node, and this is the requeued job. If it
         * lives, and flock does not work across hosts, it finds our id here before it
         * publishes. */
        pt_log_all(PT_LOG_WARN,
                   "%s: taking over from process %ld of host %s; if that run lives, it "
                   "ends at its next step",
                   lock->directory, owner.pid, owner.host);
        return PT_OK;
    }
    if (!held && lock_is_alive(&owner))
        return lock_refuse(lock, &owner);
    pt_log_all(PT_LOG_WARN,
               "%s: taking over from process %ld, which ended without cleaning up",
               lock->directory, owner.pid);
    return PT_OK;
}

static pt_status_t lock_write(const pt_lock_t *lock)
{
    char text[LOCK_SIZE], host[HOST_SIZE];

    lock_host_name(host);
    snprintf(text, sizeof text, "%s %ld %016" PRIx64 "\n", host, (long)getpid(),
             lock->id);
    PT_CHECK_OS(ftruncate(lock->fd, 0) == 0 && lseek(lock->fd, 0, SEEK_SET) == 0, PT_IO,
                errno, "%s: cannot be written: %m", lock->path);
    return pt_file_write_all(lock->fd, lock->path, text, (int64_t)strlen(text));
}

/* Whether the file we locked still has that name. Its last owner may have removed
 * it. */
static bool lock_is_current(const pt_lock_t *lock)
{
    struct stat mine, named;

    return fstat(lock->fd, &mine) == 0 && stat(lock->path, &named) == 0 &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

static bool lock_is_ours(const pt_lock_t *lock)
{
    owner_t owner;

    return lock_is_current(lock) && lock_read(lock->fd, &owner) && owner.id == lock->id;
}

/* ---- a lock that changed under way ----------------------------------------------- */

/* Reports what happened to the directory. /proc gives its new name if it was
 * renamed. */
static pt_status_t lock_say_gone(const pt_lock_t *lock)
{
    char name[64], now[PATH_MAX] = "";

    snprintf(name, sizeof name, "/proc/self/fd/%d", lock->fd);
    ssize_t length = readlink(name, now, sizeof now - 1);
    now[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(now, '/');
    if (slash)
        *slash = '\0';
    bool moved = now[0] == '/' && access(now, F_OK) == 0;
    return PT_FAIL(PT_CONFIG,
                   "%s: removed or renamed during the run%s%s%s; this one ends without "
                   "publishing anything more",
                   lock->directory, moved ? " (it is now " : "", moved ? now : "",
                   moved ? ": give it the old name, and start the run again)" : "");
}

/* Creates the lock file again. made: [out] false: another process was faster. */
static pt_status_t lock_make_again(pt_lock_t *lock, bool *made)
{
    struct stat info;

    *made = false;
    if (stat(lock->directory, &info) != 0)
        return lock_say_gone(lock);
    int fd = open(lock->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return PT_OK;
    PT_CHECK_OS(fd >= 0, PT_IO, errno,
                "%s: removed during the run; cannot be created again: %m", lock->path);
    close(lock->fd);
    lock->fd = fd;
    *made = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (!*made)
        return PT_OK;
    pt_log_all(PT_LOG_WARN,
               "%s: removed during the run; created again, the run continues",
               lock->path);
    pt_status_t status = lock_write(lock);
    if (status != PT_OK)
        (void)unlink(lock->path); /* an incomplete lock would count as another run's */
    return status;
}

static pt_status_t lock_say_taken(const pt_lock_t *lock, const owner_t *owner)
{
    return PT_FAIL(
        PT_CONFIG,
        "%s: another run (host %s, process %ld) has taken over this directory; "
        "this one ends without publishing anything more",
        lock->directory, owner->host, owner->pid);
}

/* Finds the owner of a lock file that, by our descriptor, is not ours. A read that
 * fails (EIO, ESTALE) gives no answer. */
static pt_status_t lock_look_again(pt_lock_t *lock)
{
    owner_t owner = {.host = "unknown"};
    char byte;
    int fd = open(lock->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int error = fd < 0 ? errno : pread(fd, &byte, 1, 0) < 0 ? errno : 0;

    if (error == 0 && lock_read(fd, &owner) && owner.id == lock->id) {
        close(lock->fd); /* stale descriptor: the file is still ours */
        lock->fd = fd;
        (void)flock(fd, LOCK_EX | LOCK_NB);
        return PT_OK;
    }
    bool is_file =
        error != ELOOP && error != ENXIO && error != EISDIR && error != ESPIPE;
    if (!is_file && fd >= 0)
        close(fd);
    PT_CHECK(is_file, PT_IO,
             "%s: is no longer a regular file, so the owner of the directory is "
             "unknown; remove it, and the run continues",
             lock->path);
    bool is_lock = error != 0 || lock_read(fd, &owner);
    if (fd >= 0)
        close(fd);
    if (!is_lock && lock_is_current(lock)) { /* changed by hand, still held */
        pt_log_all(PT_LOG_WARN,
                   "%s: overwritten during the run; created again, the run continues",
                   lock->path);
        return lock_write(lock);
    }
    PT_CHECK_OS(error == 0, PT_IO, error,
                "%s: cannot be read, so the owner of the directory is unknown: %m",
                lock->path);
    return lock_say_taken(lock, &owner);
}

pt_status_t pt_lock_check(pt_lock_t *lock)
{
    struct stat info;
    bool made = false;

    if (lock_is_ours(lock))
        return PT_OK;
    int error = stat(lock->path, &info) == 0 ? 0 : errno;
    PT_CHECK_OS(error == 0 || error == ENOENT || error == ENOTDIR, PT_IO, error,
                "%s: cannot be read, so the owner of the directory is unknown: %m",
                lock->path);
    if (error != 0)
        PT_TRY(lock_make_again(lock, &made));
    return made ? PT_OK : lock_look_again(lock);
}

/* ---- taking it ------------------------------------------------------------------- */

static void lock_sleep_msec(int msec)
{
    const struct timespec pause = {.tv_sec = msec / 1000,
                                   .tv_nsec = msec % 1000 * 1000000L};

    (void)nanosleep(&pause, NULL);
}

/* Takes the flock; false: errno gives the reason. A lock outlives its run for a moment
 * while the kernel ends the process, or while another process inspects its descriptors
 * (/proc/PID/fd, lsof). */
static bool lock_hold(int fd)
{
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == HOLD_TRIES)
            return false;
        lock_sleep_msec(25);
    }
    return true;
}

/* Whether the holder may be dead. On this host that is known; the file system may still
 * hold the lock of a dead run on another host. */
static bool lock_may_be_dead(const owner_t *owner)
{
    char mine[HOST_SIZE];

    lock_host_name(mine);
    return strcmp(owner->host, mine) != 0 || !lock_is_alive(owner);
}

/* Waits for a lock of a run that may be dead. held: [out] as lock_hold; errno is that
 * of the last try. */
static pt_status_t lock_wait_for(pt_lock_t *lock, double wait_sec, bool *held)
{
    owner_t owner = {.host = "unknown"};
    double begun = pt_clock_sec();
    bool told = false, known = lock_read(lock->fd, &owner);

    while (known && lock_may_be_dead(&owner) && pt_clock_sec() - begun < wait_sec) {
        if (!told)
            pt_log_all(PT_LOG_WARN,
                       "%s: the file system still holds the lock of process %ld of "
                       "host %s; waiting up to %.0f s for its release",
                       lock->directory, owner.pid, owner.host, wait_sec);
        told = true;
        pt_watch_beat(); /* other ranks wait for this one */
        lock_sleep_msec(250);
        *held = flock(lock->fd, LOCK_EX | LOCK_NB) == 0;
        if (*held || errno != EWOULDBLOCK)
            return PT_OK;
        known = lock_read(lock->fd, &owner);
    }
    return lock_refuse(lock, &owner);
}

static pt_status_t lock_try(pt_lock_t *lock, double wait_sec, bool *current)
{
    struct stat info;

    lock->fd =
        open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    PT_CHECK_OS(lock->fd >= 0, PT_IO, errno, "%s: cannot be opened: %m%s", lock->path,
                errno == ELOOP ? " (it is a symbolic link; remove it)"
                : errno == EISDIR || errno == ENXIO
                    ? " (it is not a regular file; remove it)"
                    : "");
    PT_CHECK(fstat(lock->fd, &info) == 0 && S_ISREG(info.st_mode), PT_IO,
             "%s: is not a regular file; remove it", lock->path);
    bool held = lock_hold(lock->fd);
    if (!held && errno == EWOULDBLOCK)
        PT_TRY(lock_wait_for(lock, wait_sec, &held));
    *current = lock_is_current(lock);
    return *current ? lock_judge(lock, held) : PT_OK;
}

static pt_status_t lock_take(pt_lock_t *lock, double wait_sec)
{
    bool current = false;

    for (int i = 0; i < LOCK_TRIES && !current; i++) {
        pt_status_t status = lock_try(lock, wait_sec, &current);
        if (lock->fd >= 0 && (status != PT_OK || !current)) {
            close(lock->fd);
            lock->fd = -1;
        }
        PT_TRY(status);
    }
    PT_CHECK(current, PT_IO, "%s: removed repeatedly by another process", lock->path);
    return lock_write(lock);
}

static uint64_t lock_draw_id(void)
{
    uint64_t id = 0;

    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != (ssize_t)sizeof id || id == 0)
        id = (uint64_t)(pt_clock_wall() * 1e6) << 16 ^ (uint64_t)getpid();
    return id;
}

pt_status_t pt_lock_take(const char *directory, double wait_sec, pt_lock_t *out)
{
    *out = (pt_lock_t){.directory = directory, .fd = -1, .id = lock_draw_id()};
    PT_TRY(pt_file_join(directory, "run.lock", &out->path));
    return lock_take(out, wait_sec);
}

void pt_lock_release(pt_lock_t *lock)
{
    if (lock->fd >= 0) {
        if (lock_is_ours(lock))
            unlink(lock->path);
        close(lock->fd);
    }
    pt_free(lock->path);
    *lock = (pt_lock_t){.fd = -1};
}
