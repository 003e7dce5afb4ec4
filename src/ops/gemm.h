/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h — blocks of a matrix product that is converted to fp32 (private to
 * src/ops). */
#ifndef PT_OPS_GEMM_H
#define PT_OPS_GEMM_H

/* Largest number of rows, columns and depth of a block. The scratch has three blocks:
 * a, b, c. */
enum { PT_GEMM_BLOCK = 512 };

#endif
