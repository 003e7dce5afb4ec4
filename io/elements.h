/* SPDX-License-Identifier: Apache-2.0 */
/* elements.h — the elements of a stored tensor (private to io and to commands that scan
 * files). */
#ifndef PT_IO_ELEMENTS_H
#define PT_IO_ELEMENTS_H

#include "penta/io/checkpoint.h"

/* Number of elements; 0: the shape is not supported (a dimension < 1, or too many
 * bytes). */
int64_t pt_checkpoint_elements(const pt_checkpoint_tensor_t *tensor);
/* Fails: INTERNAL unless the hyperslab is within the tensor. */
pt_status_t pt_elements_check(const pt_checkpoint_tensor_t *tensor,
                              const pt_hyperslab_t *slab);
/* Digest of a hyperslab. data: its elements, dense. */
uint64_t pt_elements_digest(const pt_checkpoint_tensor_t *tensor,
                            const pt_hyperslab_t *slab, const void *data);
/* Reads a hyperslab of the tensor that starts at byte `at` of the file.
 * Fails: IO, DAMAGED. */
pt_status_t pt_elements_pread(int fd, const char *path, int64_t at,
                              const pt_checkpoint_tensor_t *tensor,
                              const pt_hyperslab_t *slab, void *data);
/* Writes a hyperslab of that tensor. Fails: IO. */
pt_status_t pt_elements_pwrite(int fd, const char *path, int64_t at,
                               const pt_checkpoint_tensor_t *tensor,
                               const pt_hyperslab_t *slab, const void *data);

#endif
