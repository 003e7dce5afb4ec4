/* run.lock: "HOST PID" in the file, held with flock where the file system has it. */
#include "io/lock.h"

#include "io/file.h"
#include "penta/alloc.h"
#include "penta/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOST_SIZE = 256, LOCK_SIZE = 512, LOCK_TRIES = 8, HOLD_TRIES = 20 };

static void host_name(char host[HOST_SIZE])
{
    if (gethostname(host, HOST_SIZE) != 0)
        snprintf(host, HOST_SIZE, "unknown");
    host[HOST_SIZE - 1] = '\0';
}

static bool read_lock(int fd, char host[HOST_SIZE], long *pid)
{
    char text[LOCK_SIZE] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    return n > 0 && sscanf(text, "%255s %ld", host, pid) == 2 && *pid > 0 &&
           *pid <= INT_MAX; /* beyond, kill() would ask for another one */
}

static pt_status_t refuse(const pt_lock_t *lock, const char *host, long pid)
{
    return PT_FAIL(
        PT_CONFIG,
        "%s: another run uses this directory (host %s, process %ld); stop it or "
        "choose another run.dir; if it is gone, remove %s",
        lock->directory, host, pid, lock->path);
}

/* The file is open. `held`: nobody on this file system's flock; otherwise flock does not exist. */
static pt_status_t judge_lock(const pt_lock_t *lock, bool held)
{
    char host[HOST_SIZE], mine[HOST_SIZE];
    long pid;

    if (!read_lock(lock->fd, host, &pid))
        return PT_OK;
    host_name(mine);
    if (strcmp(host, mine) != 0) {
        /* Gone with its node, as a rule, and this is the job queued again. If it lives, and flock
         * does not reach across hosts, it finds our name here before it publishes. */
        pt_log_all(
            PT_LOG_WARN,
            "%s: taking over from process %ld of host %s; if that run lives, it will "
            "stop at its next checkpoint",
            lock->directory, pid, host);
        return PT_OK;
    }
    if (!held && (kill((pid_t)pid, 0) == 0 || errno == EPERM))
        return refuse(lock, host, pid);
    pt_log_all(PT_LOG_WARN,
               "%s: taking over from process %ld, which ended without cleaning up",
               lock->directory, pid);
    return PT_OK;
}

static pt_status_t write_lock(const pt_lock_t *lock)
{
    char text[LOCK_SIZE], host[HOST_SIZE];

    host_name(host);
    snprintf(text, sizeof text, "%s %ld\n", host, (long)getpid());
    PT_CHECK(ftruncate(lock->fd, 0) == 0 && lseek(lock->fd, 0, SEEK_SET) == 0, PT_IO,
             "%s: cannot be written: %s", lock->path, strerror(errno));
    return pt_file_write_all(lock->fd, lock->path, text, (int64_t)strlen(text));
}

/* Is the file we locked still the one of that name? Its last owner may have removed it just now. */
static bool is_current(const pt_lock_t *lock)
{
    struct stat mine, named;

    return fstat(lock->fd, &mine) == 0 && stat(lock->path, &named) == 0 &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/* host and pid: of whoever has it. */
static bool is_ours(const pt_lock_t *lock, char host[HOST_SIZE], long *pid)
{
    char mine[HOST_SIZE];

    host_name(mine);
    return is_current(lock) && read_lock(lock->fd, host, pid) &&
           strcmp(host, mine) == 0 && *pid == (long)getpid();
}

pt_status_t pt_lock_check(const pt_lock_t *lock)
{
    char host[HOST_SIZE] = "unknown";
    long pid = 0;

    PT_CHECK(access(lock->path, F_OK) == 0, PT_CONFIG,
             "%s: it, or its run.lock, was removed while the run was at work; this one "
             "ends without publishing anything more",
             lock->directory);
    PT_CHECK(is_ours(lock, host, &pid), PT_CONFIG,
             "%s: another run (host %s, process %ld) has taken over this directory; "
             "this one "
             "ends without publishing anything more",
             lock->directory, host, pid);
    return PT_OK;
}

/* flock for ourselves; false, errno says why. A lock outlives the run that had it for a moment: while the
 * system ends its process, or while somebody looks at its descriptors (/proc/PID/fd, lsof). */
static bool hold(int fd)
{
    const struct timespec pause = {.tv_nsec = 25000000};

    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == HOLD_TRIES)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

static pt_status_t try_lock(pt_lock_t *lock, bool *current)
{
    char host[HOST_SIZE] = "unknown";
    long pid = 0;

    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    PT_CHECK(lock->fd >= 0, PT_IO, "%s: cannot be opened: %s", lock->path,
             strerror(errno));
    bool held = hold(lock->fd);
    if (!held && errno == EWOULDBLOCK) {
        (void)read_lock(lock->fd, host, &pid);
        return refuse(lock, host, pid);
    }
    *current = is_current(lock);
    return *current ? judge_lock(lock, held) : PT_OK;
}

static pt_status_t take(pt_lock_t *lock)
{
    bool current = false;

    for (int i = 0; i < LOCK_TRIES && !current; i++) {
        pt_status_t status = try_lock(lock, &current);
        if (lock->fd >= 0 && (status != PT_OK || !current)) {
            close(lock->fd);
            lock->fd = -1;
        }
        PT_TRY(status);
    }
    PT_CHECK(current, PT_IO, "%s: removed again and again by somebody", lock->path);
    return write_lock(lock);
}

pt_status_t pt_lock_take(const char *directory, pt_lock_t *out)
{
    *out = (pt_lock_t){.directory = directory, .fd = -1};
    PT_TRY(pt_file_join(directory, "run.lock", &out->path));
    return take(out);
}

void pt_lock_release(pt_lock_t *lock)
{
    char host[HOST_SIZE];
    long pid;

    if (lock->fd >= 0) {
        if (is_ours(lock, host, &pid))
            unlink(lock->path);
        close(lock->fd);
    }
    pt_free(lock->path);
    *lock = (pt_lock_t){.fd = -1};
}
