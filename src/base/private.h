/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — what the files of src/base share. */
#ifndef PENTA_BASE_PRIVATE_H
#define PENTA_BASE_PRIVATE_H

#include "penta/base/tensor.h"

/* Dense, replicated, of 1 to PT_MAX_DIMS dimensions. `data` borrowed. */
pt_tensor_t pt_tensor_dense(void *data, pt_dtype_t dtype, pt_memory_t memory, int ndim,
                            const int64_t *shape);

#endif
