/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h — blocks of a matrix product by conversion to fp32 (private to src/ops). */
#ifndef PT_OPS_GEMM_H
#define PT_OPS_GEMM_H

/* Rows, columns and depth of a block at most. The scratch has three: of a, b and c. */
enum { PT_GEMM_BLOCK = 512 };

#endif
