/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. One op is one BLAS call. Narrow operands that no library takes are
 * converted block by block. */
#include "pt_autoconf.h"
#include "src/ops/cpu/kernel.h"
#include "src/ops/cpu/matmul.h"
#include "src/ops/gemm.h"
#include <limits.h>
#include PT_CBLAS_HEADER

typedef struct pt_sizes {
    int64_t m, n, k;
} pt_sizes_t;

/* Returns a row stride that BLAS accepts: that of a matrix of one row is arbitrary. */
static int64_t gemm_leading(const pt_tensor_t *x)
{
    return pt_max(x->stride[0], pt_max(x->shape[1], 1));
}

static void gemm_multiply(const pt_op_gemm_t *a, pt_sizes_t size)
{
    enum CBLAS_TRANSPOSE ta = a->trans_a ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE tb = a->trans_b ? CblasTrans : CblasNoTrans;
    int lda = (int)gemm_leading(&a->a), ldb = (int)gemm_leading(&a->b),
        ldc = (int)gemm_leading(&a->c);

    if (a->c.dtype == PT_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, (int)size.m, (int)size.n, (int)size.k, 1.0,
                    a->a.data, lda, a->b.data, ldb, a->accumulate ? 1.0 : 0.0,
                    a->c.data, ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, (int)size.m, (int)size.n, (int)size.k, 1.0f,
                    a->a.data, lda, a->b.data, ldb, a->accumulate ? 1.0f : 0.0f,
                    a->c.data, ldc);
}

/* Rows row[0] … row[0] + row[1] - 1 of x, and the columns given by `col` in the same
 * way. */
static pt_tensor_t gemm_part_of(pt_tensor_t x, const int64_t row[2],
                                const int64_t col[2])
{
    return pt_tensor_slice(pt_tensor_slice(x, 0, row[0], row[1]), 1, col[0], col[1]);
}

/* The same part of an operand that may be transposed. */
static pt_tensor_t gemm_operand(const pt_tensor_t *x, bool trans, const int64_t row[2],
                                const int64_t col[2])
{
    return gemm_part_of(*x, trans ? col : row, trans ? row : col);
}

/* Converts x to fp32 in `room`. */
static pt_tensor_t gemm_widened(struct pt_stream *stream, pt_tensor_t x, float *room)
{
    int64_t cols = x.shape[1];
    PT_PARALLEL
    for (int64_t r = 0; r < x.shape[0]; r++) {
        const void *from = PT_ELEMENT(const void, x, r *x.stride[0]);
        PT_KERNEL(widen_f32)(x.dtype, from, room + r * cols, cols);
    }
    return pt_tensor_2d(room, PT_F32, PT_MEMORY_DEVICE, x.shape[0], cols);
}

/* to = from, or (+=); rounds once. */
static void gemm_narrow(struct pt_stream *stream, const pt_tensor_t *to,
                        const pt_tensor_t *from, bool add)
{
    int64_t cols = from->shape[1];
    PT_PARALLEL
    for (int64_t r = 0; r < from->shape[0]; r++)
        PT_KERNEL(put_f32)
    (to, r * to->stride[0], (const float *)from->data + r * cols, cols, add);
}

/* Computes a c of type fp32; divides the depth into blocks. */
static void gemm_convert_and_multiply(struct pt_stream *stream, const pt_op_gemm_t *a,
                                      int64_t depth)
{
    float *room = (float *)(void *)stream->workspace.memory;
    const int64_t row[2] = {0, a->c.shape[0]}, col[2] = {0, a->c.shape[1]};
    pt_op_gemm_t part = *a;

    for (int64_t from = 0; from < depth; from += PT_GEMM_BLOCK) {
        const int64_t deep[2] = {from, pt_min(PT_GEMM_BLOCK, depth - from)};
        part.a = gemm_widened(stream, gemm_operand(&a->a, a->trans_a, row, deep), room);
        part.b = gemm_widened(stream, gemm_operand(&a->b, a->trans_b, deep, col),
                              room + PT_GEMM_BLOCK * PT_GEMM_BLOCK);
        gemm_multiply(&part, (pt_sizes_t){row[1], col[1], deep[1]});
        part.accumulate = true;
    }
}

static pt_status_t gemm_try_bf16(struct pt_stream *stream, const pt_op_gemm_t *a,
                                 bool *done)
{
    *done = false;
    if (stream->matmul && a->a.dtype == PT_BF16)
        PT_TRY(pt_matmul_run(stream->matmul, a, done));
    return PT_OK;
}

/* Computes one block of c in fp32; if c is narrow, in the workspace. */
static pt_status_t gemm_multiply_block(struct pt_stream *stream, const pt_op_gemm_t *a,
                                       int64_t depth)
{
    pt_op_gemm_t wide = *a;
    bool is_narrow = a->c.dtype != PT_F32, done = false;

    if (is_narrow) {
        float *room = (float *)(void *)stream->workspace.memory;
        wide.c = pt_tensor_2d(room + 2 * PT_GEMM_BLOCK * PT_GEMM_BLOCK, PT_F32,
                              PT_MEMORY_DEVICE, a->c.shape[0], a->c.shape[1]);
        wide.accumulate = false;
    }
    PT_TRY(gemm_try_bf16(stream, &wide, &done));
    if (!done)
        gemm_convert_and_multiply(stream, &wide, depth);
    if (is_narrow)
        gemm_narrow(stream, &a->c, &wide.c, a->accumulate);
    return PT_OK;
}

static pt_status_t gemm_multiply_narrow(struct pt_stream *stream, const pt_op_gemm_t *a,
                                        pt_sizes_t size)
{
    const int64_t deep[2] = {0, size.k};
    bool done = false;

    PT_TRY(gemm_try_bf16(stream, a, &done));
    for (int64_t i = 0; !done && i < size.m; i += PT_GEMM_BLOCK)
        for (int64_t j = 0; j < size.n; j += PT_GEMM_BLOCK) {
            const int64_t row[2] = {i, pt_min(PT_GEMM_BLOCK, size.m - i)};
            const int64_t col[2] = {j, pt_min(PT_GEMM_BLOCK, size.n - j)};
            pt_op_gemm_t block = *a;
            block.a = gemm_operand(&a->a, a->trans_a, row, deep);
            block.b = gemm_operand(&a->b, a->trans_b, deep, col);
            block.c = gemm_part_of(a->c, row, col);
            PT_TRY(gemm_multiply_block(stream, &block, size.k));
        }
    return PT_OK;
}

pt_status_t PT_KERNEL(gemm)(struct pt_stream *stream, const pt_op_gemm_t *a)
{
    pt_sizes_t size = {a->c.shape[0], a->c.shape[1], a->a.shape[a->trans_a ? 0 : 1]};
    int64_t lda = gemm_leading(&a->a), ldb = gemm_leading(&a->b),
            ldc = gemm_leading(&a->c);
    int64_t largest =
        pt_max(pt_max(pt_max(size.m, size.n), size.k), pt_max(pt_max(lda, ldb), ldc));

    PT_CHECK(largest <= INT_MAX, PT_CONFIG,
             "gemm [%lld, %lld, %lld], row stride up to %lld: BLAS takes 32-bit sizes",
             (long long)size.m, (long long)size.n, (long long)size.k,
             (long long)largest);
    if (size.m == 0 || size.n == 0)
        return PT_OK;
    if (size.k == 0) {
        pt_op_fill_t zero = {.x = a->c, .value = 0};
        return a->accumulate ? PT_OK : PT_KERNEL(fill)(stream, &zero);
    }
    if (a->a.dtype == PT_BF16 || a->a.dtype == PT_F16)
        return gemm_multiply_narrow(stream, a, size);
    gemm_multiply(a, size);
    return PT_OK;
}
