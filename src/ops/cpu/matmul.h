/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h — products of bf16 matrices by oneDNN (private to src/ops/cpu).
 *
 * A product of one shape, with its strides, transpositions, type of c and number of threads, is
 * compiled when it is prepared, or else when it first occurs (0.1 to 1 ms, 10 ms at worst), and kept
 * with the device. oneDNN keeps packing buffers of its own, at most
 * PT_MATMUL_SCRATCH a thread, as BLAS libraries do. Subnormal operands count as zero. */
#ifndef PT_CPU_MATMUL_H
#define PT_CPU_MATMUL_H

#include "penta/ops/ops.h"

struct pt_matmul;

enum { PT_MATMUL_SCRATCH = 4 << 20 };

/* NULL where this build or this processor lacks them. Fails: MEMORY, INTERNAL (local). */
pt_status_t pt_matmul_create(int threads, struct pt_matmul **out);
/* Appends " and oneDNN 2.6.3". */
void pt_matmul_add_name(char *text, size_t size);
void pt_matmul_destroy(struct pt_matmul *matmul);
/* c (+)= op(a)·op(b), a and b bf16, c bf16 or fp32, no size 0. *done: false where oneDNN has no
 * good way for these shapes and strides, and nothing was done. Fails: INTERNAL (local). */
pt_status_t pt_matmul_run(struct pt_matmul *matmul, const pt_op_gemm_t *a, bool *done);
/* Compiles what the like of `a` needs; data is not looked at. Fails: INTERNAL (local). */
pt_status_t pt_matmul_prepare(struct pt_matmul *matmul, const pt_op_gemm_t *a);

#endif
