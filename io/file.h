/* SPDX-License-Identifier: Apache-2.0 */
/* file.h — plain files, every failure in one sentence (private to io). All Local, IO. */
#ifndef PT_IO_FILE_H
#define PT_IO_FILE_H

#include "penta/base/status.h"

#include <stdint.h>

/* Raises IO: `path` cannot be read for the reason errno gives, which says nothing of its content. */
pt_status_t pt_file_unreadable(const char *path, int error);
/* "DIRECTORY" of "DIRECTORY/x", "." of "x"; a new string of the caller (pt_free). */
pt_status_t pt_file_directory(const char *path, char **out);
/* A new string "a/b" of the caller (pt_free). */
pt_status_t pt_file_join(const char *a, const char *b, char **out);
/* Makes the directory and its parents; one that is there is fine. */
pt_status_t pt_file_make_directory(const char *path);
/* A regular file, without waiting for anybody. *fd: -1 when there is none; a link to nothing is removed. */
pt_status_t pt_file_open_plain(const char *path, int flags, int *fd);
pt_status_t pt_file_sync(const char *path);
pt_status_t pt_file_sync_directory_of(const char *path);
/* Renames and makes that durable. */
pt_status_t pt_file_rename(const char *from, const char *to);
pt_status_t pt_file_write_all(int fd, const char *path, const void *data, int64_t bytes);
/* DAMAGED where the file ends before. */
pt_status_t pt_file_pread(int fd, const char *path, void *data, int64_t bytes,
                          int64_t at);
pt_status_t pt_file_pwrite(int fd, const char *path, const void *data, int64_t bytes,
                           int64_t at);
/* Fails unless `bytes` are free where `path` is to stand; `what` is for the message. */
pt_status_t pt_file_check_space(const char *path, int64_t bytes, const char *what);
/* Fails where a file `path`, which is not there, cannot be as long as `bytes`: the file system does not
 * hold such files, or `ulimit -f` forbids them. */
pt_status_t pt_file_check_size(const char *path, int64_t bytes, const char *what);
/* Gives the file the disk space its size promises, where the file system can: quotas and full
 * disks then fail here, before anything is written. */
pt_status_t pt_file_reserve(const char *path);

#endif
