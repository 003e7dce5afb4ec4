/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/io/rundir.h"

#include "io/file.h"
#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "penta/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4352 };

static const char *const stop_words[PT_STOP_REASONS] = {
#define PT_STOP_REASON(name, word) [PT_STOP_##name] = word,
#include "penta/io/stop_reason.def"
#undef PT_STOP_REASON
};

json_t *pt_stop_reason_json(pt_stop_reason_t reason)
{
    return stop_words[reason] ? json_string(stop_words[reason]) : json_null();
}

pt_stop_reason_t pt_stop_reason_of(const json_t *word)
{
    for (int i = PT_STOP_NOT + 1; json_is_string(word) && i < PT_STOP_REASONS; i++)
        if (strcmp(json_string_value(word), stop_words[i]) == 0)
            return (pt_stop_reason_t)i;
    return PT_STOP_NOT;
}

static json_t *status_number_or_null(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static void status_set_outcome(json_t *object, const pt_run_status_t *what,
                               const char *message)
{
    pt_status_t status = what->status;
    bool ended = !what->is_running;

    json_object_set_new(object, "code",
                        ended ? json_integer(pt_status_exit_code(status)) : json_null());
    json_object_set_new(object, "name",
                        json_string(ended ? pt_status_name(status) : "RUNNING"));
    json_object_set_new(object, "sentence",
                        json_string(ended ? pt_status_sentence(status) : "at work"));
    json_object_set_new(object, "message", pt_json_text(message));
    json_object_set_new(object, "reason", pt_stop_reason_json(what->reason));
}

static json_t *status_describe(const pt_run_status_t *what)
{
    const pt_error_t *error = pt_error_last();
    bool ours =
        !what->is_running && what->status != PT_OK && error->status == what->status;
    const pt_where_t *where = ours ? &error->where : pt_log_where();
    json_t *object = json_object();
    char time[32];

    status_set_outcome(object, what,
                       what->message ? what->message
                       : ours        ? error->text
                                     : "");
    json_object_set_new(object, "rank", json_integer(pt_log_rank()));
    json_object_set_new(object, "host", pt_json_text(pt_log_host()));
    json_object_set_new(object, "step", json_integer(what->step));
    json_object_set_new(object, "steps", json_integer(what->steps));
    json_object_set_new(object, "phase", json_string(pt_phase_text(where->phase)));
    json_object_set_new(object, "checkpoint_step",
                        status_number_or_null(what->checkpoint_step));
    json_object_set_new(object, "ranks", json_integer(what->ranks));
    json_object_set_new(object, "started",
                        json_string(pt_clock_iso_at(what->started, time, sizeof time)));
    json_object_set_new(object, "time", json_string(pt_clock_iso(time, sizeof time)));
    return object;
}

/* Writes the heartbeat: temporary file and rename, without fsync and pt_alloc. */
static bool status_write_beat(const char *directory, const char *text)
{
    char path[PATH_BYTES], temporary[PATH_BYTES + 64];
    size_t length = strlen(text);

    if (snprintf(path, sizeof path, "%s/status.json", directory) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(temporary, sizeof temporary, "%s.%d.%ld.tmp", path, pt_log_rank(),
             (long)getpid());
    int fd =
        open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    ssize_t written = write(fd, text, length);
    int error = written < 0 ? errno : ENOSPC;
    if (close(fd) == 0 && written == (ssize_t)length && rename(temporary, path) == 0)
        return true;
    if (written == (ssize_t)length)
        error = errno;
    (void)unlink(temporary);
    errno = error;
    return false;
}

/* ---- disk space for the final status ---- */

static bool status_reserve_name(const char *directory, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/status.reserve", directory) < PATH_BYTES;
}

void pt_status_reserve(const char *directory)
{
    char path[PATH_BYTES], text[PT_STATUS_BYTES];
    pt_error_t record = *pt_error_last();

    if (!status_reserve_name(directory, path))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    memset(text, ' ', sizeof text);
    /* fsync allocates the blocks; a write alone may only promise them. */
    if (pt_file_write_all(fd, path, text, sizeof text) != PT_OK || fsync(fd) != 0)
        (void)unlink(path);
    close(fd);
    pt_error_set(&record);
}

void pt_status_release(const char *directory)
{
    char path[PATH_BYTES];

    if (status_reserve_name(directory, path))
        (void)unlink(path);
}

/* Writes into the reserved blocks, then renames that file. */
static bool status_write_reserve(const char *directory, const char *to, const char *text)
{
    char path[PATH_BYTES];
    off_t length = (off_t)strlen(text);

    if (!status_reserve_name(directory, path))
        return false;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool done = pwrite(fd, text, (size_t)length, 0) == length &&
                ftruncate(fd, length) == 0 && fsync(fd) == 0;
    close(fd);
    return done && rename(path, to) == 0;
}

static bool status_write_end(const char *directory, const char *text)
{
    char *path;

    if (pt_file_join(directory, "status.json", &path) != PT_OK)
        return false;
    bool done = pt_file_write(path, text) == PT_OK ||
                status_write_reserve(directory, path, text);
    pt_free(path);
    return done;
}

bool pt_status_text(const pt_run_status_t *what, char text[PT_STATUS_BYTES])
{
    json_t *object = status_describe(what);
    size_t size = json_dumpb(object, text, PT_STATUS_BYTES - 2, JSON_INDENT(2));

    json_decref(object);
    if (size == 0 || size > PT_STATUS_BYTES - 2)
        return false;
    text[size] = '\n';
    text[size + 1] = '\0';
    return true;
}

bool pt_status_write(const char *path, const pt_run_status_t *what)
{
    pt_error_t record = *pt_error_last();
    char text[PT_STATUS_BYTES];
    struct stat info;

    if (stat(path, &info) != 0)
        return false;
    errno = S_ISDIR(info.st_mode) ? ENOMEM : ENOTDIR;
    if (!S_ISDIR(info.st_mode) || !pt_status_text(what, text))
        return false;
    bool done =
        what->is_running ? status_write_beat(path, text) : status_write_end(path, text);
    int error = errno;
    /* A failure here must not hide the one being reported. */
    pt_error_set(&record);
    errno = error;
    return done;
}
