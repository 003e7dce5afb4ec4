/* SPDX-License-Identifier: Apache-2.0 */
#include "io/checkpoint_write.h"

#include "io/elements.h"
#include "io/file.h"
#include "penta/base/alloc.h"
#include "penta/base/fault.h"
#include "penta/base/rng.h"
#include "penta/comm/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rank 0 creates the file with all metadata and space for all elements, so no rank
 * waits for another inside HDF5. Then every rank writes its elements by plain system
 * calls at the offsets that HDF5 reported. MPI-IO would need a collective open, and
 * ROMIO interprets file names differently from the kernel: it takes the part before a
 * ':' as a type of file system. */

enum { SPACE_FILE = 1 << 20, SPACE_TENSOR = 4096 };

pt_status_t pt_checkpoint_inject(const char *site, const char *path)
{
    pt_watch_mark(site);
    switch (pt_fault(site)) {
    case PT_FAULT_IO:
        return PT_FAIL_OS(PT_IO, EIO, "%s: injected failure at %s", path, site);
    case PT_FAULT_NOSPACE:
        return PT_FAIL_OS(PT_IO, ENOSPC, "%s: %m (injected at %s)", path, site);
    default: return PT_OK;
    }
}

void pt_checkpoint_writer_free(pt_checkpoint_writer_t *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    pt_free(writer->sums);
    pt_free(writer->offsets);
    pt_free(writer->partial);
    pt_free(writer->path);
    pt_free(writer);
}

static pt_status_t checkpoint_make_writer(pt_comm_t *comm, const char *path,
                                          const pt_checkpoint_tensor_t *tensors,
                                          int count, pt_checkpoint_writer_t **out)
{
    size_t size = strlen(path) + sizeof ".partial";

    PT_REQUIRE(count > 0 && count <= PT_CHECKPOINT_MAX_TENSORS);
    PT_TRY(PT_NEW("checkpoint writer", 1, out));
    pt_checkpoint_writer_t *writer = *out;
    writer->comm = comm;
    writer->tensors = tensors;
    writer->count = count;
    writer->fd = -1;
    PT_TRY(pt_strdup("checkpoint path", path, &writer->path));
    PT_TRY(pt_alloc("checkpoint path", size, 1, (void **)&writer->partial));
    snprintf(writer->partial, size, "%s.partial", path);
    PT_TRY(PT_NEW("checkpoint sums", 2 * (size_t)count, &writer->sums));
    return PT_NEW("checkpoint offsets", (size_t)count, &writer->offsets);
}

static pt_status_t checkpoint_check_tensor(const pt_checkpoint_tensor_t *tensor)
{
    PT_CHECK(memchr(tensor->group, '\0', sizeof tensor->group) &&
                 memchr(tensor->name, '\0', sizeof tensor->name) &&
                 tensor->group[0] != '\0' && tensor->name[0] != '\0' &&
                 !strchr(tensor->name, '/'),
             PT_INTERNAL, "a tensor's name is no name");
    PT_CHECK(tensor->dtype == PT_F64 || tensor->dtype == PT_F32 ||
                 tensor->dtype == PT_BF16,
             PT_INTERNAL, "%s/%s: checkpoints hold fp64, fp32 and bf16", tensor->group,
             tensor->name);
    PT_CHECK(pt_checkpoint_elements(tensor) > 0, PT_INTERNAL,
             "%s/%s: its shape is impossible", tensor->group, tensor->name);
    return PT_OK;
}

static pt_status_t checkpoint_check_space(const pt_checkpoint_writer_t *writer,
                                          size_t text_bytes)
{
    int64_t bytes = SPACE_FILE + (int64_t)text_bytes;

    for (int i = 0; i < writer->count; i++) {
        const pt_checkpoint_tensor_t *tensor = &writer->tensors[i];
        PT_TRY(checkpoint_check_tensor(tensor));
        bytes +=
            pt_checkpoint_elements(tensor) * (int64_t)pt_dtype_size(tensor->dtype) +
            SPACE_TENSOR;
    }
    PT_TRY(pt_file_check_space(writer->path, bytes, "this checkpoint"));
    /* HDF5 1.10 crashes at exit if it could not close a file. */
    return pt_file_check_size(writer->partial, bytes, "this checkpoint");
}

/* Contiguous, allocated early, not filled; without times, so that equal content gives
 * equal bytes. */
static hid_t checkpoint_creation_list(void)
{
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);

    if (list >= 0 && (H5Pset_layout(list, H5D_CONTIGUOUS) < 0 ||
                      H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) < 0 ||
                      H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) < 0 ||
                      H5Pset_obj_track_times(list, false) < 0))
        pt_h5_close(&list);
    return list;
}

static hid_t checkpoint_create_dataset(hid_t file, const char *name, hid_t type,
                                       hid_t space)
{
    hid_t list = checkpoint_creation_list(), links = H5Pcreate(H5P_LINK_CREATE),
          dataset = -1;

    if (list >= 0 && links >= 0 && H5Pset_create_intermediate_group(links, 1) >= 0)
        dataset = H5Dcreate2(file, name, type, space, links, list, H5P_DEFAULT);
    pt_h5_close(&links);
    pt_h5_close(&list);
    return dataset;
}

static pt_status_t checkpoint_create_text(hid_t file, const char *path,
                                          const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), dataset = -1;
    pt_status_t status = PT_OK;

    if (type >= 0 && space >= 0 && H5Tset_size(type, strlen(text) + 1) >= 0 &&
        H5Tset_cset(type, H5T_CSET_UTF8) >= 0)
        dataset = checkpoint_create_dataset(file, name, type, space);
    if (dataset < 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
        status = PT_H5_FAIL(path, "cannot write %s", name);
    else
        status = pt_checkpoint_write_digest(dataset, path, name, pt_name_id(text));
    pt_h5_close(&dataset);
    pt_h5_close(&space);
    pt_h5_close(&type);
    return status;
}

/* The digest is created now and gets its value when all elements are written. */
static pt_status_t checkpoint_create_tensor(hid_t file, const char *path,
                                            const pt_checkpoint_tensor_t *tensor,
                                            int64_t *offset)
{
    char name[PT_CHECKPOINT_PATH];
    hsize_t shape[PT_HYPERSLAB_DIMS];
    hid_t type = pt_h5_type(tensor->dtype), space, dataset = -1;
    pt_status_t status;

    pt_checkpoint_tensor_path(tensor, name);
    for (int d = 0; d < tensor->ndim; d++)
        shape[d] = (hsize_t)tensor->shape[d];
    space = H5Screate_simple(tensor->ndim, shape, NULL);
    if (space >= 0 && type >= 0)
        dataset = checkpoint_create_dataset(file, name, type, space);
    haddr_t at = dataset < 0 ? HADDR_UNDEF : H5Dget_offset(dataset);
    if (at == HADDR_UNDEF)
        status = PT_H5_FAIL(path, "cannot create the dataset %s", name);
    else
        status = pt_checkpoint_write_digest(dataset, path, name, 0);
    *offset = (int64_t)at;
    pt_h5_close(&dataset);
    pt_h5_close(&space);
    pt_h5_close(&type);
    return status;
}

static pt_status_t checkpoint_create_contents(const pt_checkpoint_writer_t *writer,
                                              hid_t file, const char *config,
                                              const char *hosts)
{
    pt_checkpoint_header_t nothing = {0};

    PT_TRY(pt_checkpoint_write_header(file, writer->partial, &nothing));
    PT_TRY(checkpoint_create_text(file, writer->partial, "/config", config));
    PT_TRY(checkpoint_create_text(file, writer->partial, "/hosts", hosts));
    for (int i = 0; i < writer->count; i++)
        PT_TRY(checkpoint_create_tensor(file, writer->partial, &writer->tensors[i],
                                        &writer->offsets[i]));
    return PT_OK;
}

static pt_status_t checkpoint_create_file(const pt_checkpoint_writer_t *writer,
                                          const char *config, const char *hosts)
{
    hid_t file;
    pt_status_t status, closed;
    struct stat info;

    PT_CHECK(lstat(writer->path, &info) != 0 || S_ISREG(info.st_mode) ||
                 S_ISLNK(info.st_mode),
             PT_IO, "%s: is in the way, and is not a regular file; remove it",
             writer->path);
    if (unlink(writer->partial) != 0)
        PT_CHECK_OS(errno == ENOENT, PT_IO, errno,
                    "%s: is in the way and cannot be removed: %m", writer->partial);
    PT_TRY(checkpoint_check_space(writer, strlen(config) + strlen(hosts)));
    PT_TRY(pt_h5_create_file(writer->partial, &file));
    status = checkpoint_create_contents(writer, file, config, hosts);
    closed = pt_h5_close_file(writer->partial, &file);
    PT_TRY(status != PT_OK ? status : closed);
    return pt_file_reserve(writer->partial);
}

/* Every rank opens the file for itself. */
static pt_status_t checkpoint_open_elements(pt_checkpoint_writer_t *writer)
{
    writer->fd = open(writer->partial, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    PT_CHECK_OS(writer->fd >= 0, PT_IO, errno,
                "%s: cannot be opened: %m; does every host see this directory?",
                writer->partial);
    return PT_OK;
}

static pt_status_t checkpoint_create_first(const pt_checkpoint_writer_t *writer,
                                           const char *config, const char *hosts)
{
    pt_h5_init();
    PT_TRY(pt_checkpoint_inject("checkpoint.create", writer->partial));
    if (pt_comm_rank(writer->comm) == 0)
        PT_TRY(checkpoint_create_file(writer, config, hosts));
    return PT_OK;
}

pt_status_t pt_checkpoint_create(pt_comm_t *comm, const char *path,
                                 const pt_checkpoint_tensor_t *tensors, int count,
                                 const char *config_ini, const char *hosts,
                                 pt_checkpoint_writer_t **out)
{
    pt_checkpoint_writer_t *writer = NULL;
    pt_status_t status = checkpoint_make_writer(comm, path, tensors, count, &writer);

    *out = NULL;
    PT_TRY_GOTO(destroy, pt_comm_agree(comm, status, true));
    status = checkpoint_create_first(writer, config_ini, hosts);
    PT_TRY_GOTO(unlink, pt_comm_agree(comm, status, true));
    PT_TRY_GOTO(unlink, pt_comm_broadcast_bytes(comm, 0, writer->offsets,
                                                count * (int64_t)sizeof(int64_t)));
    PT_TRY_GOTO(unlink, pt_comm_agree(comm, checkpoint_open_elements(writer), true));
    *out = writer;
    return PT_OK;
unlink:
    if (pt_comm_rank(comm) == 0)
        unlink(writer->partial);
destroy:
    pt_checkpoint_writer_free(writer);
    return status;
}

/* ---- elements ---- */

pt_status_t pt_checkpoint_write(pt_checkpoint_writer_t *writer, int tensor,
                                const pt_hyperslab_t *slab, const void *host)
{
    PT_REQUIRE(tensor >= 0 && tensor < writer->count);
    const pt_checkpoint_tensor_t *what = &writer->tensors[tensor];
    int64_t size = (int64_t)pt_dtype_size(what->dtype);

    PT_TRY(pt_elements_check(what, slab));
    if (pt_hyperslab_elements(slab) == 0)
        return PT_OK;
    PT_TRY(pt_checkpoint_inject("checkpoint.write", writer->partial));
    /* In pieces, so that the digest reads from cache and no count reaches 2^31. */
    pt_hyperslab_walk_t walk =
        pt_hyperslab_walk(slab, (size_t)size, PT_CHECKPOINT_PIECE_BYTES);
    while (pt_hyperslab_next(&walk)) {
        pt_watch_beat();
        const char *piece = (const char *)host + walk.piece.local * size;
        PT_TRY(pt_elements_pwrite(writer->fd, writer->partial, writer->offsets[tensor],
                                  what, &walk.piece, piece));
        writer->sums[2 * tensor] += pt_elements_digest(what, &walk.piece, piece);
    }
    writer->sums[2 * tensor + 1] += (uint64_t)pt_hyperslab_elements(slab);
    return PT_OK;
}
