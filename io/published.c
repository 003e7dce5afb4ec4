/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what was published, which outlives the files: a purge by age takes those. */
#include "penta/io/checkpoint.h"
#include "penta/base/clock.h"
#include "penta/io/rundir.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

pt_status_t pt_published_write(const char *path, int64_t step)
{
    char text[128], time[32];

    snprintf(text, sizeof text, "{\n  \"step\": %" PRId64 ",\n  \"time\": \"%s\"\n}\n",
             step, pt_clock_iso(time, sizeof time));
    return pt_file_write(path, text);
}

json_t *pt_json_read(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    json_t *object = fstat(fd, &info) == 0 && S_ISREG(info.st_mode)
                         ? json_loadfd(fd, 0, NULL)
                         : NULL;
    close(fd);
    return object;
}

static int64_t read_step(const char *path, const char *key)
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
    return read_step(path, "step");
}

int64_t pt_status_checkpoint_step(const char *directory)
{
    char path[4352];

    if (snprintf(path, sizeof path, "%s/status.json", directory) >= (int)sizeof path)
        return -1;
    return read_step(path, "checkpoint_step");
}
