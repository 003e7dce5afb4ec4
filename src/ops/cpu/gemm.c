/* One op, one BLAS call, or one for each block where operands are converted first. */
#include "pt_autoconf.h"
#include "src/ops/cpu/kernel.h"
#include "src/ops/gemm.h"
#include <limits.h>
#include PT_CBLAS_HEADER

typedef struct pt_sizes {
    int64_t m, n, k;
} pt_sizes_t;

/* Row stride BLAS accepts: a matrix of one row may carry any. */
static int64_t leading(const pt_tensor_t *x)
{
    return pt_max(x->stride[0], pt_max(x->shape[1], 1));
}

static void multiply(const pt_op_gemm_t *a, pt_sizes_t size)
{
    enum CBLAS_TRANSPOSE ta = a->trans_a ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE tb = a->trans_b ? CblasTrans : CblasNoTrans;
    int lda = (int)leading(&a->a), ldb = (int)leading(&a->b), ldc = (int)leading(&a->c);

    if (a->c.dtype == PT_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, (int)size.m, (int)size.n, (int)size.k, 1.0,
                    a->a.data, lda, a->b.data, ldb, a->accumulate ? 1.0 : 0.0,
                    a->c.data, ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, (int)size.m, (int)size.n, (int)size.k, 1.0f,
                    a->a.data, lda, a->b.data, ldb, a->accumulate ? 1.0f : 0.0f,
                    a->c.data, ldc);
}

/* Rows [row, row + rows) and columns [col, col + cols) of x as fp32 in `room`. */
static pt_tensor_t widened(struct pt_stream *stream, pt_tensor_t x,
                           const int64_t row[2], const int64_t col[2], float *room)
{
    x = pt_tensor_slice(pt_tensor_slice(x, 0, row[0], row[1]), 1, col[0], col[1]);
    PT_PARALLEL
    for (int64_t r = 0; r < x.shape[0]; r++)
        PT_KERNEL(widen_f32)
    (x.dtype, PT_ELEMENT(const void, x, r *x.stride[0]), room + r * x.shape[1],
     x.shape[1]);
    return pt_tensor_2d(room, PT_F32, PT_MEMORY_DEVICE, x.shape[0], x.shape[1]);
}

/* Rows `row` and columns `col` of c, the depth in blocks. */
static void convert_block(struct pt_stream *stream, const pt_op_gemm_t *a,
                          const int64_t row[2], const int64_t col[2], int64_t depth)
{
    float *room = (float *)(void *)stream->workspace.memory;
    const int64_t block = (int64_t)PT_GEMM_BLOCK * PT_GEMM_BLOCK;
    pt_tensor_t c = pt_tensor_slice(a->c, 0, row[0], row[1]);
    pt_op_gemm_t part = {.trans_a = a->trans_a, .trans_b = a->trans_b};
    bool narrow = a->c.dtype != PT_F32;

    c = pt_tensor_slice(c, 1, col[0], col[1]);
    part.c = c;
    if (narrow)
        part.c =
            pt_tensor_2d(room + 2 * block, PT_F32, PT_MEMORY_DEVICE, row[1], col[1]);
    part.accumulate = a->accumulate && !narrow;
    for (int64_t from = 0; from < depth; from += PT_GEMM_BLOCK) {
        const int64_t deep[2] = {from, pt_min(PT_GEMM_BLOCK, depth - from)};
        part.a = widened(stream, a->a, a->trans_a ? deep : row, a->trans_a ? row : deep,
                         room);
        part.b = widened(stream, a->b, a->trans_b ? col : deep, a->trans_b ? deep : col,
                         room + block);
        multiply(&part, (pt_sizes_t){row[1], col[1], deep[1]});
        part.accumulate = true;
    }
    if (narrow)
        for (int64_t r = 0; r < row[1]; r++)
            PT_KERNEL(put_f32)
    (&c, r * c.stride[0], (const float *)part.c.data + r * col[1], col[1],
     a->accumulate);
}

static void convert_and_multiply(struct pt_stream *stream, const pt_op_gemm_t *a,
                                 pt_sizes_t size)
{
    for (int64_t i = 0; i < size.m; i += PT_GEMM_BLOCK)
        for (int64_t j = 0; j < size.n; j += PT_GEMM_BLOCK) {
            const int64_t row[2] = {i, pt_min(PT_GEMM_BLOCK, size.m - i)};
            const int64_t col[2] = {j, pt_min(PT_GEMM_BLOCK, size.n - j)};
            convert_block(stream, a, row, col, size.k);
        }
}

pt_status_t PT_KERNEL(gemm)(struct pt_stream *stream, const pt_op_gemm_t *a)
{
    pt_sizes_t size = {a->c.shape[0], a->c.shape[1], a->a.shape[a->trans_a ? 0 : 1]};
    int64_t lda = leading(&a->a), ldb = leading(&a->b), ldc = leading(&a->c);
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
        convert_and_multiply(stream, a, size);
    else
        multiply(a, size);
    return PT_OK;
}
