/* each_type.h — includes PT_BODY once per type (private to src/ops/cpu; no include guard).
 *
 * The body sees: T storage type; A accumulator; FN(name) its name for this type; LANES
 * independent partial sums of a row reduction; LOAD, STORE between T and A. Mathematical
 * functions of A are FN(pt_exp) … of math.h. */
#define T        double
#define A        double
#define LANES    16
#define FN(name) PT_PASTE(name, _f64)
#define LOAD(x)  (x)
#define STORE(x) (x)
#include PT_BODY
#undef T
#undef A
#undef LANES
#undef FN

#define T        float
#define A        float
#define LANES    32
#define FN(name) PT_PASTE(name, _f32)
#include PT_BODY
#undef T
#undef A
#undef LANES
#undef FN
#undef LOAD
#undef STORE
