/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a corpus: opening them, and reading tokens. */
#include "src/data/private.h"

#include "penta/base/alloc.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static pt_status_t files_open_failed(const char *option, const char *path, int error)
{
    char here[PT_CONFIG_TEXT];

    if (error == ENOENT && path[0] != '/' && getcwd(here, sizeof here))
        return PT_FAIL(PT_CONFIG, "%s: no file %s in the working directory %s", option,
                       path, here);
    if (error == ENOENT || error == ENOTDIR)
        return PT_FAIL(PT_CONFIG, "%s: no file %s", option, path);
    return PT_FAIL_OS(PT_IO, error, "%s: cannot open %.1024s: %m%s", option, path,
                      error == EMFILE ? ": raise the limit of open files (ulimit -n)"
                                      : "");
}

/* Without O_NONBLOCK, opening a pipe would wait for a writer. */
static int files_open_to_read(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* MPI and checkpoints also need open files; ulimit -n limits those of a process. */
static bool files_is_one_too_many(int descriptor)
{
    struct rlimit limit;
    rlim_t others = 64;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (others > limit.rlim_cur / 2)
        others = limit.rlim_cur / 2;
    return (rlim_t)descriptor >= limit.rlim_cur - others;
}

pt_status_t pt_corpus_open_file(const char *option, const char *path,
                                pt_corpus_file_t *file)
{
    struct stat info;

    file->descriptor = -1;
    PT_TRY(pt_strdup("path of a corpus file", path, &file->path));
    file->descriptor = files_open_to_read(path);
    if (file->descriptor < 0)
        return files_open_failed(option, path, errno);
    PT_CHECK_OS(fstat(file->descriptor, &info) == 0, PT_IO, errno,
                "%s: cannot examine %s: %m", option, path);
    PT_CHECK(!S_ISDIR(info.st_mode), PT_CONFIG,
             "%s: %s is a directory; name the files in it", option, path);
    PT_CHECK(S_ISREG(info.st_mode), PT_CONFIG, "%s: %s is not a regular file", option,
             path);
    PT_CHECK(info.st_size > 0, PT_CONFIG, "%s: %s is empty; leave it out or fill it",
             option, path);
    file->bytes = info.st_size;
    file->device = info.st_dev;
    file->inode = info.st_ino;
    if (files_is_one_too_many(file->descriptor)) {
        close(file->descriptor);
        file->descriptor = PT_OPEN_TO_READ;
    }
    return PT_OK;
}

void pt_corpus_close_file(pt_corpus_file_t *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    pt_free(file->path);
}

/* The current end of the file; `at` if it is unknown. */
static int64_t files_end_of(int descriptor, int64_t at)
{
    struct stat info;

    return fstat(descriptor, &info) == 0 ? (int64_t)info.st_size : at;
}

/* Reads instead of mapping: if the file is truncated meanwhile, that is an error, not
 * SIGBUS. */
static pt_status_t files_read_opened(const pt_corpus_file_t *file, int descriptor,
                                     int64_t offset, int64_t count, uint8_t *out)
{
    while (count > 0) {
        ssize_t got = pread(descriptor, out, (size_t)count, offset);
        if (got < 0 && errno == EINTR)
            continue;
        PT_CHECK_OS(got >= 0, PT_IO, errno, "cannot read %s at byte %lld: %m",
                    file->path, (long long)offset);
        PT_CHECK(got > 0, PT_IO,
                 "%s ends at byte %lld, but had %lld bytes when it was opened: do not "
                 "change the files of a corpus during a run",
                 file->path, (long long)files_end_of(descriptor, offset),
                 (long long)file->bytes);
        offset += got;
        count -= got;
        out += got;
    }
    return PT_OK;
}

pt_status_t pt_corpus_borrow(const pt_corpus_file_t *file, pt_corpus_file_t *out)
{
    struct stat info;

    *out = *file;
    if (file->descriptor >= 0)
        return PT_OK;
    out->descriptor = files_open_to_read(file->path);
    PT_CHECK_OS(out->descriptor >= 0, PT_IO, errno, "cannot open %s again: %m",
                file->path);
    PT_CHECK(fstat(out->descriptor, &info) == 0 && info.st_dev == file->device &&
                 info.st_ino == file->inode,
             PT_IO,
             "%s is not the file it was when the run began: do not change "
             "the files of a corpus during a run",
             file->path);
    return PT_OK;
}

void pt_corpus_return(const pt_corpus_file_t *file, pt_corpus_file_t *borrowed)
{
    if (file->descriptor < 0 && borrowed->descriptor >= 0)
        close(borrowed->descriptor);
}

pt_status_t pt_corpus_read_file(const pt_corpus_file_t *file, int64_t offset,
                                int64_t count, uint8_t *out)
{
    pt_corpus_file_t opened;
    pt_status_t status = pt_corpus_borrow(file, &opened);

    if (status == PT_OK)
        status = files_read_opened(file, opened.descriptor, offset, count, out);
    pt_corpus_return(file, &opened);
    return status;
}

/* A little-endian integer of 1, 2, 4 or 8 bytes. */
static int64_t files_integer_at(const uint8_t *from, int width, bool is_signed)
{
    uint64_t bits = 0;
    int unused = 64 - 8 * width;

    memcpy(&bits, from, (size_t)width);
    bits = le64toh(bits) << unused;
    return is_signed ? (int64_t)bits >> unused : (int64_t)(bits >> unused);
}

pt_status_t pt_corpus_read_file_tokens(const pt_corpus_file_t *file, int64_t vocab,
                                       int64_t first, int64_t count, void *raw,
                                       int32_t *out)
{
    const uint8_t *from = raw;

    PT_TRY(pt_corpus_read_file(file, first * file->width, count * file->width, raw));
    for (int64_t i = 0; i < count; i++, from += file->width) {
        int64_t token = files_integer_at(from, file->width, file->is_signed);
        PT_CHECK(
            token >= 0 && token < vocab, PT_CONFIG,
            "%s: token number %lld is %lld, but model.vocab=%lld allows 0 to %lld: "
            "set model.vocab to the size of the tokenizer that made the file, and "
            "data.format to its kind",
            file->path, (long long)(first + i), (long long)token, (long long)vocab,
            (long long)vocab - 1);
        out[i] = (int32_t)token;
    }
    return PT_OK;
}
