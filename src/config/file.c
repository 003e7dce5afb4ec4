/* SPDX-License-Identifier: Apache-2.0 */
/* Reads text files written by users. */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "src/config/private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 3000 };

static bool file_is_utf16(const char *text, size_t length)
{
    return length >= 2 &&
           (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}

/* Removes the UTF-8 byte order mark that Windows editors write. Returns the bytes
 * removed. */
static size_t file_drop_mark(char *text, size_t length)
{
    if (length < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0)
        return 0;
    memmove(text, text + 3, length - 3 + 1);
    return 3;
}

/* The writer of a pipe, such as `<(...)` of a shell, may be slow or never come. */
static void file_wait_for_writer(int file, const char *what, const char *path,
                                 bool *is_told)
{
    struct pollfd pipe = {.fd = file, .events = POLLIN};
    char shown[PT_CITED];

    if (poll(&pipe, 1, *is_told ? -1 : PATIENCE_MS) != 0 || *is_told)
        return;
    pt_log_root(PT_LOG_WARN, "%s %s: waiting for a process to write into it", what,
                pt_show(path, shown, sizeof shown));
    *is_told = true;
}

/* `file` was opened without waiting, so that a wait for a writer can be reported. */
static pt_status_t file_read_all(int file, const char *what, const char *path,
                                 char *text, size_t room, size_t *length)
{
    char shown[PT_CITED];
    bool is_told = false;
    ssize_t count = 1;

    *length = 0;
    while (*length < room && count != 0) {
        file_wait_for_writer(file, what, path, &is_told);
        count = read(file, text + *length, room - *length);
        if (count > 0)
            *length += (size_t)count;
        else if (count < 0 && errno != EAGAIN && errno != EINTR)
            return PT_FAIL_COMMON_OS(errno == EISDIR ? PT_CONFIG : PT_IO, errno,
                                     "%s %s: cannot read it: %m", what,
                                     pt_show(path, shown, sizeof shown));
    }
    return PT_OK;
}

/* `text` has `length` bytes; at most `room` are allowed. */
static pt_status_t file_check_text(const char *what, const char *path, const char *text,
                                   size_t length, size_t room)
{
    char shown[PT_CITED];

    pt_show(path, shown, sizeof shown);
    PT_CHECK_COMMON(length <= room, PT_CONFIG,
                    "%s %s: more than %zu bytes: is this the right file?", what, shown,
                    room);
    PT_CHECK_COMMON(!file_is_utf16(text, length), PT_CONFIG,
                    "%s %s: UTF-16: save it as UTF-8", what, shown);
    PT_CHECK_COMMON(!memchr(text, '\0', length), PT_CONFIG,
                    "%s %s: holds a NUL byte: not a text file", what, shown);
    return PT_OK;
}

pt_status_t pt_file_read(const char *path, const char *what, size_t limit, char **out,
                         size_t *length)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    pt_status_t status;
    char *text = NULL, shown[PT_CITED];
    struct stat info;
    size_t room = limit;

    *out = NULL;
    if (file < 0)
        return PT_FAIL_COMMON_OS(PT_CONFIG, errno, "%s %s: cannot open it: %m", what,
                                 pt_show(path, shown, sizeof shown));
    /* The size of pipes and of files in /proc is unknown. */
    if (fstat(file, &info) == 0 && info.st_size > 0 && (size_t)info.st_size < limit)
        room = (size_t)info.st_size;
    PT_TRY_GOTO(close_file, PT_NEW("file text", room + 2, &text));
    PT_TRY_GOTO(close_file, file_read_all(file, what, path, text, room + 1, length));
    PT_TRY_GOTO(close_file, file_check_text(what, path, text, *length, room));
    text[*length] = '\0';
    *length -= file_drop_mark(text, *length);
    *out = text;
    text = NULL;
close_file:
    pt_free(text);
    (void)close(file);
    return status;
}
