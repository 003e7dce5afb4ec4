/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/log.h"

#include "penta/base/clock.h"
#include "penta/base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOST_SIZE = 256, LINE_SIZE = 4096 };

static const pt_where_t nowhere = {
    .phase = PT_PHASE_SETUP, .step = -1, .layer = -1, .chunk = -1, .micro_batch = -1};

static struct {
    pt_log_level_t level;
    int rank, size;
    const pt_where_t *where;
    char host[HOST_SIZE];
} context = {.level = PT_LOG_INFO, .size = 1};

void pt_log_set_rank(int rank, int size, const char *host)
{
    context.rank = rank;
    context.size = size;
    snprintf(context.host, sizeof context.host, "%s", host ? host : "");
}

void pt_log_set_level(pt_log_level_t level)
{
    context.level = level;
}

void pt_log_set_where(const pt_where_t *where)
{
    context.where = where;
}

const pt_where_t *pt_log_where(void)
{
    return context.where ? context.where : &nowhere;
}

int pt_log_rank(void)
{
    return context.rank;
}

int pt_log_size(void)
{
    return context.size;
}

const char *pt_log_host(void)
{
    return context.host;
}

static void log_write_all(const char *line, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, line, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* stderr is gone: give up */
        line += written;
        length -= (size_t)written;
    }
}

/* Writes a line at once, so that the lines of ranks that share a pipe stay whole. */
static void log_line(pt_log_level_t level, int64_t step, const char *format,
                     va_list args)
{
    static const char *const words[] = {" error", " warning", "", ""};
    char line[LINE_SIZE], message[LINE_SIZE];
    pt_text_t text = pt_text_init(line, sizeof line - 1); /* room for the newline */
    char time[32];

    pt_text_add(&text, "%s rank %d", pt_clock_iso(time, sizeof time), context.rank);
    if (step >= 0)
        pt_text_add(&text, " step %lld", (long long)step);
    vsnprintf(message, sizeof message, format, args);
    pt_text_printable(message);
    pt_text_add(&text, "%s: %s", words[level], message);
    line[text.length] = '\n';
    log_write_all(line, text.length + 1);
}

void pt_log_root(pt_log_level_t level, const char *format, ...)
{
    va_list args;

    if (level > context.level || context.rank != 0)
        return;
    va_start(args, format);
    log_line(level, pt_log_where()->step, format, args);
    va_end(args);
}

void pt_log_all(pt_log_level_t level, const char *format, ...)
{
    va_list args;

    if (level > context.level)
        return;
    va_start(args, format);
    log_line(level, pt_log_where()->step, format, args);
    va_end(args);
}

void pt_log_at(pt_log_level_t level, int64_t step, const char *format, ...)
{
    va_list args;

    if (level > context.level)
        return;
    va_start(args, format);
    log_line(level, step, format, args);
    va_end(args);
}
