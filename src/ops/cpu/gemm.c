/* One op, one BLAS call. */
#include "pt_autoconf.h"
#include "src/ops/cpu/kernel.h"
#include <limits.h>
#include PT_CBLAS_HEADER

/* Row stride BLAS accepts: a matrix of one row may carry any. */
static int64_t leading(const pt_tensor_t *x)
{
    return pt_max(x->stride[0], pt_max(x->shape[1], 1));
}

pt_status_t PT_KERNEL(gemm)(struct pt_stream *stream, const pt_op_gemm_t *a)
{
    int64_t m = a->c.shape[0], n = a->c.shape[1], k = a->a.shape[a->trans_a ? 0 : 1];
    int64_t lda = leading(&a->a), ldb = leading(&a->b), ldc = leading(&a->c);
    int64_t largest = pt_max(pt_max(pt_max(m, n), k), pt_max(pt_max(lda, ldb), ldc));
    enum CBLAS_TRANSPOSE ta = a->trans_a ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE tb = a->trans_b ? CblasTrans : CblasNoTrans;

    PT_CHECK(largest <= INT_MAX, PT_CONFIG,
             "gemm [%lld, %lld, %lld], row stride up to %lld: BLAS takes 32-bit sizes",
             (long long)m, (long long)n, (long long)k, (long long)largest);
    if (m == 0 || n == 0)
        return PT_OK;
    if (k == 0) {
        pt_op_fill_t zero = {.x = a->c, .value = 0};
        return a->accumulate ? PT_OK : PT_KERNEL(fill)(stream, &zero);
    }
    if (a->c.dtype == PT_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1.0, a->a.data,
                    (int)lda, a->b.data, (int)ldb, a->accumulate ? 1.0 : 0.0, a->c.data,
                    (int)ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1.0f, a->a.data,
                    (int)lda, a->b.data, (int)ldb, a->accumulate ? 1.0f : 0.0f,
                    a->c.data, (int)ldc);
    return PT_OK;
}
