/* SPDX-License-Identifier: Apache-2.0 */
/* box.h — rectangles of tensors of 1 to 3 dimensions, cut into pieces (private to io and to the
 * commands that scan files). Dimensions beyond ndim count 1. */
#ifndef PT_IO_BOX_H
#define PT_IO_BOX_H

#include "penta/io/checkpoint.h"

typedef struct pt_box {
    int64_t start[PT_CHECKPOINT_DIMS], count[PT_CHECKPOINT_DIMS];
} pt_box_t;

/* Walks a box in pieces of at most `bytes` (but one element at least). Each piece is dense in
 * the dense box: it begins at element `offset` of it. */
typedef struct pt_box_walk {
    pt_box_t box, piece;
    int64_t step[PT_CHECKPOINT_DIMS], at[PT_CHECKPOINT_DIMS];
    int64_t offset;
} pt_box_walk_t;

/* Elements of the tensor, 0 when its shape is none we keep: dimensions < 1, overflow of bytes. */
int64_t pt_checkpoint_elements(const pt_checkpoint_tensor_t *tensor);
pt_box_t pt_box_whole(const pt_checkpoint_tensor_t *tensor);
/* INTERNAL unless the box lies within the tensor. */
pt_status_t pt_box_make(const pt_checkpoint_tensor_t *tensor, const int64_t *start,
                        const int64_t *count, pt_box_t *out);
int64_t pt_box_elements(const pt_box_t *box);

pt_box_walk_t pt_box_walk(const pt_box_t *box, size_t element_bytes, int64_t bytes);
bool pt_box_next(pt_box_walk_t *walk); /* false: no further piece */

/* Digest of a dense box. */
uint64_t pt_box_digest(const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                       const void *data);
/* Reads a box of the tensor that starts at byte `at` of the file. */
pt_status_t pt_box_pread(int fd, const char *path, int64_t at,
                         const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                         void *data);
/* Writes one. */
pt_status_t pt_box_pwrite(int fd, const char *path, int64_t at,
                          const pt_checkpoint_tensor_t *tensor, const pt_box_t *box,
                          const void *data);

#endif
