/* SPDX-License-Identifier: Apache-2.0 */
/* each_type.h — includes PT_BODY once per storage type (private to src/ops/cpu; no
 * include guard).
 *
 * The body sees these macros:
 *   T            storage type
 *   A, A_TYPE    accumulator type, and its pt_dtype_t
 *   FN(name)     the name for T
 *   OF_A(name)   the name for A, of the mathematical functions in math.h
 *   LANES        number of independent partial sums in a row reduction
 *   LOAD, STORE  convert from T to A, and from A to T
 *   WIDEN, NARROW, PUT  the functions of convert.c for A: see kernel.h
 *
 * An op widens its operands, computes in A, and rounds once, when it stores. PUT stores
 * A to an operand that may be T or A. */
#include "src/ops/cpu/each_wide.h"

#define T          uint16_t
#define A          float
#define A_TYPE     PT_F32
#define LANES      32
#define OF_A(name) PT_PASTE(name, _f32)
#define WIDEN      PT_KERNEL(widen_f32)
#define NARROW     PT_KERNEL(narrow_f32)
#define PUT        PT_KERNEL(put_f32)
#define FN(name)   PT_PASTE(name, _bf16)
#define LOAD       pt_bf16_to_f32
#define STORE      pt_f32_to_bf16
#include PT_BODY
#undef FN
#undef LOAD
#undef STORE

#define FN(name) PT_PASTE(name, _f16)
#define LOAD     pt_f16_to_f32
#define STORE    pt_f32_to_f16
#include PT_BODY
#undef T
#undef A
#undef A_TYPE
#undef LANES
#undef OF_A
#undef WIDEN
#undef NARROW
#undef PUT
#undef FN
#undef LOAD
#undef STORE
