#include "penta/rundir.h"

#include "io/file.h"
#include "penta/alloc.h"
#include "penta/clock.h"
#include "penta/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { STATUS_BYTES = 1 << 14 };

/* A message may quote bytes of a damaged file, which are no UTF-8. */
static json_t *json_text(const char *text)
{
    char plain[PT_ERROR_TEXT];
    json_t *string = json_string(text);
    size_t i;

    if (string)
        return string;
    for (i = 0; text[i] != '\0' && i < sizeof plain - 1; i++)
        plain[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    plain[i] = '\0';
    return json_string(plain);
}

static json_t *describe(pt_status_t status, const char *message, int64_t step)
{
    const pt_error_t *error = pt_error_last();
    bool ours = status != PT_OK && error->status == status;
    const pt_where_t *where = ours ? &error->where : pt_log_where();
    json_t *object = json_object();
    char time[32];

    if (!message)
        message = ours ? error->text : "";
    json_object_set_new(object, "code", json_integer(pt_status_exit_code(status)));
    json_object_set_new(object, "name", json_string(pt_status_name(status)));
    json_object_set_new(object, "sentence", json_string(pt_status_sentence(status)));
    json_object_set_new(object, "message", json_text(message));
    json_object_set_new(object, "rank", json_integer(pt_log_rank()));
    json_object_set_new(object, "host", json_text(pt_log_host()));
    json_object_set_new(object, "step", json_integer(step));
    json_object_set_new(object, "phase", json_string(pt_phase_text(where->phase)));
    json_object_set_new(object, "time", json_string(pt_clock_iso(time, sizeof time)));
    return object;
}

static void write_text(const char *directory, const char *text)
{
    char *path;

    if (pt_file_join(directory, "status.json", &path) != PT_OK)
        return;
    (void)pt_file_write(path, text);
    pt_free(path);
}

void pt_status_write(const char *path, pt_status_t status, const char *message,
                     int64_t step)
{
    pt_error_t record = *pt_error_last();
    char text[STATUS_BYTES];
    struct stat info;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return;
    json_t *object = describe(status, message, step);
    size_t size = json_dumpb(object, text, sizeof text - 2, JSON_INDENT(2));
    json_decref(object);
    if (size == 0 || size > sizeof text - 2)
        return;
    text[size] = '\n';
    text[size + 1] = '\0';
    write_text(path, text);
    /* A failure here must not hide the one being reported. */
    pt_error_set(&record);
}
