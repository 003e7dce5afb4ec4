/* SPDX-License-Identifier: Apache-2.0 */
/* The record of published steps. It outlives the files, which a purge by age may
 * remove. */
#include "penta/io/checkpoint.h"
#include "penta/base/clock.h"
#include "penta/io/rundir.h"

#include <inttypes.h>
#include <stdio.h>

pt_status_t pt_published_write(const char *path, int64_t step)
{
    char text[128], time[32];

    snprintf(text, sizeof text, "{\n  \"step\": %" PRId64 ",\n  \"time\": \"%s\"\n}\n",
             step, pt_clock_iso(time, sizeof time));
    return pt_file_write(path, text);
}

json_t *pt_json_read(const char *path)
{
    char text[PT_STATUS_BYTES + 1];
    pt_error_t record = *pt_error_last();
    bool found;
    pt_status_t status = pt_file_read_tail(path, text, sizeof text, &found);

    pt_error_set(&record);
    return status == PT_OK ? json_loads(text, 0, NULL) : NULL;
}

static int64_t published_read_step(const char *path, const char *key)
{
    json_t *object = pt_json_read(path);
    int64_t step = -1;
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        step = json_integer_value(value);
    json_decref(object);
    return step;
}

int64_t pt_published_read(const char *path)
{
    return published_read_step(path, "step");
}

int64_t pt_status_checkpoint_step(const char *directory)
{
    char path[4352];

    if (snprintf(path, sizeof path, "%s/status.json", directory) >= (int)sizeof path)
        return -1;
    return published_read_step(path, "checkpoint_step");
}
