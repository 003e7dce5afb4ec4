/* SPDX-License-Identifier: Apache-2.0 */
#include "io/elements.h"
#include "io/checkpoint_file.h"
#include "io/file.h"
#include "penta/base/alloc.h"
#include "penta/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct visit {
    const char *path;
    pt_checkpoint_content_t *content;
    pt_status_t status;
} visit_t;

/* Splits "group/name" at the last slash. */
static pt_status_t checkpoint_split_name(const char *path, const char *full,
                                         pt_checkpoint_tensor_t *out)
{
    const char *slash = strrchr(full, '/');
    size_t group = slash ? (size_t)(slash - full) : 0,
           name = slash ? strlen(slash + 1) : 0;

    PT_CHECK(slash, PT_DAMAGED, "%s: unexpected dataset /%.200s", path, full);
    PT_CHECK(group < sizeof out->group && name < sizeof out->name, PT_DAMAGED,
             "%s: the name of dataset /%.200s is too long", path, full);
    memcpy(out->group, full, group);
    memcpy(out->name, slash + 1, name);
    out->id = pt_checkpoint_tensor_id(out);
    return PT_OK;
}

static pt_status_t checkpoint_read_shape(const char *path, hid_t dataset,
                                         const char *name, pt_checkpoint_tensor_t *out)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hsize_t shape[H5S_MAX_RANK] = {0};
    bool known = type >= 0 && pt_h5_dtype(type, &out->dtype);
    int ndim = space >= 0 && H5Sget_simple_extent_type(space) == H5S_SIMPLE
                   ? H5Sget_simple_extent_dims(space, shape, NULL)
                   : -1;

    pt_h5_close(&space);
    pt_h5_close(&type);
    PT_CHECK(known, PT_DAMAGED,
             "%s: elements of /%s are none of fp64, fp32 and bf16, little-endian", path,
             name);
    PT_CHECK(ndim >= 1 && ndim <= PT_HYPERSLAB_DIMS, PT_DAMAGED,
             "%s: /%s does not have 1 to %d dimensions", path, name, PT_HYPERSLAB_DIMS);
    out->ndim = ndim;
    for (int d = 0; d < ndim; d++)
        out->shape[d] = shape[d] <= INT64_MAX ? (int64_t)shape[d] : 0;
    PT_CHECK(pt_checkpoint_elements(out) > 0, PT_DAMAGED,
             "%s: the shape of /%s is impossible", path, name);
    return PT_OK;
}

/* Checks that the elements are contiguous, unfiltered and in this file. */
static pt_status_t checkpoint_read_place(const char *path, hid_t dataset,
                                         int64_t file_bytes, pt_checkpoint_item_t *item)
{
    const pt_checkpoint_tensor_t *tensor = &item->tensor;
    hid_t list = H5Dget_create_plist(dataset);
    bool plain = list >= 0 && H5Pget_layout(list) == H5D_CONTIGUOUS &&
                 H5Pget_external_count(list) == 0 && H5Pget_nfilters(list) == 0;
    haddr_t at = plain ? H5Dget_offset(dataset) : HADDR_UNDEF;
    int64_t bytes =
        pt_checkpoint_elements(tensor) * (int64_t)pt_dtype_size(tensor->dtype);

    pt_h5_close(&list);
    PT_CHECK(plain && at != HADDR_UNDEF, PT_DAMAGED,
             "%s: the elements of /%s/%s are not stored in one piece", path,
             tensor->group, tensor->name);
    PT_CHECK(at <= INT64_MAX && bytes <= file_bytes && (int64_t)at <= file_bytes - bytes,
             PT_DAMAGED, "%s: /%s/%s reaches beyond the end of the file", path,
             tensor->group, tensor->name);
    item->offset = (int64_t)at;
    return PT_OK;
}

static pt_status_t checkpoint_read_item(const visit_t *visit, hid_t dataset,
                                        const char *name)
{
    pt_checkpoint_content_t *content = visit->content;

    PT_CHECK(content->count < PT_CHECKPOINT_MAX_TENSORS, PT_DAMAGED,
             "%s: more than %d tensors", visit->path, PT_CHECKPOINT_MAX_TENSORS);
    if (content->count == content->room) {
        int room = content->room == 0 ? 64 : 2 * content->room;
        PT_TRY(pt_realloc("checkpoint tensors", (size_t)content->room, (size_t)room,
                          sizeof *content->items, (void **)&content->items));
        content->room = room;
    }
    pt_checkpoint_item_t *item = &content->items[content->count];
    PT_TRY(checkpoint_split_name(visit->path, name, &item->tensor));
    PT_TRY(checkpoint_read_shape(visit->path, dataset, name, &item->tensor));
    PT_TRY(checkpoint_read_place(visit->path, dataset, content->file_bytes, item));
    PT_TRY(pt_checkpoint_read_digest(dataset, visit->path, name, &item->digest));
    content->count++;
    return PT_OK;
}

static pt_status_t checkpoint_parse_check_text(const char *path, hid_t dataset,
                                               const char *name, const char *text)
{
    uint64_t digest;

    PT_TRY(pt_checkpoint_read_digest(dataset, path, name, &digest));
    PT_CHECK(digest == pt_name_id(text), PT_DAMAGED, "%s: the text /%s is damaged",
             path, name);
    return PT_OK;
}

static pt_status_t checkpoint_read_text(const visit_t *visit, hid_t dataset,
                                        const char *name, char **out)
{
    const char *path = visit->path;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    size_t size = type >= 0 ? H5Tget_size(type) : 0;
    bool fits = size >= 1 && size <= PT_CHECKPOINT_MAX_TEXT &&
                (int64_t)size <= visit->content->file_bytes &&
                H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
                space >= 0 && H5Sget_simple_extent_type(space) == H5S_SCALAR &&
                H5Dget_offset(dataset) != HADDR_UNDEF; /* contiguous, in this file */
    pt_status_t status;

    if (!fits)
        status =
            PT_FAIL(PT_DAMAGED, "%s: /%s is not one text of fixed length", path, name);
    else
        status = pt_alloc("checkpoint text", size + 1, 1, (void **)out);
    if (status == PT_OK &&
        H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) < 0)
        status = PT_H5_DAMAGED(path, "cannot read the text /%s", name);
    pt_h5_close(&space);
    pt_h5_close(&type);
    return status == PT_OK ? checkpoint_parse_check_text(path, dataset, name, *out)
                           : status;
}

static pt_status_t checkpoint_visit_dataset(const visit_t *visit, hid_t dataset,
                                            const char *name)
{
    if (strcmp(name, "config") == 0 && !visit->content->config)
        return checkpoint_read_text(visit, dataset, name, &visit->content->config);
    if (strcmp(name, "hosts") == 0 && !visit->content->hosts)
        return checkpoint_read_text(visit, dataset, name, &visit->content->hosts);
    return checkpoint_read_item(visit, dataset, name);
}

static pt_status_t checkpoint_visit_link(const visit_t *visit, hid_t root,
                                         const char *name, H5L_type_t type)
{
    hid_t object;
    pt_status_t status = PT_OK;

    PT_CHECK(type == H5L_TYPE_HARD, PT_DAMAGED,
             "%s: /%.200s is a link to another object", visit->path, name);
    object = H5Oopen(root, name, H5P_DEFAULT);
    if (object < 0)
        return PT_H5_DAMAGED(visit->path, "cannot open /%.200s", name);
    switch (H5Iget_type(object)) {
    case H5I_GROUP: break;
    case H5I_DATASET: status = checkpoint_visit_dataset(visit, object, name); break;
    default:
        status = PT_FAIL(PT_DAMAGED, "%s: /%.200s is neither a group nor a dataset",
                         visit->path, name);
    }
    pt_h5_close(&object);
    return status;
}

static herr_t checkpoint_on_link(hid_t root, const char *name, const H5L_info_t *info,
                                 void *context)
{
    visit_t *visit = context;

    visit->status = checkpoint_visit_link(visit, root, name, info->type);
    return visit->status == PT_OK ? 0 : -1;
}

/* The digest of the state is defined as the sum over the weights. */
static pt_status_t checkpoint_check_sum(const char *path,
                                        const pt_checkpoint_content_t *content)
{
    uint64_t sum = 0;

    for (int i = 0; i < content->count; i++)
        if (pt_checkpoint_is_weight(&content->items[i].tensor))
            sum += content->items[i].digest;
    PT_CHECK(sum == content->header.digest, PT_DAMAGED,
             "%s: its digest %016llx is not the sum of its tensors' digests, %016llx",
             path, (unsigned long long)content->header.digest, (unsigned long long)sum);
    return PT_OK;
}

static int checkpoint_parse_by_name(const void *left, const void *right)
{
    const pt_checkpoint_tensor_t *a = &((const pt_checkpoint_item_t *)left)->tensor;
    const pt_checkpoint_tensor_t *b = &((const pt_checkpoint_item_t *)right)->tensor;
    int order = strcmp(a->group, b->group);

    return order != 0 ? order : strcmp(a->name, b->name);
}

/* Iterates in native order: for a sorted order HDF5 1.10 makes a table of all names,
 * and if the index of a large group is damaged, it frees entries that it never
 * filled. */
static pt_status_t checkpoint_list_contents(hid_t file, const char *path,
                                            pt_checkpoint_content_t *out)
{
    visit_t visit = {.path = path, .content = out};

    if (H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, checkpoint_on_link, &visit) < 0)
        return visit.status != PT_OK
                   ? visit.status
                   : PT_H5_DAMAGED(path, "its contents cannot be listed");
    if (out->count > 0)
        qsort(out->items, (size_t)out->count, sizeof *out->items,
              checkpoint_parse_by_name);
    return PT_OK;
}

static pt_status_t parse_file(hid_t file, const char *path, pt_checkpoint_content_t *out)
{
    PT_TRY(pt_checkpoint_read_header(file, path, &out->header));
    PT_TRY(checkpoint_list_contents(file, path, out));
    PT_CHECK(out->config, PT_DAMAGED, "%s: /config is missing", path);
    PT_CHECK(out->hosts, PT_DAMAGED, "%s: /hosts is missing", path);
    PT_CHECK(out->count > 0, PT_DAMAGED, "%s: holds no tensors", path);
    return checkpoint_check_sum(path, out);
}

/* Opens the file before HDF5 does: HDF5 hides the reason of a failure, and would wait
 * for the writer of a pipe. */
static pt_status_t checkpoint_parse_check_kind(const char *path, int64_t *bytes)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return pt_file_unreadable(path, errno);
    int error = fstat(fd, &info) == 0 ? 0 : errno;
    close(fd);
    if (error != 0)
        return pt_file_unreadable(path, error);
    PT_CHECK(!S_ISDIR(info.st_mode), PT_IO,
             "%s: is a directory, not a checkpoint file; move it away, or name a file",
             path);
    PT_CHECK(S_ISREG(info.st_mode), PT_IO,
             "%s: is not a regular file; move it away, or name a checkpoint", path);
    PT_CHECK(info.st_size > 0, PT_DAMAGED, "%s: is empty", path);
    *bytes = info.st_size;
    return PT_OK;
}

static pt_status_t checkpoint_open_checked(const char *path, int64_t *bytes, hid_t *file)
{
    PT_TRY(pt_checkpoint_inject("checkpoint.open", path));
    PT_TRY(checkpoint_parse_check_kind(path, bytes));
    pt_h5_init();
    int known = H5Fis_hdf5(path);
    struct stat info;
    if (known < 0 && stat(path, &info) != 0)
        return pt_file_unreadable(path, errno);
    if (known < 0)
        return PT_H5_DAMAGED(path, "HDF5 cannot open it");
    PT_CHECK(known > 0, PT_DAMAGED,
             "%s: is not a HDF5 file (or its beginning is damaged)", path);
    return pt_h5_open_file(path, H5F_ACC_RDONLY, file);
}

pt_status_t pt_checkpoint_parse(const char *path, pt_checkpoint_content_t *out)
{
    pt_status_t status;
    hid_t file;

    memset(out, 0, sizeof *out);
    PT_TRY(checkpoint_open_checked(path, &out->file_bytes, &file));
    status = parse_file(file, path, out);
    pt_h5_close(&file);
    return status;
}

pt_status_t pt_checkpoint_peek(const char *path, int64_t *step)
{
    pt_checkpoint_header_t header;
    int64_t bytes;
    hid_t file;

    PT_TRY(checkpoint_open_checked(path, &bytes, &file));
    pt_status_t status = pt_checkpoint_read_header(file, path, &header);
    pt_h5_close(&file);
    if (status == PT_OK)
        *step = header.step;
    return status;
}

void pt_checkpoint_content_free(pt_checkpoint_content_t *content)
{
    pt_free(content->hosts);
    pt_free(content->config);
    pt_free(content->items);
}
