/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.jsonl on resume. The input: the last step to keep, a byte, and the file. What
 * stays is what a reading line by line finds to be whole objects of steps up to it. */
#include "regression/fuzz/rundir.h"

enum { LONGEST = 1 << 16 };

static bool is_kept(const uint8_t *line, size_t length, int64_t last_step)
{
    json_t *object =
        length < LONGEST - 1 ? json_loadb((const char *)line, length, 0, NULL) : NULL;
    const json_t *step = json_object_get(object, "step");
    bool kept = json_is_object(object) &&
                !(json_is_number(step) && json_number_value(step) > (double)last_step);

    json_decref(object);
    return kept;
}

static size_t keep_lines(const uint8_t *data, size_t size, int64_t last_step,
                         uint8_t *out)
{
    const uint8_t *end = data + size, *stop;
    size_t kept = 0, length;

    for (; data < end && (stop = memchr(data, '\n', (size_t)(end - data))) != NULL;
         data = stop + 1) {
        length = (size_t)(stop - data);
        if (!is_kept(data, length, last_step))
            continue;
        memcpy(out + kept, data, length + 1);
        kept += length + 1;
    }
    return kept;
}

static void open_metrics(const char *path, int64_t last_step, const uint8_t *wanted,
                         size_t size)
{
    static uint8_t found[4 * LONGEST];
    pt_rundir_t *dir;
    pt_status_t status = pt_rundir_open(rundir, &dir);
    ssize_t n;
    int fd;

    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    status = pt_rundir_open_metrics(dir, last_step);
    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    pt_rundir_close(dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, found, sizeof found);
    FUZZ_CHECK(n == (ssize_t)size && memcmp(found, wanted, size) == 0,
               "%zd bytes are kept, not these %zu:\n%.*s", n, size, (int)size, wanted);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t wanted[4 * LONGEST];
    char path[128];

    if (size == 0 || size > sizeof wanted)
        return 0;
    int64_t last_step = data[0];
    size_t kept = keep_lines(data + 1, size - 1, last_step, wanted);
    fuzz_begin();
    rundir_put("metrics.jsonl", data + 1, size - 1, path);
    open_metrics(path, last_step, wanted, kept);
    fuzz_end();
    return 0;
}
