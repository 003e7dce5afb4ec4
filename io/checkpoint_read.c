/* SPDX-License-Identifier: Apache-2.0 */
#include "io/elements.h"
#include "io/checkpoint_file.h"
#include "io/file.h"
#include "penta/base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rank 0 reads the metadata through HDF5 and broadcasts them. Elements are contiguous,
 * so every rank reads them by plain system calls. No rank waits for another inside
 * HDF5, and only one judges a damaged file. */
struct pt_checkpoint_reader {
    pt_comm_t *comm;
    char *path;
    int fd; /* -1: not open */
    bool rounds;
    pt_checkpoint_content_t content;
    uint64_t *sums; /* [2*count] per tensor: digest and number of elements read */
};

static pt_status_t checkpoint_make_reader(pt_comm_t *comm, const char *path,
                                          pt_checkpoint_reader_t **out)
{
    PT_TRY(PT_NEW("checkpoint reader", 1, out));
    (*out)->comm = comm;
    (*out)->fd = -1;
    PT_TRY(pt_strdup("checkpoint path", path, &(*out)->path));
    if (pt_comm_rank(comm) == 0)
        PT_TRY(pt_checkpoint_parse(path, &(*out)->content));
    return PT_OK;
}

/* Allocates the content found by rank 0. sizes: tensors, bytes of both texts, bytes of
 * the file. */
static pt_status_t checkpoint_make_room(pt_checkpoint_reader_t *reader,
                                        const int64_t sizes[4])
{
    pt_checkpoint_content_t *content = &reader->content;

    PT_TRY(PT_NEW("checkpoint sums", 2 * (size_t)sizes[0], &reader->sums));
    if (pt_comm_rank(reader->comm) == 0)
        return PT_OK;
    content->count = (int)sizes[0];
    content->file_bytes = sizes[3];
    PT_TRY(PT_NEW("checkpoint tensors", (size_t)sizes[0], &content->items));
    PT_TRY(pt_alloc("checkpoint text", (size_t)sizes[1], 1, (void **)&content->config));
    return pt_alloc("checkpoint text", (size_t)sizes[2], 1, (void **)&content->hosts);
}

static pt_status_t checkpoint_read_open_elements(pt_checkpoint_reader_t *reader)
{
    struct stat info;

    if (pt_comm_rank(reader->comm) != 0)
        PT_TRY(pt_checkpoint_inject("checkpoint.open", reader->path));
    reader->fd = open(reader->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (reader->fd < 0)
        return pt_file_unreadable(reader->path, errno);
    PT_CHECK(fstat(reader->fd, &info) == 0 && info.st_size == reader->content.file_bytes,
             PT_IO, "%s: not the same file on every rank; does every host see it?",
             reader->path);
    return PT_OK;
}

/* Collective. */
static pt_status_t checkpoint_share_content(pt_checkpoint_reader_t *reader)
{
    pt_comm_t *comm = reader->comm;
    pt_checkpoint_content_t *content = &reader->content;
    int64_t sizes[4] = {0};

    if (pt_comm_rank(comm) == 0) {
        sizes[0] = content->count;
        sizes[1] = (int64_t)strlen(content->config) + 1;
        sizes[2] = (int64_t)strlen(content->hosts) + 1;
        sizes[3] = content->file_bytes;
    }
    PT_TRY(pt_comm_broadcast_bytes(comm, 0, sizes, sizeof sizes));
    PT_TRY(pt_comm_agree(comm, checkpoint_make_room(reader, sizes), true));
    PT_TRY(pt_comm_broadcast_bytes(comm, 0, &content->header, sizeof content->header));
    PT_TRY(pt_comm_broadcast_bytes(comm, 0, content->items,
                                   sizes[0] * (int64_t)sizeof *content->items));
    PT_TRY(pt_comm_broadcast_bytes(comm, 0, content->config, sizes[1]));
    PT_TRY(pt_comm_broadcast_bytes(comm, 0, content->hosts, sizes[2]));
    return pt_comm_agree(comm, checkpoint_read_open_elements(reader), true);
}

pt_status_t pt_checkpoint_open(pt_comm_t *comm, const char *path,
                               pt_checkpoint_reader_t **out)
{
    pt_checkpoint_reader_t *reader = NULL;
    pt_status_t status = checkpoint_make_reader(comm, path, &reader);

    *out = NULL;
    PT_TRY_GOTO(close, pt_comm_agree(comm, status, true));
    PT_TRY_GOTO(close, checkpoint_share_content(reader));
    *out = reader;
    return PT_OK;
close:
    pt_checkpoint_close(reader);
    return status;
}

void pt_checkpoint_close(pt_checkpoint_reader_t *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    pt_checkpoint_content_free(&reader->content);
    pt_free(reader->sums);
    pt_free(reader->path);
    pt_free(reader);
}

const pt_checkpoint_header_t *pt_checkpoint_header(const pt_checkpoint_reader_t *reader)
{
    return &reader->content.header;
}

const char *pt_checkpoint_config(const pt_checkpoint_reader_t *reader)
{
    return reader->content.config;
}

const char *pt_checkpoint_hosts(const pt_checkpoint_reader_t *reader)
{
    return reader->content.hosts;
}

int pt_checkpoint_tensors(const pt_checkpoint_reader_t *reader)
{
    return reader->content.count;
}

const pt_checkpoint_tensor_t *pt_checkpoint_tensor(const pt_checkpoint_reader_t *reader,
                                                   int index)
{
    return &reader->content.items[index].tensor;
}

uint64_t pt_checkpoint_tensor_digest(const pt_checkpoint_reader_t *reader, int index)
{
    return reader->content.items[index].digest;
}

int pt_checkpoint_find_tensor(const pt_checkpoint_reader_t *reader, const char *group,
                              const char *name)
{
    for (int i = 0; i < reader->content.count; i++) {
        const pt_checkpoint_tensor_t *tensor = &reader->content.items[i].tensor;
        if (strcmp(tensor->name, name) == 0 && strcmp(tensor->group, group) == 0)
            return i;
    }
    return -1;
}

static void checkpoint_convert(pt_dtype_t from, const void *stored, pt_dtype_t to,
                               void *host, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        pt_float_set(to, host, i, pt_float_get(from, stored, i));
}

/* Reads one piece. scratch: for the stored elements if they are converted. */
static pt_status_t read_piece(pt_checkpoint_reader_t *reader, int index,
                              const pt_hyperslab_walk_t *walk, bool counts,
                              pt_dtype_t dtype, void *to, void *scratch)
{
    const pt_checkpoint_item_t *item = &reader->content.items[index];
    void *stored = scratch ? scratch : to;

    PT_TRY(pt_checkpoint_inject("checkpoint.read", reader->path));
    PT_TRY(pt_elements_pread(reader->fd, reader->path, item->offset, &item->tensor,
                             &walk->piece, stored));
    if (counts) {
        reader->sums[2 * index] +=
            pt_elements_digest(&item->tensor, &walk->piece, stored);
        reader->sums[2 * index + 1] += (uint64_t)pt_hyperslab_elements(&walk->piece);
    }
    if (scratch)
        checkpoint_convert(item->tensor.dtype, scratch, dtype, to,
                           pt_hyperslab_elements(&walk->piece));
    return PT_OK;
}

void pt_checkpoint_allow_rounding(pt_checkpoint_reader_t *reader)
{
    reader->rounds = true;
}

pt_status_t pt_checkpoint_read(pt_checkpoint_reader_t *reader, int tensor,
                               pt_dtype_t dtype, const pt_hyperslab_t *slab,
                               bool counts, void *host)
{
    PT_REQUIRE(tensor >= 0 && tensor < reader->content.count);
    const pt_checkpoint_tensor_t *stored = &reader->content.items[tensor].tensor;
    size_t size = pt_dtype_size(stored->dtype);
    void *scratch = NULL;
    pt_status_t status = PT_OK;

    PT_CHECK(dtype == stored->dtype || (pt_dtype_is_float(dtype) &&
                                        (reader->rounds || pt_dtype_size(dtype) > size)),
             PT_IO, "%s: /%s/%s is %s, which %s cannot hold without rounding",
             reader->path, stored->group, stored->name, pt_dtype_name(stored->dtype),
             pt_dtype_name(dtype));
    PT_TRY(pt_elements_check(stored, slab));
    int64_t elements = pt_hyperslab_elements(slab),
            most = PT_CHECKPOINT_PIECE_BYTES / (int64_t)size;
    if (dtype != stored->dtype)
        PT_TRY(pt_alloc("checkpoint piece", (size_t)(elements < most ? elements : most),
                        size, &scratch));
    pt_hyperslab_walk_t walk = pt_hyperslab_walk(slab, size, PT_CHECKPOINT_PIECE_BYTES);
    while (status == PT_OK && pt_hyperslab_next(&walk)) {
        char *to = (char *)host + walk.piece.local * (int64_t)pt_dtype_size(dtype);
        status = read_piece(reader, tensor, &walk, counts, dtype, to, scratch);
    }
    pt_free(scratch);
    return status;
}

static pt_status_t checkpoint_read_compare(const pt_checkpoint_reader_t *reader,
                                           const uint64_t *sums)
{
    for (int i = 0; i < reader->content.count; i++) {
        const pt_checkpoint_item_t *item = &reader->content.items[i];
        int64_t elements = pt_checkpoint_elements(&item->tensor);
        if (sums[2 * i + 1] == 0)
            continue;
        PT_CHECK_COMMON((int64_t)sums[2 * i + 1] == elements, PT_INTERNAL,
                        "%s: of /%s/%s %lld elements were read, it has %lld",
                        reader->path, item->tensor.group, item->tensor.name,
                        (long long)sums[2 * i + 1], (long long)elements);
        PT_CHECK_COMMON(
            sums[2 * i] == item->digest, PT_DAMAGED,
            "%s: the elements of /%s/%s have digest %016llx, but were written "
            "with %016llx: the file is damaged",
            reader->path, item->tensor.group, item->tensor.name,
            (unsigned long long)sums[2 * i], (unsigned long long)item->digest);
    }
    return PT_OK;
}

pt_status_t pt_checkpoint_verify_read(pt_checkpoint_reader_t *reader)
{
    int count = 2 * reader->content.count;
    uint64_t *sums = NULL;
    pt_status_t status = PT_NEW("checkpoint sums", (size_t)count, &sums);

    PT_TRY_GOTO(free_sums, pt_comm_agree(reader->comm, status, true));
    memcpy(sums, reader->sums, (size_t)count * sizeof *sums);
    PT_TRY_GOTO(free_sums, pt_comm_sum_int64(reader->comm, (int64_t *)sums, count));
    status = checkpoint_read_compare(reader, sums);
free_sums:
    pt_free(sums);
    return status;
}

/* Reads every size-th piece of all tensors. Local. */
static pt_status_t read_share(pt_checkpoint_reader_t *reader, int rank, int size)
{
    void *piece;
    pt_status_t status = PT_OK;
    int64_t turn = 0;

    PT_TRY(pt_alloc("checkpoint piece", PT_CHECKPOINT_PIECE_BYTES, 1, &piece));
    for (int i = 0; i < reader->content.count && status == PT_OK; i++) {
        const pt_checkpoint_tensor_t *tensor = &reader->content.items[i].tensor;
        pt_hyperslab_t whole = pt_hyperslab_whole(tensor->ndim, tensor->shape);
        pt_hyperslab_walk_t walk = pt_hyperslab_walk(
            &whole, pt_dtype_size(tensor->dtype), PT_CHECKPOINT_PIECE_BYTES);
        while (status == PT_OK && pt_hyperslab_next(&walk))
            if (turn++ % size == rank)
                status = read_piece(reader, i, &walk, true, tensor->dtype, piece, NULL);
    }
    pt_free(piece);
    return status;
}

pt_status_t pt_checkpoint_read_all(pt_comm_t *comm, pt_checkpoint_reader_t *reader)
{
    /* Drops cached pages, so that the data come from disk. */
    (void)posix_fadvise(reader->fd, 0, 0, POSIX_FADV_DONTNEED);
    PT_TRY(pt_comm_agree(
        comm, read_share(reader, pt_comm_rank(comm), pt_comm_size(comm)), true));
    return pt_checkpoint_verify_read(reader);
}
