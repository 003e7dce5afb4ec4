/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel table of one instruction set level. */
#include "src/ops/cpu/kernel.h"

extern const pt_kernels_t PT_KERNEL(table);

const pt_kernels_t PT_KERNEL(table) = {
    .name = "cpu " PT_STRING(PT_ISA),
#define PT_OP(op, dtypes, flops, bytes, workspace) .op = PT_KERNEL(op),
#include "penta/ops/ops.def"
#undef PT_OP
};
