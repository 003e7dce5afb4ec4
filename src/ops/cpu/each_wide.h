/* SPDX-License-Identifier: Apache-2.0 */
/* each_wide.h — includes PT_BODY once per accumulator type, which is also the storage
 * type (private to src/ops/cpu; no include guard). It serves each_type.h, and bodies
 * that convert narrow operands with WIDEN and NARROW, a block at a time. */
#define T        double
#define A        double
#define A_TYPE   PT_F64
#define LANES    16
#define FN(name) PT_PASTE(name, _f64)
#define OF_A     FN
#define LOAD(x)  (x)
#define STORE(x) (x)
#define WIDEN    PT_KERNEL(widen_f64)
#define NARROW   PT_KERNEL(narrow_f64)
#define PUT      PT_KERNEL(put_f64)
#include PT_BODY
#undef T
#undef A
#undef A_TYPE
#undef LANES
#undef FN
#undef WIDEN
#undef NARROW
#undef PUT

#define T        float
#define A        float
#define A_TYPE   PT_F32
#define LANES    32
#define FN(name) PT_PASTE(name, _f32)
#define WIDEN    PT_KERNEL(widen_f32)
#define NARROW   PT_KERNEL(narrow_f32)
#define PUT      PT_KERNEL(put_f32)
#include PT_BODY
#undef T
#undef A
#undef A_TYPE
#undef LANES
#undef FN
#undef OF_A
#undef LOAD
#undef STORE
#undef WIDEN
#undef NARROW
#undef PUT
