/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h — products of bf16 matrices by oneDNN (private to src/ops/cpu).
 *
 * A product is compiled for its shape, strides, transpositions, type of c and number of
 * threads: when it is prepared, or else at its first use (0.1 to 1 ms, 10 ms at worst).
 * The device keeps it. oneDNN keeps packing buffers of its own, as BLAS libraries do:
 * at most PT_MATMUL_SCRATCH per thread. Subnormal operands count as zero. */
#ifndef PT_CPU_MATMUL_H
#define PT_CPU_MATMUL_H

#include "penta/ops/ops.h"

struct pt_matmul;

enum { PT_MATMUL_SCRATCH = 4 << 20 };

/* `*out` is NULL if this build or this processor lacks bf16 products. The caller frees
 * it with pt_matmul_destroy. Fails: MEMORY, INTERNAL (local). */
pt_status_t pt_matmul_create(int threads, struct pt_matmul **out);
/* Appends a text such as " and oneDNN 2.6.3". */
void pt_matmul_add_name(char *text, size_t size);
void pt_matmul_destroy(struct pt_matmul *matmul);
/* c = op(a)·op(b), or (+=). a, b: bf16; c: bf16 or fp32; no size is 0. *done is false
 * if oneDNN has no suitable implementation for these shapes and strides; c is then
 * unchanged. Fails: INTERNAL (local). */
pt_status_t pt_matmul_run(struct pt_matmul *matmul, const pt_op_gemm_t *a, bool *done);
/* Compiles a product of the shapes and strides of `a` without touching data. Fails:
 * INTERNAL (local). */
pt_status_t pt_matmul_prepare(struct pt_matmul *matmul, const pt_op_gemm_t *a);

#endif
