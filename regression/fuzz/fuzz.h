/* SPDX-License-Identifier: Apache-2.0 */
/* Frame of the fuzzers. fuzz_NAME.c defines LLVMFuzzerTestOneInput, which hands the
 * input to one parser and checks what came out; regression/fuzz/fuzz.sh builds and runs
 * them. Whatever the input: no crash, leak or hang; success, or a refusal of the kind
 * that bad input has, in a message that a terminal can show. */
#ifndef PT_REGRESSION_FUZZ_H
#define PT_REGRESSION_FUZZ_H

#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/base/status.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding: libFuzzer keeps the input. */
#define FUZZ_CHECK(cond, ...)                                                          \
    do {                                                                               \
        if (!(cond)) {                                                                 \
            fprintf(stderr, "fuzz: " __VA_ARGS__);                                     \
            fprintf(stderr, "\nfuzz: violated: %s\n", #cond);                          \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static inline void fuzz_begin(void)
{
    pt_log_set_level(PT_LOG_ERROR);
    pt_error_clear();
}

/* After everything was released. */
static inline void fuzz_end(void)
{
    pt_error_clear();
    FUZZ_CHECK(pt_alloc_live_bytes() == 0, "%lld bytes are lost",
               (long long)pt_alloc_live_bytes());
}

/* A refusal is one of the two kinds allowed; its record is a text a terminal can
 * show. */
static inline void fuzz_refusal(pt_status_t status, pt_status_t kind, pt_status_t other)
{
    const pt_error_t *error = pt_error_last();

    if (status == PT_OK)
        return;
    FUZZ_CHECK(status == kind || status == other, "%s: %s", pt_status_name(status),
               error->text);
    FUZZ_CHECK(error->status == status && error->text[0] != '\0', "no message");
    for (const char *c = error->text; *c; c++)
        FUZZ_CHECK(((unsigned char)*c >= 0x20 && *c != 0x7f) || strchr("\t\n", *c),
                   "byte 0x%02x in: %s", (unsigned char)*c, error->text);
}

/* The input as a file; path: at least 32 bytes. The file lives until its descriptor is
 * closed. */
static inline int fuzz_file(const void *data, size_t size, char *path)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file in memory");
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* A name for mkstemp or mkdtemp: TMPDIR is in memory, and cleaned by who set it. */
static inline void fuzz_temporary(char *path, size_t size)
{
    const char *directory = getenv("TMPDIR");

    snprintf(path, size, "%s/fuzz.XXXXXX", directory ? directory : "/dev/shm");
}

/* The input as a text, up to its first NUL; to be freed. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);

    FUZZ_CHECK(text, "no memory");
    return text;
}

#endif
