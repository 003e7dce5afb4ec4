/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h — included first by every CPU kernel file (private to src/ops/cpu).
 *
 * A file NAME.c is compiled once per instruction set level with -DPT_ISA=base|v3|v4;
 * its global names end in the level. NAME_body.h contains the arithmetic, written once
 * for all types: each_type.h includes it with T (storage), A (accumulator) and FN(name)
 * defined. Kernels trust their arguments, which src/ops/check_*.c have checked. */
#ifndef PT_CPU_KERNEL_H
#define PT_CPU_KERNEL_H

#include "penta/base/float16.h"
#include "penta/ops/ops.h"
#include "src/ops/cpu/math.h"
#include "src/ops/cpu/stream.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#define PT_PASTE_(a, b)  a##b
#define PT_PASTE(a, b)   PT_PASTE_(a, b)
#define PT_KERNEL(name)  PT_PASTE(PT_PASTE(pt_cpu_, name##_), PT_ISA)
#define PT_STRING_(text) #text
#define PT_STRING(text)  PT_STRING_(text)

#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    pt_status_t PT_KERNEL(name)(struct pt_stream * stream, const pt_op_##name##_t *a);
#include "penta/ops/ops.def"
#undef PT_OP

/* convert.c: widen and narrow convert `count` elements between A and any floating-point
 * type; widen_f32 and narrow_f32 do not take fp64. put stores `count` elements to `to`
 * (T or A) from element `offset` on, or adds them; it rounds once. */
enum { PT_CONVERT_CHUNK = 1024 };
void PT_KERNEL(widen_f64)(pt_dtype_t from, const void *x, double *y, int64_t count);
void PT_KERNEL(widen_f32)(pt_dtype_t from, const void *x, float *y, int64_t count);
void PT_KERNEL(narrow_f64)(pt_dtype_t to, const double *x, void *y, int64_t count);
void PT_KERNEL(narrow_f32)(pt_dtype_t to, const float *x, void *y, int64_t count);
void PT_KERNEL(put_f64)(const pt_tensor_t *to, int64_t offset, const double *from,
                        int64_t count, bool add);
void PT_KERNEL(put_f32)(const pt_tensor_t *to, int64_t offset, const float *from,
                        int64_t count, bool add);

/* Defines the kernel `op`; the type of `operand` selects the body. */
#define PT_DISPATCH(op, operand)                                                       \
    pt_status_t PT_KERNEL(op)(struct pt_stream * stream, const pt_op_##op##_t *a)      \
    {                                                                                  \
        switch (a->operand.dtype) {                                                    \
        case PT_F64: op##_f64(stream, a); break;                                       \
        case PT_BF16: op##_bf16(stream, a); break;                                     \
        case PT_F16: op##_f16(stream, a); break;                                       \
        default: op##_f32(stream, a);                                                  \
        }                                                                              \
        return PT_OK;                                                                  \
    }

/* The same for bodies of each_wide.h. */
#define PT_DISPATCH_WIDE(op, operand)                                                  \
    pt_status_t PT_KERNEL(op)(struct pt_stream * stream, const pt_op_##op##_t *a)      \
    {                                                                                  \
        if (a->operand.dtype == PT_F64)                                                \
            op##_f64(stream, a);                                                       \
        else                                                                           \
            op##_f32(stream, a);                                                       \
        return PT_OK;                                                                  \
    }

/* Says that the iterations of the next loop are independent although operands may be
 * the same array. */
#ifdef __clang__
#define PT_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define PT_IVDEP _Pragma("GCC ivdep")
#endif
/* Shares the iterations of the next loop among the threads of `stream`. */
#define PT_PARALLEL                                                                    \
    _Pragma("omp parallel for num_threads(stream->threads) if (stream->threads > 1)")

/* Types to access elements as bits. */
typedef uint64_t __attribute__((may_alias)) bits64_t;
typedef uint32_t __attribute__((may_alias)) bits32_t;
typedef uint16_t __attribute__((may_alias)) bits16_t;

/* Number of this thread in a parallel loop. */
static inline int pt_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static inline int64_t pt_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t pt_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t pt_cols(const pt_tensor_t *x)
{
    return x->shape[x->ndim - 1];
}

static inline int64_t pt_rows(const pt_tensor_t *x)
{
    int64_t rows = 1;
    for (int d = 0; d < x->ndim - 1; d++)
        rows *= x->shape[d];
    return rows;
}

/* Offset of row `row`, where all leading dimensions together count rows. */
static inline int64_t pt_row_offset(const pt_tensor_t *x, int64_t row)
{
    int64_t offset = 0;
    for (int d = x->ndim - 2; d > 0; d--) {
        offset += row % x->shape[d] * x->stride[d];
        row /= x->shape[d];
    }
    return x->ndim > 1 ? offset + row * x->stride[0] : 0;
}

#define PT_ROW(type, x, row) ((type *)(x).data + pt_row_offset(&(x), row))
/* Address of element `offset` of x, for any type. */
#define PT_ELEMENT(type, x, offset)                                                    \
    ((type *)(void *)((char *)(x).data + (offset) * (int64_t)pt_dtype_size((x).dtype)))

#endif
