#include "penta/rundir.h"

#include "io/file.h"
#include "penta/alloc.h"
#include "penta/log.h"

#include <dirent.h>
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

enum {
    HOST_SIZE = 256,
    LOCK_SIZE = 512,
    LINE_BYTES = 1 << 16,
    LOCK_TRIES = 8,
    HOLD_TRIES = 20
};

struct pt_rundir {
    char *path, *checkpoints, *lock;
    int lock_fd, metrics_fd; /* -1: none */
    char line[LINE_BYTES];   /* metrics are added where nothing may be allocated */
};

/* ---- the lock: "HOST PID" in run.lock, held with flock where the file system has it ---------- */

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

static pt_status_t refuse(const pt_rundir_t *dir, const char *host, long pid)
{
    return PT_FAIL(
        PT_CONFIG,
        "%s: another run uses this directory (host %s, process %ld); stop it or "
        "choose another run.dir; if it is gone, remove %s",
        dir->path, host, pid, dir->lock);
}

/* The file is open. `held`: nobody on this file system's flock; otherwise flock does not exist. */
static pt_status_t judge_lock(const pt_rundir_t *dir, bool held)
{
    char host[HOST_SIZE], mine[HOST_SIZE];
    long pid;

    if (!read_lock(dir->lock_fd, host, &pid))
        return PT_OK;
    host_name(mine);
    if (strcmp(host, mine) != 0) {
        /* Gone with its node, as a rule, and this is the job queued again. If it lives, and flock
         * does not reach across hosts, it finds our name here before it publishes. */
        pt_log_all(
            PT_LOG_WARN,
            "%s: taking over from process %ld of host %s; if that run lives, it will "
            "stop at its next checkpoint",
            dir->path, pid, host);
        return PT_OK;
    }
    if (!held && (kill((pid_t)pid, 0) == 0 || errno == EPERM))
        return refuse(dir, host, pid);
    pt_log_all(PT_LOG_WARN,
               "%s: taking over from process %ld, which ended without cleaning up",
               dir->path, pid);
    return PT_OK;
}

static pt_status_t write_lock(const pt_rundir_t *dir)
{
    char text[LOCK_SIZE], host[HOST_SIZE];

    host_name(host);
    snprintf(text, sizeof text, "%s %ld\n", host, (long)getpid());
    PT_CHECK(ftruncate(dir->lock_fd, 0) == 0 && lseek(dir->lock_fd, 0, SEEK_SET) == 0,
             PT_IO, "%s: cannot be written: %s", dir->lock, strerror(errno));
    return pt_file_write_all(dir->lock_fd, dir->lock, text, (int64_t)strlen(text));
}

/* Is the file we locked still the one of that name? Its last owner may have removed it just now. */
static bool is_current(const pt_rundir_t *dir)
{
    struct stat mine, named;

    return fstat(dir->lock_fd, &mine) == 0 && stat(dir->lock, &named) == 0 &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/* host and pid: of whoever has it. */
static bool is_ours(const pt_rundir_t *dir, char host[HOST_SIZE], long *pid)
{
    char mine[HOST_SIZE];

    host_name(mine);
    return is_current(dir) && read_lock(dir->lock_fd, host, pid) &&
           strcmp(host, mine) == 0 && *pid == (long)getpid();
}

pt_status_t pt_rundir_check_owner(const pt_rundir_t *dir)
{
    char host[HOST_SIZE] = "unknown";
    long pid = 0;

    PT_CHECK(access(dir->lock, F_OK) == 0, PT_CONFIG,
             "%s: it, or its run.lock, was removed while the run was at work; this one "
             "ends without publishing anything more",
             dir->path);
    PT_CHECK(is_ours(dir, host, &pid), PT_CONFIG,
             "%s: another run (host %s, process %ld) has taken over this directory; "
             "this one "
             "ends without publishing anything more",
             dir->path, host, pid);
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

static pt_status_t try_lock(pt_rundir_t *dir, bool *current)
{
    char host[HOST_SIZE] = "unknown";
    long pid = 0;

    dir->lock_fd = open(dir->lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    PT_CHECK(dir->lock_fd >= 0, PT_IO, "%s: cannot be opened: %s", dir->lock,
             strerror(errno));
    bool held = hold(dir->lock_fd);
    if (!held && errno == EWOULDBLOCK) {
        (void)read_lock(dir->lock_fd, host, &pid);
        return refuse(dir, host, pid);
    }
    *current = is_current(dir);
    return *current ? judge_lock(dir, held) : PT_OK;
}

static pt_status_t take_lock(pt_rundir_t *dir)
{
    bool current = false;

    for (int i = 0; i < LOCK_TRIES && !current; i++) {
        pt_status_t status = try_lock(dir, &current);
        if (dir->lock_fd >= 0 && (status != PT_OK || !current)) {
            close(dir->lock_fd);
            dir->lock_fd = -1;
        }
        PT_TRY(status);
    }
    PT_CHECK(current, PT_IO, "%s: removed again and again by somebody", dir->lock);
    return write_lock(dir);
}

/* ---- what writers that were killed left --------------------------------------------------------- */

/* Is `text` ".RANK.PID.tmp"? */
static bool is_temporary(const char *text)
{
    for (int i = 0; i < 2; i++) {
        size_t digits = *text == '.' ? strspn(text + 1, "0123456789") : 0;
        if (digits == 0)
            return false;
        text += 1 + digits;
    }
    return strcmp(text, ".tmp") == 0;
}

static bool is_left_over(const char *name)
{
    static const char *const written[] = {"config.resolved.ini", "summary.json",
                                          "status.json"};

    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        size_t length = strlen(written[i]);
        if (strncmp(name, written[i], length) == 0 && is_temporary(name + length))
            return true;
    }
    return strcmp(name, "metrics.jsonl.tmp") == 0;
}

/* Nobody writes here while we hold the lock. What cannot be removed does no harm. */
static void remove_left_over(const pt_rundir_t *dir)
{
    DIR *stream = opendir(dir->path);
    const struct dirent *file;

    while (stream && (file = readdir(stream)) != NULL)
        if (is_left_over(file->d_name))
            (void)unlinkat(dirfd(stream), file->d_name, 0);
    if (stream)
        closedir(stream);
}

/* ---- the directory --------------------------------------------------------------------------- */

static pt_status_t open_directory(pt_rundir_t *dir, const char *path)
{
    PT_TRY(pt_strdup("run directory", path, &dir->path));
    PT_TRY(pt_file_join(path, "checkpoints", &dir->checkpoints));
    PT_TRY(pt_file_join(path, "run.lock", &dir->lock));
    PT_TRY(pt_file_make_directory(path));
    PT_CHECK(access(path, W_OK | X_OK) == 0, PT_IO,
             "%s: this directory cannot be written: %s", path, strerror(errno));
    PT_TRY(pt_file_make_directory(dir->checkpoints));
    PT_CHECK(access(dir->checkpoints, W_OK | X_OK) == 0, PT_IO,
             "%s: this directory cannot be written: %s", dir->checkpoints,
             strerror(errno));
    PT_TRY(take_lock(dir));
    remove_left_over(dir);
    return PT_OK;
}

pt_status_t pt_rundir_open(const char *path, pt_rundir_t **out)
{
    pt_rundir_t *dir;

    *out = NULL;
    PT_TRY(PT_NEW("run directory", 1, &dir));
    dir->lock_fd = dir->metrics_fd = -1;
    pt_status_t status = open_directory(dir, path);
    if (status != PT_OK) {
        pt_rundir_close(dir);
        return status;
    }
    *out = dir;
    return PT_OK;
}

void pt_rundir_close(pt_rundir_t *dir)
{
    char host[HOST_SIZE];
    long pid;

    if (!dir)
        return;
    if (dir->metrics_fd >= 0)
        close(dir->metrics_fd);
    if (dir->lock_fd >= 0) {
        if (is_ours(dir, host, &pid))
            unlink(dir->lock);
        close(dir->lock_fd);
    }
    pt_free(dir->lock);
    pt_free(dir->checkpoints);
    pt_free(dir->path);
    pt_free(dir);
}

const char *pt_rundir_path(const pt_rundir_t *dir)
{
    return dir->path;
}

const char *pt_rundir_checkpoints(const pt_rundir_t *dir)
{
    return dir->checkpoints;
}

pt_status_t pt_rundir_write(pt_rundir_t *dir, const char *name, const char *text)
{
    char *path;

    PT_TRY(pt_file_join(dir->path, name, &path));
    pt_status_t status = pt_file_write(path, text);
    pt_free(path);
    return status;
}

static pt_status_t write_json(pt_rundir_t *dir, const char *name, const json_t *object)
{
    const size_t flags = JSON_INDENT(2);
    char *text;

    PT_CHECK(object, PT_INTERNAL, "%s: no JSON object (a number that is not finite?)",
             name);
    size_t size = json_dumpb(object, NULL, 0, flags);
    PT_CHECK(size > 0, PT_INTERNAL, "%s: not representable in JSON", name);
    PT_TRY(pt_alloc("JSON text", size + 2, 1, (void **)&text));
    json_dumpb(object, text, size, flags);
    text[size] = '\n';
    pt_status_t status = pt_rundir_write(dir, name, text);
    pt_free(text);
    return status;
}

pt_status_t pt_rundir_write_json(pt_rundir_t *dir, const char *name, json_t *object)
{
    pt_status_t status = write_json(dir, name, object);

    json_decref(object);
    return status;
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* Lines without a step belong to none and stay; what is no object was torn by a crash. */
static bool keep_line(const char *line, size_t length, int64_t last_step)
{
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    bool keep = json_is_object(object) &&
                (!json_is_number(step) || json_number_value(step) <= (double)last_step);

    json_decref(object);
    return keep;
}

/* The next line with its newline, of any bytes: a crash may leave NULs. False: end of the file.
 * *whole: it ended, and fits. */
static bool next_line(FILE *from, char line[LINE_BYTES], size_t *length, bool *whole)
{
    size_t n = 0;
    int c;

    while ((c = getc_unlocked(from)) != EOF) {
        if (n < LINE_BYTES)
            line[n] = (char)c;
        n++;
        if (c == '\n')
            break;
    }
    *length = n;
    *whole = c == '\n' && n <= LINE_BYTES;
    return n > 0;
}

/* Copies the lines to keep; `*dropped` counts the others. */
static pt_status_t filter(pt_rundir_t *dir, FILE *from, int to, const char *path,
                          int64_t last_step, int64_t *dropped)
{
    size_t length;
    bool whole;

    while (next_line(from, dir->line, &length, &whole)) {
        if (whole && keep_line(dir->line, length, last_step))
            PT_TRY(pt_file_write_all(to, path, dir->line, (int64_t)length));
        else
            ++*dropped;
    }
    PT_CHECK(!ferror(from), PT_IO, "%s: cannot be read: %s", path, strerror(errno));
    return PT_OK;
}

static pt_status_t rewrite(pt_rundir_t *dir, FILE *from, const char *path,
                           const char *temporary, int64_t last_step)
{
    int64_t dropped = 0;
    pt_status_t status;
    int to =
        open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);

    PT_CHECK(to >= 0, PT_IO, "%s: cannot be created: %s", temporary, strerror(errno));
    status = filter(dir, from, to, path, last_step, &dropped);
    if (status == PT_OK && dropped > 0 && fsync(to) != 0)
        status = PT_FAIL(PT_IO, "%s: not safe on disk: %s", temporary, strerror(errno));
    close(to);
    if (status == PT_OK && dropped > 0) {
        pt_log_all(PT_LOG_INFO, "%s: dropped %lld lines after step %lld", path,
                   (long long)dropped, (long long)last_step);
        return pt_file_rename(temporary, path);
    }
    unlink(temporary);
    return status;
}

static pt_status_t drop_lines(pt_rundir_t *dir, const char *path, int64_t last_step)
{
    char *temporary;
    FILE *from = fopen(path, "re");
    pt_status_t status;

    if (!from && errno == ENOENT)
        return PT_OK;
    PT_CHECK(from, PT_IO, "%s: cannot be opened: %s", path, strerror(errno));
    status = pt_file_join(dir->path, "metrics.jsonl.tmp", &temporary);
    if (status == PT_OK) {
        status = rewrite(dir, from, path, temporary, last_step);
        pt_free(temporary);
    }
    fclose(from);
    return status;
}

static pt_status_t open_metrics(pt_rundir_t *dir, const char *path, int64_t last_step)
{
    PT_REQUIRE(dir->metrics_fd < 0);
    PT_TRY(drop_lines(dir, path, last_step));
    dir->metrics_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    PT_CHECK(dir->metrics_fd >= 0, PT_IO, "%s: cannot be opened: %s", path,
             strerror(errno));
    return PT_OK;
}

pt_status_t pt_rundir_open_metrics(pt_rundir_t *dir, int64_t last_step)
{
    char *path;

    PT_TRY(pt_file_join(dir->path, "metrics.jsonl", &path));
    pt_status_t status = open_metrics(dir, path, last_step);
    pt_free(path);
    return status;
}

static pt_status_t add_metrics(pt_rundir_t *dir, const json_t *object)
{
    PT_REQUIRE(dir->metrics_fd >= 0);
    PT_CHECK(object, PT_INTERNAL,
             "metrics.jsonl: no JSON object (a number that is not finite?)");
    size_t size = json_dumpb(object, dir->line, sizeof dir->line - 1, JSON_COMPACT);
    PT_CHECK(size > 0 && size < sizeof dir->line, PT_INTERNAL,
             "metrics.jsonl: a line of %zu bytes", size);
    dir->line[size] = '\n';
    return pt_file_write_all(dir->metrics_fd, "metrics.jsonl", dir->line,
                             (int64_t)size + 1);
}

pt_status_t pt_rundir_add_metrics(pt_rundir_t *dir, json_t *object)
{
    pt_status_t status = add_metrics(dir, object);

    json_decref(object);
    return status;
}
