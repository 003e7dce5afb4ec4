/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.jsonl: the lines that a resume keeps, and new lines. */
#include "io/metrics.h"

#include "io/file.h"
#include "penta/base/alloc.h"
#include "penta/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lines without a step are kept; a line that is no object is incomplete, from a
 * crash. */
static bool metrics_keep_line(const char *line, size_t length, int64_t last_step)
{
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    bool keep = json_is_object(object) &&
                (!json_is_number(step) || json_number_value(step) <= (double)last_step);

    json_decref(object);
    return keep;
}

/* Reads the next line with its newline, of any bytes: a crash may leave NULs. False:
 * end of the file. whole: [out] the line has an end and fits. */
static bool metrics_next_line(FILE *from, char line[PT_METRICS_LINE], size_t *length,
                              bool *whole)
{
    size_t n = 0;
    int c;

    while ((c = getc_unlocked(from)) != EOF) {
        if (n < PT_METRICS_LINE)
            line[n] = (char)c;
        n++;
        if (c == '\n')
            break;
    }
    *length = n;
    *whole = c == '\n' && n <= PT_METRICS_LINE;
    return n > 0;
}

/* Copies the lines to keep. dropped: [out] number of the others. */
static pt_status_t metrics_filter(pt_metrics_t *metrics, FILE *from, int to,
                                  const char *path, int64_t last_step, int64_t *dropped)
{
    size_t length;
    bool whole;

    while (metrics_next_line(from, metrics->line, &length, &whole)) {
        if (whole && metrics_keep_line(metrics->line, length, last_step))
            PT_TRY(pt_file_write_all(to, path, metrics->line, (int64_t)length));
        else
            ++*dropped;
    }
    PT_CHECK_OS(!ferror(from), PT_IO, errno, "%s: cannot be read: %m", path);
    return PT_OK;
}

static pt_status_t metrics_rewrite(pt_metrics_t *metrics, FILE *from, const char *path,
                                   const char *temporary, int64_t last_step)
{
    int64_t dropped = 0;
    pt_status_t status;
    struct stat info;
    /* A link may point to a file of another run or of the user: replace it by a
     * copy. */
    bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    int to =
        open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);

    PT_CHECK_OS(to >= 0, PT_IO, errno, "%s: cannot be created: %m", temporary);
    status = metrics_filter(metrics, from, to, path, last_step, &dropped);
    if (status == PT_OK && (dropped > 0 || is_link) && fsync(to) != 0)
        status =
            PT_FAIL_OS(PT_IO, errno, "%s: cannot be synced to disk: %m", temporary);
    close(to);
    if (status == PT_OK && (dropped > 0 || is_link)) {
        pt_log_all(PT_LOG_INFO, "%s: dropped %lld lines after step %lld", path,
                   (long long)dropped, (long long)last_step);
        return pt_file_rename(temporary, path);
    }
    unlink(temporary);
    return status;
}

static pt_status_t metrics_drop_lines(pt_metrics_t *metrics, const char *directory,
                                      const char *path, int64_t last_step)
{
    char *temporary;
    FILE *from = NULL;
    int fd;
    pt_status_t status = pt_file_open_plain(path, O_RDONLY, &fd);

    if (status == PT_OK && fd < 0)
        return PT_OK;
    PT_TRY(status);
    from = fdopen(fd, "r");
    if (!from) {
        close(fd);
        return PT_FAIL_OS(PT_IO, errno, "%s: cannot be opened: %m", path);
    }
    status = pt_file_join(directory, "metrics.jsonl.tmp", &temporary);
    if (status == PT_OK) {
        status = metrics_rewrite(metrics, from, path, temporary, last_step);
        pt_free(temporary);
    }
    fclose(from);
    return status;
}

static pt_status_t metrics_open(pt_metrics_t *metrics, const char *directory,
                                const char *path, int64_t last_step)
{
    PT_REQUIRE(metrics->fd < 0);
    PT_TRY(metrics_drop_lines(metrics, directory, path, last_step));
    return pt_file_open_plain(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                              &metrics->fd);
}

pt_status_t pt_metrics_open(pt_metrics_t *metrics, const char *directory,
                            int64_t last_step)
{
    char *path;

    PT_TRY(pt_file_join(directory, "metrics.jsonl", &path));
    pt_status_t status = metrics_open(metrics, directory, path, last_step);
    pt_free(path);
    return status;
}

/* Truncates the file after a failure, so that it never has an incomplete line in the
 * middle. */
static pt_status_t metrics_append(int fd, const char *text, int64_t bytes)
{
    struct stat info;

    PT_CHECK_OS(fstat(fd, &info) == 0, PT_IO, errno,
                "metrics.jsonl: cannot be examined: %m");
    pt_status_t status = pt_file_write_all(fd, "metrics.jsonl", text, bytes);
    if (status != PT_OK)
        (void)ftruncate(fd, info.st_size);
    return status;
}

static pt_status_t metrics_write_waiting(pt_metrics_t *metrics)
{
    PT_TRY(metrics_append(metrics->fd, metrics->waiting, metrics->waiting_bytes));
    metrics->waiting_bytes = metrics->waiting_lines = 0;
    return PT_OK;
}

pt_status_t pt_metrics_add(pt_metrics_t *metrics, const json_t *object)
{
    PT_REQUIRE(metrics->fd >= 0);
    PT_CHECK(object, PT_INTERNAL,
             "metrics.jsonl: not a JSON object (a number that is not finite?)");
    size_t size =
        json_dumpb(object, metrics->line, sizeof metrics->line - 1, JSON_COMPACT);
    PT_CHECK(size > 0 && size < sizeof metrics->line, PT_INTERNAL,
             "metrics.jsonl: a line of %zu bytes", size);
    metrics->line[size++] = '\n';
    if (metrics->waiting_bytes + (int64_t)size > PT_METRICS_WAITING) {
        metrics->missing++; /* unless there is room after a write */
        PT_TRY(metrics_write_waiting(metrics));
        metrics->missing--;
    }
    memcpy(metrics->waiting + metrics->waiting_bytes, metrics->line, size);
    metrics->waiting_bytes += (int64_t)size;
    metrics->waiting_lines++;
    return metrics_write_waiting(metrics);
}

void pt_metrics_close(pt_metrics_t *metrics, bool ours)
{
    if (metrics->fd < 0)
        return;
    pt_error_t record = *pt_error_last();
    if (metrics->waiting_lines > 0 && (!ours || metrics_write_waiting(metrics) != PT_OK))
        metrics->missing += metrics->waiting_lines;
    pt_error_set(&record);
    if (metrics->missing > 0)
        pt_log_all(PT_LOG_WARN, "metrics.jsonl: %lld lines are missing",
                   (long long)metrics->missing);
    close(metrics->fd);
    metrics->fd = -1;
}
