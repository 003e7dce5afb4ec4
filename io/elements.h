/* SPDX-License-Identifier: Apache-2.0 */
/* elements.h — the elements of a stored tensor (private to io and to the commands that scan files). */
#ifndef PT_IO_ELEMENTS_H
#define PT_IO_ELEMENTS_H

#include "penta/io/checkpoint.h"

/* Elements of the tensor, 0 when its shape is none we keep: dimensions < 1, overflow of bytes. */
int64_t pt_checkpoint_elements(const pt_checkpoint_tensor_t *tensor);
/* INTERNAL unless the hyperslab lies within the tensor. */
pt_status_t pt_elements_check(const pt_checkpoint_tensor_t *tensor,
                              const pt_hyperslab_t *slab);
/* Digest of a hyperslab whose elements, dense, are `data`. */
uint64_t pt_elements_digest(const pt_checkpoint_tensor_t *tensor,
                            const pt_hyperslab_t *slab, const void *data);
/* Reads a hyperslab of the tensor that starts at byte `at` of the file. */
pt_status_t pt_elements_pread(int fd, const char *path, int64_t at,
                              const pt_checkpoint_tensor_t *tensor,
                              const pt_hyperslab_t *slab, void *data);
/* Writes one. */
pt_status_t pt_elements_pwrite(int fd, const char *path, int64_t at,
                               const pt_checkpoint_tensor_t *tensor,
                               const pt_hyperslab_t *slab, const void *data);

#endif
