/* SPDX-License-Identifier: Apache-2.0 */
#include "io/checkpoint_write.h"

#include "io/elements.h"
#include "io/file.h"
#include "penta/base/alloc.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Every rank calls fsync, since each host may have cached pages of its own. */
static pt_status_t checkpoint_settle(pt_checkpoint_writer_t *writer, pt_status_t status)
{
    int fd = writer->fd;

    writer->fd = -1;
    if (status == PT_OK)
        status = pt_checkpoint_inject("checkpoint.close", writer->partial);
    if (status == PT_OK && fsync(fd) != 0)
        status = PT_FAIL_OS(PT_IO, errno, "%s: cannot be synced to disk: %m",
                            writer->partial);
    if (close(fd) != 0 && status == PT_OK)
        status = PT_FAIL_OS(PT_IO, errno, "%s: cannot be closed: %m", writer->partial);
    return status;
}

/* Checks the sums over all ranks: every element must have been written once. */
static pt_status_t checkpoint_publish_check_complete(const pt_checkpoint_writer_t *writer)
{
    for (int i = 0; i < writer->count; i++) {
        const pt_checkpoint_tensor_t *tensor = &writer->tensors[i];
        int64_t elements = pt_checkpoint_elements(tensor);
        PT_CHECK_COMMON((int64_t)writer->sums[2 * i + 1] == elements, PT_INTERNAL,
                        "%s: of %s/%s %lld elements were written, it has %lld",
                        writer->partial, tensor->group, tensor->name,
                        (long long)writer->sums[2 * i + 1], (long long)elements);
    }
    return PT_OK;
}

static uint64_t checkpoint_state_digest(const pt_checkpoint_writer_t *writer)
{
    uint64_t digest = 0;

    for (int i = 0; i < writer->count; i++)
        if (pt_checkpoint_is_weight(&writer->tensors[i]))
            digest += writer->sums[2 * i];
    return digest;
}

static pt_status_t checkpoint_write_values(const pt_checkpoint_writer_t *writer,
                                           hid_t file,
                                           const pt_checkpoint_header_t *header)
{
    char name[PT_CHECKPOINT_PATH];

    PT_TRY(pt_checkpoint_write_header(file, writer->partial, header));
    for (int i = 0; i < writer->count; i++) {
        pt_checkpoint_tensor_path(&writer->tensors[i], name);
        hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
        if (dataset < 0)
            return PT_H5_FAIL(writer->partial, "cannot open %s", name);
        pt_status_t status = pt_checkpoint_write_digest(dataset, writer->partial, name,
                                                        writer->sums[2 * i]);
        pt_h5_close(&dataset);
        PT_TRY(status);
    }
    return PT_OK;
}

/* Rank 0 only. */
static pt_status_t checkpoint_write_metadata(const pt_checkpoint_writer_t *writer,
                                             const pt_checkpoint_header_t *header)
{
    hid_t file;
    pt_status_t status, closed;

    PT_TRY(pt_h5_open_file(writer->partial, H5F_ACC_RDWR, &file));
    status = checkpoint_write_values(writer, file, header);
    closed = pt_h5_close_file(writer->partial, &file);
    PT_TRY(status != PT_OK ? status : closed);
    return pt_file_sync(writer->partial);
}

/* Checks that the file has the tensors that were to be written. Local. */
static pt_status_t checkpoint_publish_compare(const pt_checkpoint_writer_t *writer,
                                              const pt_checkpoint_reader_t *reader,
                                              pt_verify_t verify)
{
    PT_CHECK(pt_checkpoint_tensors(reader) == writer->count, PT_IO,
             "%s: holds %d tensors, %d were written", writer->partial,
             pt_checkpoint_tensors(reader), writer->count);
    for (int i = 0; i < writer->count; i++) {
        const pt_checkpoint_tensor_t *meant = &writer->tensors[i];
        int at = pt_checkpoint_find_tensor(reader, meant->group, meant->name);
        const pt_checkpoint_tensor_t *found =
            at < 0 ? NULL : pt_checkpoint_tensor(reader, at);
        PT_CHECK(found && found->dtype == meant->dtype && found->ndim == meant->ndim &&
                     memcmp(found->shape, meant->shape,
                            (size_t)meant->ndim * sizeof meant->shape[0]) == 0 &&
                     (verify == PT_VERIFY_NONE ||
                      pt_checkpoint_tensor_digest(reader, at) == writer->sums[2 * i]),
                 PT_IO, "%s: %s/%s differs from what was written", writer->partial,
                 meant->group, meant->name);
    }
    return PT_OK;
}

/* A defect of a file just written is a failed save, not a damaged checkpoint. */
static pt_status_t checkpoint_as_failed_save(pt_status_t status)
{
    pt_error_t error = *pt_error_last();

    if (status != PT_DAMAGED)
        return status;
    error.status = PT_IO;
    pt_error_set(&error);
    return PT_IO;
}

/* Collective. */
static pt_status_t checkpoint_publish_check(const pt_checkpoint_writer_t *writer,
                                            pt_verify_t verify)
{
    pt_checkpoint_reader_t *reader;
    pt_status_t status = pt_checkpoint_open(writer->comm, writer->partial, &reader);

    if (status != PT_OK)
        return checkpoint_as_failed_save(status);
    PT_TRY_GOTO(close, pt_comm_agree(writer->comm,
                                     checkpoint_publish_compare(writer, reader, verify),
                                     true));
    if (verify == PT_VERIFY_FULL)
        status =
            checkpoint_as_failed_save(pt_checkpoint_read_all(writer->comm, reader));
close:
    pt_checkpoint_close(reader);
    return status;
}

/* Rank 0 only. After the rename the file is published, even if a later call fails. */
static pt_status_t checkpoint_rename_partial(const pt_checkpoint_writer_t *writer,
                                             int64_t step)
{
    PT_TRY(pt_checkpoint_inject("checkpoint.rename", writer->partial));
    PT_TRY(pt_file_rename(writer->partial, writer->path));
    if (writer->record && pt_published_write(writer->record, step) != PT_OK)
        pt_error_warn_seldom(
            "the checkpoint is published, but its step could not be recorded");
    return pt_checkpoint_inject("checkpoint.renamed", writer->path);
}

/* All steps after every rank has written its elements. Collective. */
static pt_status_t checkpoint_complete(pt_checkpoint_writer_t *writer,
                                       pt_checkpoint_header_t *header,
                                       pt_verify_t verify)
{
    pt_comm_t *comm = writer->comm;
    bool first = pt_comm_rank(comm) == 0;

    PT_TRY(pt_comm_sum_int64(comm, (int64_t *)writer->sums, 2 * writer->count));
    PT_TRY(checkpoint_publish_check_complete(writer));
    header->digest = checkpoint_state_digest(writer);
    PT_TRY(pt_comm_agree(
        comm, first ? checkpoint_write_metadata(writer, header) : PT_OK, true));
    PT_TRY(checkpoint_publish_check(writer, verify));
    return pt_comm_agree(
        comm, first ? checkpoint_rename_partial(writer, header->step) : PT_OK, true);
}

void pt_checkpoint_set_record(pt_checkpoint_writer_t *writer, const char *path)
{
    writer->record = path;
}

pt_status_t pt_checkpoint_publish(pt_checkpoint_writer_t *writer, pt_status_t status,
                                  pt_checkpoint_header_t *header, pt_verify_t verify)
{
    status = pt_comm_agree(writer->comm, checkpoint_settle(writer, status), true);
    if (status == PT_OK)
        status = checkpoint_complete(writer, header, verify);
    if (status != PT_OK && pt_comm_rank(writer->comm) == 0)
        unlink(writer->partial);
    pt_checkpoint_writer_free(writer);
    return status;
}
