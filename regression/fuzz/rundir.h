/* SPDX-License-Identifier: Apache-2.0 */
/* A run directory, made by the first input. */
#ifndef PT_REGRESSION_FUZZ_RUNDIR_H
#define PT_REGRESSION_FUZZ_RUNDIR_H

#include "penta/io/rundir.h"
#include "regression/fuzz/fuzz.h"

#include <sys/stat.h>

static char rundir[96];

/* Puts the input into file `name` of the directory; path: 128 bytes. */
static void rundir_put(const char *name, const uint8_t *data, size_t size, char *path)
{
    int fd;

    if (!rundir[0]) {
        fuzz_temporary(rundir, sizeof rundir);
        FUZZ_CHECK(mkdtemp(rundir), "%s: cannot be made", rundir);
    }
    snprintf(path, 128, "%s/%s", rundir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size, "%s", path);
    close(fd);
}

#endif
