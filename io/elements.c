/* SPDX-License-Identifier: Apache-2.0 */
#include "io/elements.h"

#include "io/file.h"
#include "penta/base/digest.h"

int64_t pt_checkpoint_elements(const pt_checkpoint_tensor_t *tensor)
{
    int64_t n = 1, limit = INT64_MAX / (int64_t)pt_dtype_size(tensor->dtype);

    if (tensor->ndim < 1 || tensor->ndim > PT_HYPERSLAB_DIMS)
        return 0;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] < 1 || tensor->shape[d] > limit / n)
            return 0;
        n *= tensor->shape[d];
    }
    return n;
}

pt_status_t pt_elements_check(const pt_checkpoint_tensor_t *tensor,
                              const pt_hyperslab_t *slab)
{
    for (int d = 0; d < tensor->ndim; d++)
        PT_CHECK(slab->start[d] >= 0 && slab->count[d] >= 0 &&
                     slab->start[d] <= tensor->shape[d] &&
                     slab->count[d] <= tensor->shape[d] - slab->start[d],
                 PT_INTERNAL, "%s/%s: hyperslab %lld+%lld exceeds dimension %d of %lld",
                 tensor->group, tensor->name, (long long)slab->start[d],
                 (long long)slab->count[d], d, (long long)tensor->shape[d]);
    return PT_OK;
}

static pt_hyperslab_plane_t elements_plane(const pt_checkpoint_tensor_t *tensor,
                                           const pt_hyperslab_t *slab, int64_t index)
{
    return pt_hyperslab_plane(slab, tensor->ndim, tensor->shape, index);
}

uint64_t pt_elements_digest(const pt_checkpoint_tensor_t *tensor,
                            const pt_hyperslab_t *slab, const void *data)
{
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype);
    uint64_t digest = 0;

    for (int64_t i = 0; i < pt_hyperslab_planes(slab, tensor->ndim); i++) {
        pt_hyperslab_plane_t p = elements_plane(tensor, slab, i);
        const char *from = (const char *)data + (p.local - slab->local) * size;
        digest += pt_digest_block(tensor->id, tensor->dtype, from, p.rows, p.cols,
                                  p.first, p.pitch);
    }
    return digest;
}

/* Joins complete rows of a plane, which are contiguous in the file. */
static void elements_join_rows(pt_hyperslab_plane_t *plane)
{
    if (plane->cols != plane->pitch)
        return;
    plane->cols *= plane->rows;
    plane->rows = 1;
}

pt_status_t pt_elements_pread(int fd, const char *path, int64_t at,
                              const pt_checkpoint_tensor_t *tensor,
                              const pt_hyperslab_t *slab, void *data)
{
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype);
    char *to = data;

    for (int64_t i = 0; i < pt_hyperslab_planes(slab, tensor->ndim); i++) {
        pt_hyperslab_plane_t p = elements_plane(tensor, slab, i);
        elements_join_rows(&p);
        for (int64_t r = 0; r < p.rows; r++, to += p.cols * size)
            PT_TRY(pt_file_pread(fd, path, to, p.cols * size,
                                 at + (p.first + r * p.pitch) * size));
    }
    return PT_OK;
}

pt_status_t pt_elements_pwrite(int fd, const char *path, int64_t at,
                               const pt_checkpoint_tensor_t *tensor,
                               const pt_hyperslab_t *slab, const void *data)
{
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype);
    const char *from = data;

    for (int64_t i = 0; i < pt_hyperslab_planes(slab, tensor->ndim); i++) {
        pt_hyperslab_plane_t p = elements_plane(tensor, slab, i);
        elements_join_rows(&p);
        for (int64_t r = 0; r < p.rows; r++, from += p.cols * size)
            PT_TRY(pt_file_pwrite(fd, path, from, p.cols * size,
                                  at + (p.first + r * p.pitch) * size));
    }
    return PT_OK;
}
