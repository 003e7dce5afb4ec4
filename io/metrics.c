/* metrics.jsonl: what a resume keeps of it, and its lines. */
#include "io/metrics.h"

#include "io/file.h"
#include "penta/alloc.h"
#include "penta/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
static bool next_line(FILE *from, char line[PT_METRICS_LINE], size_t *length,
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

/* Copies the lines to keep; `*dropped` counts the others. */
static pt_status_t filter(pt_metrics_t *metrics, FILE *from, int to, const char *path,
                          int64_t last_step, int64_t *dropped)
{
    size_t length;
    bool whole;

    while (next_line(from, metrics->line, &length, &whole)) {
        if (whole && keep_line(metrics->line, length, last_step))
            PT_TRY(pt_file_write_all(to, path, metrics->line, (int64_t)length));
        else
            ++*dropped;
    }
    PT_CHECK(!ferror(from), PT_IO, "%s: cannot be read: %s", path, strerror(errno));
    return PT_OK;
}

static pt_status_t rewrite(pt_metrics_t *metrics, FILE *from, const char *path,
                           const char *temporary, int64_t last_step)
{
    int64_t dropped = 0;
    pt_status_t status;
    struct stat info;
    /* What a link points to is another run's, or its user's: here lies a copy from now on. */
    bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    int to =
        open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);

    PT_CHECK(to >= 0, PT_IO, "%s: cannot be created: %s", temporary, strerror(errno));
    status = filter(metrics, from, to, path, last_step, &dropped);
    if (status == PT_OK && (dropped > 0 || is_link) && fsync(to) != 0)
        status = PT_FAIL(PT_IO, "%s: not safe on disk: %s", temporary, strerror(errno));
    close(to);
    if (status == PT_OK && (dropped > 0 || is_link)) {
        pt_log_all(PT_LOG_INFO, "%s: dropped %lld lines after step %lld", path,
                   (long long)dropped, (long long)last_step);
        return pt_file_rename(temporary, path);
    }
    unlink(temporary);
    return status;
}

static pt_status_t drop_lines(pt_metrics_t *metrics, const char *directory,
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
        return PT_FAIL(PT_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    status = pt_file_join(directory, "metrics.jsonl.tmp", &temporary);
    if (status == PT_OK) {
        status = rewrite(metrics, from, path, temporary, last_step);
        pt_free(temporary);
    }
    fclose(from);
    return status;
}

static pt_status_t open_metrics(pt_metrics_t *metrics, const char *directory,
                                const char *path, int64_t last_step)
{
    PT_REQUIRE(metrics->fd < 0);
    PT_TRY(drop_lines(metrics, directory, path, last_step));
    return pt_file_open_plain(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                              &metrics->fd);
}

pt_status_t pt_metrics_open(pt_metrics_t *metrics, const char *directory,
                            int64_t last_step)
{
    char *path;

    PT_TRY(pt_file_join(directory, "metrics.jsonl", &path));
    pt_status_t status = open_metrics(metrics, directory, path, last_step);
    pt_free(path);
    return status;
}

pt_status_t pt_metrics_add(pt_metrics_t *metrics, const json_t *object)
{
    PT_REQUIRE(metrics->fd >= 0);
    PT_CHECK(object, PT_INTERNAL,
             "metrics.jsonl: no JSON object (a number that is not finite?)");
    size_t size =
        json_dumpb(object, metrics->line, sizeof metrics->line - 1, JSON_COMPACT);
    PT_CHECK(size > 0 && size < sizeof metrics->line, PT_INTERNAL,
             "metrics.jsonl: a line of %zu bytes", size);
    metrics->line[size] = '\n';
    return pt_file_write_all(metrics->fd, "metrics.jsonl", metrics->line,
                             (int64_t)size + 1);
}

void pt_metrics_close(pt_metrics_t *metrics)
{
    if (metrics->fd >= 0)
        close(metrics->fd);
    metrics->fd = -1;
}
