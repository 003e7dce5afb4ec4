/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts tell each other when nothing moves: a file each in DIRECTORY/hang. MPI is
 * not to be trusted then, ports may be closed, and all hosts see the run directory
 * anyway. */
#include "src/comm/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4400, POST_MAGIC = 0x70746831 };

typedef struct header {
    uint64_t token;
    int32_t magic, state, count, view_bytes;
} header_t;

static const char *watch_path_of(const char *directory, const char *what,
                                 char path[PATH_BYTES])
{
    int length = snprintf(path, PATH_BYTES, "%s/hang/%016llx.%s", directory,
                          (unsigned long long)watch_token(), what);

    return length < PATH_BYTES ? path : NULL;
}

static void watch_make_directory(const char *directory)
{
    char path[PATH_BYTES];

    if (snprintf(path, sizeof path, "%s/hang", directory) >= (int)sizeof path)
        return;
    (void)mkdir(directory, 0777); /* in set-up it may not be there yet */
    (void)mkdir(path, 0777);
}

static bool watch_write_whole(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        bytes -= (size_t)written;
    }
    return true;
}

static bool watch_read_whole(int fd, void *data, size_t bytes)
{
    char *at = data;

    while (bytes > 0) {
        ssize_t got = read(fd, at, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static const char *watch_post_path(const watch_post_t *post, const char *end,
                                   char path[PATH_BYTES])
{
    char name[32];

    snprintf(name, sizeof name, "%d%s", post->views[0].rank, end);
    return watch_path_of(post->directory, name, path);
}

void watch_post(const watch_post_t *post)
{
    char path[PATH_BYTES], beside[PATH_BYTES];
    header_t header = {.token = watch_token(),
                       .magic = POST_MAGIC,
                       .state = (int32_t)post->state,
                       .count = post->count,
                       .view_bytes = (int32_t)sizeof *post->views};

    watch_make_directory(post->directory);
    if (!watch_post_path(post, "", path) || !watch_post_path(post, ".tmp", beside))
        return;
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    bool whole =
        watch_write_whole(fd, &header, sizeof header) &&
        watch_write_whole(fd, post->views, (size_t)post->count * sizeof *post->views);
    if (close(fd) != 0 || !whole || rename(beside, path) != 0)
        (void)unlink(beside);
}

void watch_withdraw(const watch_post_t *post)
{
    char path[PATH_BYTES];

    if (watch_post_path(post, "", path))
        (void)unlink(path);
}

static void watch_read_post(const char *path, watch_posts_t *out)
{
    header_t header;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;
    if (watch_read_whole(fd, &header, sizeof header) && header.token == watch_token() &&
        header.magic == POST_MAGIC && header.view_bytes == (int32_t)sizeof *out->views &&
        header.count >= 0 && header.count <= watch_world() - out->count &&
        watch_read_whole(fd, out->views + out->count,
                         (size_t)header.count * sizeof *out->views)) {
        out->count += header.count;
        out->moving |= header.state == WATCH_MOVING;
        out->asked |= header.state == WATCH_ASKED;
    }
    close(fd);
}

/* The number of a rank, and nothing after it. */
static bool watch_is_post(const char *name, const char *start)
{
    size_t length = strlen(start);

    if (strncmp(name, start, length) != 0)
        return false;
    name += length;
    return *name && strspn(name, "0123456789") == strlen(name);
}

static int watch_compare_ranks(const void *a, const void *b)
{
    return ((const watch_view_t *)a)->rank - ((const watch_view_t *)b)->rank;
}

bool watch_collect(const char *directory, watch_posts_t *out)
{
    char folder[PATH_BYTES - 300], start[32], path[PATH_BYTES];

    out->count = 0;
    out->moving = out->asked = false;
    snprintf(start, sizeof start, "%016llx.", (unsigned long long)watch_token());
    if (snprintf(folder, sizeof folder, "%s/hang", directory) >= (int)sizeof folder)
        return false;
    DIR *list = opendir(folder);
    if (!list)
        return false;
    for (struct dirent *entry; (entry = readdir(list));) {
        if (!watch_is_post(entry->d_name, start))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        watch_read_post(path, out);
    }
    closedir(list);
    qsort(out->views, (size_t)out->count, sizeof *out->views, watch_compare_ranks);
    return out->count > 0;
}

bool watch_elect(const char *directory)
{
    char path[PATH_BYTES];

    if (!watch_path_of(directory, "report", path))
        return true;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno != EEXIST; /* without the directory each host speaks for itself */
    close(fd);
    return true;
}
