/* SPDX-License-Identifier: Apache-2.0 */
/* file.h — plain files, with one sentence for every failure (private to io). All
 * Local. Fails: IO. */
#ifndef PT_IO_FILE_H
#define PT_IO_FILE_H

#include "penta/base/status.h"

#include <stdint.h>

/* Raises IO: `path` cannot be read for the reason `error`, so nothing is known of its
 * content. */
pt_status_t pt_file_unreadable(const char *path, int error);
/* "DIRECTORY" of "DIRECTORY/x", "." of "x". out: [out] freed by the caller with
 * pt_free. */
pt_status_t pt_file_directory(const char *path, char **out);
/* "a/b". out: [out] freed by the caller with pt_free. */
pt_status_t pt_file_join(const char *a, const char *b, char **out);
/* Creates the directory and its parents, unless they exist. */
pt_status_t pt_file_make_directory(const char *path);
/* Opens a regular file; does not wait for a pipe. A dangling symbolic link is removed.
 * fd: [out] -1: no such file. */
pt_status_t pt_file_open_plain(const char *path, int flags, int *fd);
pt_status_t pt_file_sync(const char *path);
pt_status_t pt_file_sync_directory_of(const char *path);
/* Renames a file durably. */
pt_status_t pt_file_rename(const char *from, const char *to);
pt_status_t pt_file_write_all(int fd, const char *path, const void *data, int64_t bytes);
/* Fails: DAMAGED if the file ends before; IO. */
pt_status_t pt_file_pread(int fd, const char *path, void *data, int64_t bytes,
                          int64_t at);
pt_status_t pt_file_pwrite(int fd, const char *path, const void *data, int64_t bytes,
                           int64_t at);
/* Fails unless `bytes` are free in the file system of `path`. what: for the message. */
pt_status_t pt_file_check_space(const char *path, int64_t bytes, const char *what);
/* Fails if the file `path`, which must not exist, cannot grow to `bytes`, because of
 * the file system or `ulimit -f`. */
pt_status_t pt_file_check_size(const char *path, int64_t bytes, const char *what);
/* Allocates the disk space of the size of the file, where the file system supports
 * that: a full disk or a quota then fails here, before anything is written. */
pt_status_t pt_file_reserve(const char *path);

#endif
