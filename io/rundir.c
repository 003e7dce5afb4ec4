/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/io/rundir.h"

#include "io/file.h"
#include "io/lock.h"
#include "io/metrics.h"
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* File systems detect a dead client after tens of seconds. */
enum { LOCK_WAIT_SEC = 60 };

struct pt_rundir {
    char *path, *checkpoints;
    pt_lock_t lock;
    pt_metrics_t metrics;
};

/* ---- left-over files of killed writers
 * -------------------------------------------- */

/* Whether `text` is ".RANK.PID.tmp". */
static bool rundir_is_temporary(const char *text)
{
    for (int i = 0; i < 2; i++) {
        size_t digits = *text == '.' ? strspn(text + 1, "0123456789") : 0;
        if (digits == 0)
            return false;
        text += 1 + digits;
    }
    return strcmp(text, ".tmp") == 0;
}

static bool rundir_is_left_over(const char *name)
{
    static const char *const written[] = {"config.resolved.ini", "summary.json",
                                          "status.json",         "hosts.txt",
                                          "timing.json",         "published.json"};

    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        size_t length = strlen(written[i]);
        if (strncmp(name, written[i], length) == 0 && rundir_is_temporary(name + length))
            return true;
    }
    return strcmp(name, "metrics.jsonl.tmp") == 0;
}

/* While we hold the lock, no other process writes here. A file that cannot be removed
 * does no harm. */
static void rundir_remove_left_over(const pt_rundir_t *dir)
{
    DIR *stream = opendir(dir->path);
    const struct dirent *file;

    while (stream && (file = readdir(stream)) != NULL)
        if (rundir_is_left_over(file->d_name))
            (void)unlinkat(dirfd(stream), file->d_name, 0);
    if (stream)
        closedir(stream);
}

/* ---- the directory --------------------------------------------------------------- */

static pt_status_t rundir_open_directory(pt_rundir_t *dir, const char *path,
                                         double wait_sec)
{
    PT_TRY(pt_strdup("run directory", path, &dir->path));
    PT_TRY(pt_file_join(path, "checkpoints", &dir->checkpoints));
    PT_TRY(pt_file_make_directory(path));
    PT_CHECK_OS(access(path, W_OK | X_OK) == 0, PT_IO, errno,
                "%s: this directory cannot be written: %m", path);
    PT_TRY(pt_file_make_directory(dir->checkpoints));
    PT_CHECK_OS(access(dir->checkpoints, W_OK | X_OK) == 0, PT_IO, errno,
                "%s: this directory cannot be written: %m", dir->checkpoints);
    PT_TRY(pt_lock_take(dir->path, wait_sec, &dir->lock));
    rundir_remove_left_over(dir);
    pt_status_reserve(dir->path);
    return PT_OK;
}

static pt_status_t rundir_open(const char *path, double wait_sec, pt_rundir_t **out)
{
    pt_rundir_t *dir;

    *out = NULL;
    PT_TRY(PT_NEW("run directory", 1, &dir));
    dir->lock.fd = dir->metrics.fd = -1;
    pt_status_t status = rundir_open_directory(dir, path, wait_sec);
    if (status != PT_OK) {
        pt_rundir_close(dir);
        return status;
    }
    *out = dir;
    return PT_OK;
}

pt_status_t pt_rundir_open(const char *path, pt_rundir_t **out)
{
    return rundir_open(path, LOCK_WAIT_SEC, out);
}

pt_status_t pt_rundir_open_at_once(const char *path, pt_rundir_t **out)
{
    return rundir_open(path, 0, out);
}

void pt_rundir_close(pt_rundir_t *dir)
{
    if (!dir)
        return;
    pt_error_t record = *pt_error_last();
    bool ours = dir->lock.fd >= 0 && pt_lock_check(&dir->lock) == PT_OK;
    pt_error_set(&record);
    pt_metrics_close(&dir->metrics, ours);
    if (ours)
        pt_status_release(dir->path);
    pt_lock_release(&dir->lock);
    pt_free(dir->checkpoints);
    pt_free(dir->path);
    pt_free(dir);
}

pt_status_t pt_rundir_check_owner(pt_rundir_t *dir)
{
    return pt_lock_check(&dir->lock);
}

pt_status_t pt_rundir_restore(const pt_rundir_t *dir)
{
    struct stat info;

    if (stat(dir->checkpoints, &info) == 0 || errno != ENOENT)
        return PT_OK; /* it exists, or creating a file in it will report the error */
    pt_log_all(PT_LOG_WARN,
               "%s: was removed during the run, with its content; created again",
               dir->checkpoints);
    return pt_file_make_directory(dir->checkpoints);
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

/* A short text needs only the memory of jansson, because status.json is written where
 * pt_alloc may fail. */
json_t *pt_json_text(const char *text)
{
    size_t length = strlen(text);
    char few[3 * PT_ERROR_TEXT + 1], *clean = few;
    json_t *plain = json_string(text);

    if (plain)
        return plain;
    if (length > PT_ERROR_TEXT &&
        pt_alloc("JSON text", length + 1, 3, (void **)&clean) != PT_OK)
        return NULL;
    size_t kept = pt_text_utf8(text, length, clean);
    json_t *string = json_stringn(clean, kept);
    if (clean != few)
        pt_free(clean);
    return string;
}

static pt_status_t rundir_write_json(pt_rundir_t *dir, const char *name,
                                     const json_t *object)
{
    const size_t flags = JSON_INDENT(2);
    char *text;

    PT_CHECK(object, PT_INTERNAL,
             "%s: not a JSON object (a number that is not finite?)", name);
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
    pt_status_t status = rundir_write_json(dir, name, object);

    json_decref(object);
    return status;
}

pt_status_t pt_rundir_open_metrics(pt_rundir_t *dir, int64_t last_step)
{
    return pt_metrics_open(&dir->metrics, dir->path, last_step);
}

pt_status_t pt_rundir_add_metrics(pt_rundir_t *dir, json_t *object)
{
    pt_status_t status = pt_metrics_add(&dir->metrics, object);

    json_decref(object);
    return status;
}
