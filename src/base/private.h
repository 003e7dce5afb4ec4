/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — shared by the files of src/base. */
#ifndef PENTA_BASE_PRIVATE_H
#define PENTA_BASE_PRIVATE_H

#include "penta/base/tensor.h"

/* Returns a dense tensor of 1 to PT_MAX_DIMS dimensions, replicated on every axis.
 * `data` is borrowed. */
pt_tensor_t pt_tensor_dense(void *data, pt_dtype_t dtype, pt_memory_t memory, int ndim,
                            const int64_t *shape);

#endif
