/* SPDX-License-Identifier: Apache-2.0 */
#include "io/box.h"

#include "io/file.h"
#include "penta/base/digest.h"

int64_t pt_checkpoint_elements(const pt_checkpoint_tensor_t *tensor)
{
    int64_t n = 1, limit = INT64_MAX / (int64_t)pt_dtype_size(tensor->dtype);

    if (tensor->ndim < 1 || tensor->ndim > PT_CHECKPOINT_DIMS)
        return 0;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] < 1 || tensor->shape[d] > limit / n)
            return 0;
        n *= tensor->shape[d];
    }
    return n;
}

pt_box_t pt_box_whole(const pt_checkpoint_tensor_t *tensor)
{
    pt_box_t box;

    for (int d = 0; d < PT_CHECKPOINT_DIMS; d++) {
        box.start[d] = 0;
        box.count[d] = d < tensor->ndim ? tensor->shape[d] : 1;
    }
    return box;
}

pt_status_t pt_box_make(const pt_checkpoint_tensor_t *tensor, const int64_t *start,
                        const int64_t *count, pt_box_t *out)
{
    *out = pt_box_whole(tensor);
    for (int d = 0; d < tensor->ndim; d++) {
        PT_CHECK(start[d] >= 0 && count[d] >= 0 && start[d] <= tensor->shape[d] &&
                     count[d] <= tensor->shape[d] - start[d],
                 PT_INTERNAL, "%s/%s: rectangle %lld+%lld exceeds dimension %d of %lld",
                 tensor->group, tensor->name, (long long)start[d], (long long)count[d],
                 d, (long long)tensor->shape[d]);
        out->start[d] = start[d];
        out->count[d] = count[d];
    }
    return PT_OK;
}

int64_t pt_box_elements(const pt_box_t *box)
{
    return box->count[0] * box->count[1] * box->count[2];
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

pt_box_walk_t pt_box_walk(const pt_box_t *box, size_t element_bytes, int64_t bytes)
{
    pt_box_walk_t walk = {.box = *box, .step = {1, 1, 1}, .at = {0, 0, -1}};
    int64_t room = bytes / (int64_t)element_bytes;

    /* The outer dimensions are cut first, so that pieces stay dense. */
    for (int d = PT_CHECKPOINT_DIMS - 1; d >= 0 && box->count[d] > 0; d--) {
        walk.step[d] = clamp(room, 1, box->count[d]);
        if (walk.step[d] < box->count[d])
            break;
        room /= box->count[d];
    }
    return walk;
}

bool pt_box_next(pt_box_walk_t *walk)
{
    const pt_box_t *box = &walk->box;
    int d = PT_CHECKPOINT_DIMS - 1;

    if (pt_box_elements(box) == 0)
        return false;
    if (walk->at[d] < 0) {
        walk->at[d] = 0;
    } else {
        for (; d >= 0; d--) {
            walk->at[d] += walk->step[d];
            if (walk->at[d] < box->count[d])
                break;
            walk->at[d] = 0;
        }
        if (d < 0)
            return false;
    }
    walk->offset = 0;
    for (d = 0; d < PT_CHECKPOINT_DIMS; d++) {
        walk->piece.start[d] = box->start[d] + walk->at[d];
        walk->piece.count[d] = clamp(walk->step[d], 1, box->count[d] - walk->at[d]);
        walk->offset = walk->offset * box->count[d] + walk->at[d];
    }
    return true;
}

/* Row-major index in the tensor of element (a, b, 0) of the box. */
static int64_t index_of(const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                        int64_t a, int64_t b)
{
    pt_box_t whole = pt_box_whole(tensor);

    return ((box->start[0] + a) * whole.count[1] + box->start[1] + b) * whole.count[2] +
           box->start[2];
}

uint64_t pt_box_digest(const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                       const void *data)
{
    const int64_t *count = box->count;
    int64_t plane_bytes = count[1] * count[2] * (int64_t)pt_dtype_size(tensor->dtype);
    pt_box_t whole = pt_box_whole(tensor);
    uint64_t digest = 0;

    for (int64_t a = 0; a < count[0]; a++)
        digest += pt_digest_block(
            tensor->id, tensor->dtype, (const char *)data + a * plane_bytes, count[1],
            count[2], index_of(tensor, box, a, 0), whole.count[2]);
    return digest;
}

/* The parts of a box that lie in one piece in the file. */
typedef struct runs {
    int64_t planes, rows, bytes;
} runs_t;

static runs_t find_runs(const pt_checkpoint_tensor_t *tensor, const pt_box_t *box)
{
    pt_box_t whole = pt_box_whole(tensor);
    runs_t runs = {box->count[0], box->count[1],
                   box->count[2] * (int64_t)pt_dtype_size(tensor->dtype)};

    /* Whole rows follow each other in the file, and so do whole planes. */
    if (box->count[2] == whole.count[2]) {
        runs.bytes *= runs.rows;
        runs.rows = 1;
        if (box->count[1] == whole.count[1]) {
            runs.bytes *= runs.planes;
            runs.planes = 1;
        }
    }
    return runs;
}

pt_status_t pt_box_pread(int fd, const char *path, int64_t at,
                         const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                         void *data)
{
    runs_t runs = find_runs(tensor, box);
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype);
    char *to = data;

    for (int64_t a = 0; a < runs.planes; a++)
        for (int64_t b = 0; b < runs.rows; b++, to += runs.bytes)
            PT_TRY(pt_file_pread(fd, path, to, runs.bytes,
                                 at + index_of(tensor, box, a, b) * size));
    return PT_OK;
}

pt_status_t pt_box_pwrite(int fd, const char *path, int64_t at,
                          const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                          const void *data)
{
    runs_t runs = find_runs(tensor, box);
    int64_t size = (int64_t)pt_dtype_size(tensor->dtype);
    const char *from = data;

    for (int64_t a = 0; a < runs.planes; a++)
        for (int64_t b = 0; b < runs.rows; b++, from += runs.bytes)
            PT_TRY(pt_file_pwrite(fd, path, from, runs.bytes,
                                  at + index_of(tensor, box, a, b) * size));
    return PT_OK;
}
