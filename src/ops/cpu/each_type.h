/* SPDX-License-Identifier: Apache-2.0 */
/* each_type.h — includes PT_BODY once per storage type (private to src/ops/cpu; no include guard).
 *
 * The body sees: T storage type; A accumulator, A_TYPE its pt_dtype_t; FN(name) its name for T,
 * OF_A(name) that for A: the mathematical functions of math.h; LANES independent partial sums
 * of a row reduction; LOAD, STORE between T and A. An op widens its operands, computes in A and
 * rounds once, where it stores. PUT stores A where an operand may be T or A: see kernel.h. */
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
