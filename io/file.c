/* SPDX-License-Identifier: Apache-2.0 */
#include "io/file.h"

#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/io/rundir.h"
#include "penta/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* One system call moves at most 2^31 - 4096 bytes. */
enum { MOVE_BYTES = 1 << 30 };

pt_status_t pt_file_directory(const char *path, char **out)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return pt_strdup("directory name", ".", out);
    PT_TRY(pt_strdup("directory name", path, out));
    (*out)[slash == path ? 1 : slash - path] = '\0';
    return PT_OK;
}

pt_status_t pt_file_join(const char *a, const char *b, char **out)
{
    size_t size = strlen(a) + strlen(b) + 2;

    PT_TRY(pt_alloc("path", size, 1, (void **)out));
    snprintf(*out, size, "%s/%s", a, b);
    return PT_OK;
}

/* Makes a new directory durable: a crash that loses the directory loses its files. A
 * failure is ignored, since nothing is lost yet. */
static void file_keep_directory(const char *path)
{
    pt_error_t record = *pt_error_last();

    if (pt_file_sync_directory_of(path) != PT_OK)
        pt_error_set(&record);
}

static pt_status_t file_make_one(const char *path)
{
    struct stat info;

    if (mkdir(path, 0777) == 0) {
        file_keep_directory(path);
        return PT_OK;
    }
    int error = errno;
    if (stat(path, &info) == 0) {
        PT_CHECK(S_ISDIR(info.st_mode), PT_IO,
                 "%s: exists and is not a directory; remove it or choose another name",
                 path);
        return PT_OK;
    }
    PT_CHECK(lstat(path, &info) != 0 || !S_ISLNK(info.st_mode), PT_IO,
             "%s: cannot create this directory: it is a dangling symbolic link; create "
             "its target, or remove the link",
             path);
    return PT_FAIL_OS(PT_IO, error, "%s: cannot create this directory: %m", path);
}

pt_status_t pt_file_make_directory(const char *path)
{
    char *copy;
    pt_status_t status = PT_OK;

    PT_CHECK(path[0] != '\0', PT_IO, "the name of a directory is empty");
    PT_TRY(pt_strdup("directory name", path, &copy));
    for (char *at = copy + 1; *at != '\0' && status == PT_OK; at++)
        if (*at == '/') {
            *at = '\0';
            status = file_make_one(copy);
            *at = '/';
        }
    if (status == PT_OK)
        status = file_make_one(copy);
    pt_free(copy);
    return status;
}

pt_status_t pt_file_open_plain(const char *path, int flags, int *fd)
{
    struct stat info;

    *fd = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0666);
    if (*fd < 0 && errno == ENOENT) {
        PT_CHECK_OS(lstat(path, &info) != 0 || unlink(path) == 0, PT_IO, errno,
                    "%s: a dangling link, cannot be removed: %m", path);
        return PT_OK;
    }
    /* ENXIO: a pipe without a reader, or a socket. */
    PT_CHECK_OS(*fd >= 0 || errno == ENXIO || errno == EISDIR, PT_IO, errno,
                "%s: cannot be opened: %m", path);
    if (*fd >= 0 && fstat(*fd, &info) == 0 && S_ISREG(info.st_mode))
        return PT_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return PT_FAIL(PT_IO, "%s: is not a regular file; remove it", path);
}

static pt_status_t file_sync_opened(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC), error = 0;

    PT_CHECK_OS(fd >= 0, PT_IO, errno, "%s: cannot be opened: %m", path);
    if (fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    /* EINVAL: the file system cannot sync directories, so there is nothing to do. */
    PT_CHECK_OS(error == 0 || ((flags & O_DIRECTORY) && error == EINVAL), PT_IO, error,
                "%s: cannot be synced to disk: %m", path);
    return PT_OK;
}

pt_status_t pt_file_sync(const char *path)
{
    return file_sync_opened(path, O_RDWR);
}

pt_status_t pt_file_sync_directory_of(const char *path)
{
    char *directory;

    PT_TRY(pt_file_directory(path, &directory));
    pt_status_t status = file_sync_opened(directory, O_RDONLY | O_DIRECTORY);
    pt_free(directory);
    return status;
}

pt_status_t pt_file_rename(const char *from, const char *to)
{
    PT_CHECK_OS(rename(from, to) == 0, PT_IO, errno, "%s: cannot be renamed to %s: %m",
                from, to);
    return pt_file_sync_directory_of(to);
}

pt_status_t pt_file_write_all(int fd, const char *path, const void *data, int64_t bytes)
{
    const char *from = data;

    while (bytes > 0) {
        ssize_t n = write(fd, from, (size_t)(bytes < MOVE_BYTES ? bytes : MOVE_BYTES));
        if (n < 0 && errno == EINTR)
            continue;
        PT_CHECK_OS(n > 0, PT_IO, n < 0 ? errno : EIO, "%s: cannot be written: %m",
                    path);
        from += n;
        bytes -= n;
    }
    return PT_OK;
}

pt_status_t pt_file_unreadable(const char *path, int error)
{
    struct stat info;
    bool is_link = error == ENOENT && lstat(path, &info) == 0;

    if (error == ENOENT || error == ENOTDIR)
        return PT_FAIL_OS(PT_IO, error, "%s: %m%s", path,
                          is_link ? " (it is a dangling link)" : "");
    return PT_FAIL_OS(
        PT_IO, error,
        "%s: cannot be read: %m; it need not be damaged: make it readable, or move it "
        "away",
        path);
}

/* The current end of the file; `at` if it is unknown. */
static int64_t file_end_of(int fd, int64_t at)
{
    struct stat info;

    return fstat(fd, &info) == 0 ? (int64_t)info.st_size : at;
}

pt_status_t pt_file_pread(int fd, const char *path, void *data, int64_t bytes,
                          int64_t at)
{
    char *to = data;

    while (bytes > 0) {
        ssize_t n =
            pread(fd, to, (size_t)(bytes < MOVE_BYTES ? bytes : MOVE_BYTES), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pt_file_unreadable(path, errno);
        PT_CHECK(n > 0, PT_DAMAGED, "%s: ends at byte %lld, inside a tensor", path,
                 (long long)file_end_of(fd, at));
        to += n;
        at += n;
        bytes -= n;
    }
    return PT_OK;
}

pt_status_t pt_file_pwrite(int fd, const char *path, const void *data, int64_t bytes,
                           int64_t at)
{
    const char *from = data;

    while (bytes > 0) {
        ssize_t n =
            pwrite(fd, from, (size_t)(bytes < MOVE_BYTES ? bytes : MOVE_BYTES), at);
        if (n < 0 && errno == EINTR)
            continue;
        PT_CHECK_OS(n > 0, PT_IO, n < 0 ? errno : EIO,
                    "%s: cannot be written at byte %lld: %m", path, (long long)at);
        from += n;
        at += n;
        bytes -= n;
    }
    return PT_OK;
}

pt_status_t pt_file_check_space(const char *path, int64_t bytes, const char *what)
{
    char *directory, need[32], have[32];
    struct statvfs info;

    PT_TRY(pt_file_directory(path, &directory));
    int failed = statvfs(directory, &info), error = errno;
    pt_free(directory);
    PT_CHECK_OS(failed == 0, PT_IO, error, "%s: its directory cannot be used: %m", path);
    /* In double, because the product of two values of the file system may exceed 64
     * bits. */
    double available = (double)info.f_bavail * (double)info.f_frsize;
    PT_CHECK(available >= (double)bytes, PT_IO,
             "%s: %s needs %s and %s are free; make room, or keep fewer files", path,
             what, pt_text_bytes(bytes, need, sizeof need),
             pt_text_bytes((int64_t)available, have, sizeof have));
    return PT_OK;
}

/* Advice for the only limit that the user can raise. */
static const char *file_size_advice(int64_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < (rlim_t)bytes)
        return ": raise the limit on file sizes (ulimit -f), which Slurm copies from "
               "the shell that submitted the job (sbatch --propagate=NONE)";
    return "";
}

pt_status_t pt_file_check_size(const char *path, int64_t bytes, const char *what)
{
    char need[32];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

    PT_CHECK_OS(fd >= 0, PT_IO, errno, "%s: cannot be created: %m", path);
    int error = ftruncate(fd, bytes) == 0 ? 0 : errno;
    close(fd);
    (void)unlink(path);
    PT_CHECK_OS(error != EFBIG, PT_IO, error, "%s: %s needs %s: %m%s", path, what,
                pt_text_bytes(bytes, need, sizeof need), file_size_advice(bytes));
    return PT_OK;
}

pt_status_t pt_file_reserve(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC), error = 0;
    struct stat info;

    PT_CHECK_OS(fd >= 0, PT_IO, errno, "%s: cannot be opened: %m", path);
    if (fstat(fd, &info) != 0 ||
        (info.st_size > 0 && fallocate(fd, 0, 0, info.st_size) != 0))
        error = errno;
    close(fd);
    PT_CHECK_OS(error != ENOSPC && error != EDQUOT && error != EFBIG, PT_IO, error,
                "%s: cannot grow to %lld bytes: %m", path, (long long)info.st_size);
    return PT_OK;
}

pt_status_t pt_file_read_tail(const char *path, char *text, size_t size, bool *found)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), error = errno;

    text[0] = '\0';
    *found = fd >= 0;
    PT_CHECK_COMMON_OS(fd >= 0 || error == ENOENT, PT_IO, error,
                       "%s: cannot be opened: %m", path);
    if (fd < 0)
        return PT_OK;
    bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    off_t from =
        regular && info.st_size >= (off_t)size ? info.st_size - (off_t)size + 1 : 0;
    ssize_t length = regular ? pread(fd, text, size - 1, from) : 0;
    error = errno;
    close(fd);
    PT_CHECK_COMMON(regular, PT_IO, "%s: is not a regular file", path);
    PT_CHECK_COMMON_OS(length >= 0, PT_IO, error, "%s: cannot be read: %m", path);
    text[length] = '\0';
    return PT_OK;
}

/* Rank and pid make the name unique among processes that may write the same file. */
static pt_status_t file_temporary_name(const char *path, char **out)
{
    size_t size = strlen(path) + 64;

    PT_TRY(pt_alloc("path", size, 1, (void **)out));
    snprintf(*out, size, "%s.%d.%ld.tmp", path, pt_log_rank(), (long)getpid());
    return PT_OK;
}

static pt_status_t file_write_new(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    pt_status_t status;

    PT_CHECK_OS(fd >= 0, PT_IO, errno, "%s: cannot be created: %m", path);
    status = pt_file_write_all(fd, path, text, (int64_t)strlen(text));
    if (status == PT_OK && fsync(fd) != 0)
        status = PT_FAIL_OS(PT_IO, errno, "%s: cannot be synced to disk: %m", path);
    if (close(fd) != 0 && status == PT_OK)
        status = PT_FAIL_OS(PT_IO, errno, "%s: cannot be closed: %m", path);
    return status;
}

pt_status_t pt_file_write(const char *path, const char *text)
{
    char *temporary;
    pt_status_t status;

    PT_TRY(file_temporary_name(path, &temporary));
    status = file_write_new(temporary, text);
    if (status == PT_OK)
        status = pt_file_rename(temporary, path);
    if (status != PT_OK)
        unlink(temporary);
    pt_free(temporary);
    return status;
}
