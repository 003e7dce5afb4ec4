/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h — vector operations that compilers do not generate from plain loops (private
 * to src/ops/cpu). PT_VECTOR_BYTES is the register width of the level. */
#ifndef PT_CPU_SIMD_H
#define PT_CPU_SIMD_H

#if defined(__AVX512F__)
#define PT_VECTOR_BYTES 64
#elif defined(__AVX__)
#define PT_VECTOR_BYTES 32
#else
#define PT_VECTOR_BYTES 16
#endif
#if defined(__FMA__)
#include <immintrin.h>
#endif

typedef double pt_vector_f64 __attribute__((vector_size(PT_VECTOR_BYTES)));
typedef float pt_vector_f32 __attribute__((vector_size(PT_VECTOR_BYTES)));
/* The same vectors without alignment, for loads and stores anywhere in memory. */
typedef double pt_unaligned_f64
    __attribute__((vector_size(PT_VECTOR_BYTES), aligned(8), may_alias));
typedef float pt_unaligned_f32
    __attribute__((vector_size(PT_VECTOR_BYTES), aligned(4), may_alias));

/* a·b + c; rounded once on the levels on which pt_fma of math.h is fused. */
static inline pt_vector_f64 pt_vector_fma_f64(pt_vector_f64 a, pt_vector_f64 b,
                                              pt_vector_f64 c)
{
#if defined(__AVX512F__)
    return (pt_vector_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (pt_vector_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

static inline pt_vector_f32 pt_vector_fma_f32(pt_vector_f32 a, pt_vector_f32 b,
                                              pt_vector_f32 c)
{
#if defined(__AVX512F__)
    return (pt_vector_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (pt_vector_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

#endif
