/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h — what a device provides (private to src/ops).
 *
 * A backend is one function that fills a zeroed pt_device_t: ops, kernels, isa,
 * threads, dry, state. device.c lists it, checks that its kernel table is complete, and
 * owns the struct. ops->close frees state. ops->alloc returns MEMORY without raising an
 * error: the caller knows what the memory is for and raises it. */
#ifndef PT_OPS_BACKEND_H
#define PT_OPS_BACKEND_H

#include "penta/ops/device.h"

typedef pt_status_t (*pt_backend_open_fn)(const pt_device_options_t *options,
                                          pt_device_t *device);

/* The first member of every pt_stream; set by pt_device_set_workspace. */
typedef struct pt_workspace {
    char *memory;
    int64_t bytes;
} pt_workspace_t;

pt_status_t pt_device_open_cpu(const pt_device_options_t *options, pt_device_t *device);
pt_status_t pt_device_open_shadow(const pt_device_options_t *options,
                                  pt_device_t *device);
pt_status_t pt_device_open_dry(const pt_device_options_t *options, pt_device_t *device);

/* The check of each op: shapes, types, memory kinds and required operands.
 *   dtypes_  [in] types that T may have: mask of 1 << pt_dtype_t from ops.def
 * Fails: INTERNAL, naming op and operand. */
#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    pt_status_t pt_check_##name(const pt_op_##name##_t *a, unsigned dtypes_);
#include "penta/ops/ops.def"
#undef PT_OP

#endif
