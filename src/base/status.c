/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/status.h"

#include "penta/base/log.h"
#include "penta/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local pt_error_t last_error;

static const struct {
    int code;
    const char *name;
    const char *sentence;
} statuses[PT_STATUS_COUNT] = {
#define PT_STATUS(name, code, sentence) {code, #name, sentence},
#include "penta/base/status.def"
#undef PT_STATUS
};

/* A status outside the table is a bug of Penta, so it becomes INTERNAL. */
static pt_status_t status_known(pt_status_t status)
{
    return (unsigned)status < PT_STATUS_COUNT ? status : PT_INTERNAL;
}

int pt_status_exit_code(pt_status_t status)
{
    return statuses[status_known(status)].code;
}

const char *pt_status_name(pt_status_t status)
{
    return statuses[status_known(status)].name;
}

const char *pt_status_sentence(pt_status_t status)
{
    return statuses[status_known(status)].sentence;
}

pt_status_t pt_error_raise(pt_status_t status, pt_scope_t scope, int os_error,
                           const char *file, int line, const char *format, ...)
{
    pt_error_t *error = &last_error;
    va_list args;

    if (error->status != PT_OK && !error->reported)
        return pt_error_trace(status, file, line);
    error->status = status;
    error->scope = scope;
    error->reported = false;
    error->os_error = os_error;
    error->where = *pt_log_where();
    error->depth = 0;
    /* The arguments may point into the record that is replaced below. */
    char text[PT_ERROR_TEXT];
    va_start(args, format);
    errno = os_error; /* for %m */
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pt_text_printable(text); /* it may quote a file */
    memcpy(error->text, text, sizeof text);
    return pt_error_trace(status, file, line);
}

pt_status_t pt_error_trace(pt_status_t status, const char *file, int line)
{
    pt_error_t *error = &last_error;

    if (error->depth < PT_ERROR_TRACE) {
        error->trace[error->depth].file = file;
        error->trace[error->depth].line = line;
        error->depth++;
    }
    return status;
}

const pt_error_t *pt_error_last(void)
{
    return &last_error;
}

void pt_error_set(const pt_error_t *error)
{
    if (error != &last_error)
        last_error = *error;
}

void pt_error_clear(void)
{
    memset(&last_error, 0, sizeof last_error);
}

bool pt_error_is_fatal(void)
{
    return last_error.status != PT_OK && last_error.scope == PT_SCOPE_LOCAL;
}

static void status_log_record(pt_log_level_t level, const pt_error_t *error,
                              const char *line)
{
    if (error->scope == PT_SCOPE_COMMON)
        pt_log_root(level, "%s", line);
    else
        pt_log_all(level, "%s", line);
}

/* Adds where the error happened: the place in the run, and the host for local
 * errors. */
static void status_add_place(pt_text_t *line, const pt_error_t *error)
{
    char buffer[256];
    bool at_work = error->where.phase != PT_PHASE_SETUP || error->where.step >= 0;

    if (at_work)
        pt_text_add(line, " (%s", pt_where_text(&error->where, buffer, sizeof buffer));
    if (error->scope == PT_SCOPE_LOCAL && pt_log_host()[0] != '\0')
        pt_text_add(line, "%s%s", at_work ? "; host " : " (host ", pt_log_host());
    else if (!at_work)
        return;
    pt_text_add(line, ")");
}

void pt_error_print(void)
{
    pt_error_t *error = &last_error;
    char buffer[PT_ERROR_TEXT + 512];
    pt_text_t line = pt_text_init(buffer, sizeof buffer);

    if (error->status == PT_OK || error->reported)
        return;
    error->reported = true;
    pt_text_add(&line, "%s", error->text);
    status_add_place(&line, error);
    status_log_record(PT_LOG_ERROR, error, buffer);

    line = pt_text_init(buffer, sizeof buffer);
    pt_text_add(&line, "raised at");
    for (int i = 0; i < error->depth; i++)
        pt_text_add(&line, "%s %s:%d", i == 0 ? "" : ", passed", error->trace[i].file,
                    error->trace[i].line);
    status_log_record(PT_LOG_DEBUG, error, buffer);
}

void pt_error_warn(const char *prefix)
{
    const pt_error_t *error = &last_error;
    char buffer[PT_ERROR_TEXT + 512];
    pt_text_t line = pt_text_init(buffer, sizeof buffer);

    if (error->status != PT_OK) {
        pt_text_add(&line, "%s: %s", prefix, error->text);
        status_log_record(PT_LOG_WARN, error, buffer);
    }
    pt_error_clear();
}

void pt_error_warn_seldom(const char *prefix)
{
    enum { PREFIXES = 16 };
    static struct {
        const char *prefix;
        int64_t times;
    } told[PREFIXES];
    int i = 0;

    while (i < PREFIXES - 1 && told[i].prefix && told[i].prefix != prefix)
        i++;
    told[i].prefix = prefix;
    if (pt_log_is_due(++told[i].times))
        pt_error_warn(prefix);
    pt_error_clear();
}
