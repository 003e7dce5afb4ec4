/* SPDX-License-Identifier: Apache-2.0 */
/* check.h — macros in which the checks of ops are written (private to src/ops).
 *
 * A check has one operand struct `a` and reads like the contract in
 * include/penta/ops/ops.h: which operand has which type and shape. Each macro
 * returns from the check with INTERNAL, naming op and operand, if its condition does
 * not hold. */
#ifndef PT_OPS_CHECK_H
#define PT_OPS_CHECK_H

#include "src/ops/backend.h"

enum { ANY = -1 };

/* Passed to the check of every operand of a call. */
typedef struct pt_checker {
    const char *op;
    unsigned dtypes; /* types that T may have */
} pt_checker_t;

pt_status_t op_check_fail(const pt_checker_t *in, const char *operand,
                          const pt_tensor_t *x, const char *problem);
/* Checks type, memory, number of dimensions and shape. ANY accepts every size. */
pt_status_t op_check_operand(const pt_checker_t *in, const char *operand,
                             const pt_tensor_t *x, pt_dtype_t dtype, int ndim,
                             const int64_t *shape);
pt_status_t op_check_dense(const pt_checker_t *in, const char *operand,
                           const pt_tensor_t *x);
/* Checks the operand whose type is T. */
pt_status_t op_check_float(const pt_checker_t *in, const char *operand,
                           const pt_tensor_t *x);
/* Checks that the type of an operand is `t` (T) or its accumulator (A). */
pt_status_t op_check_either(const pt_checker_t *in, const char *operand,
                            const pt_tensor_t *x, pt_dtype_t t);
pt_status_t op_check_holds(const pt_checker_t *in, bool holds, const char *condition);
pt_status_t op_check_dropout(const char *op, const pt_dropout_t *a, int64_t rows);

#define CHECKS(name)                                                                   \
    pt_status_t pt_check_##name(const pt_op_##name##_t *a, unsigned dtypes_)
#define BEGIN(name) const pt_checker_t in_ = {#name, dtypes_}
#define FLOAT(x)    PT_TRY(op_check_float(&in_, #x, &a->x))
#define SHAPE(x, dtype, ...)                                                           \
    PT_TRY(op_check_operand(&in_, #x, &a->x, dtype,                                    \
                            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                            (const int64_t[]){__VA_ARGS__}))
#define DENSE(x, dtype, ...)                                                           \
    SHAPE(x, dtype, __VA_ARGS__);                                                      \
    PT_TRY(op_check_dense(&in_, #x, &a->x))
/* Checks the shape of an operand of type T or A; dtype_ is T. */
#define SHAPE_OF_SUM(x, dtype_, ...)                                                   \
    PT_TRY(op_check_either(&in_, #x, &a->x, dtype_));                                  \
    SHAPE(x, a->x.dtype, __VA_ARGS__)
#define DENSE_OF_SUM(x, dtype_, ...)                                                   \
    PT_TRY(op_check_either(&in_, #x, &a->x, dtype_));                                  \
    DENSE(x, a->x.dtype, __VA_ARGS__)
/* Checks that x has the shape and type of an operand that was checked before. */
#define LIKE(x, other)                                                                 \
    PT_TRY(op_check_operand(&in_, #x, &a->x, a->other.dtype, a->other.ndim,            \
                            a->other.shape))
#define HOLDS(condition) PT_TRY(op_check_holds(&in_, (condition), #condition))
#define PRESENT(x)       (a->x.data != NULL)

#endif
