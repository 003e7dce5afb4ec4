/* SPDX-License-Identifier: Apache-2.0 */
/* check.h — words in which the checks of ops are written (private to src/ops).
 *
 * A check has one operand struct `a` and reads like the line of the contract in include/penta/ops/ops.h: which
 * operand has which type and shape. Each word returns from the check where it does not hold: INTERNAL naming op
 * and operand. */
#ifndef PT_OPS_CHECK_H
#define PT_OPS_CHECK_H

#include "src/ops/backend.h"

enum { ANY = -1 };

/* What all operands of a call are checked with. */
typedef struct pt_checker {
    const char *op;
    unsigned dtypes; /* allowed for T */
} pt_checker_t;

pt_status_t op_check_fail(const pt_checker_t *in, const char *operand,
                          const pt_tensor_t *x, const char *problem);
/* Type, memory, rank and shape (ANY: free). */
pt_status_t op_check_operand(const pt_checker_t *in, const char *operand,
                             const pt_tensor_t *x, pt_dtype_t dtype, int ndim,
                             const int64_t *shape);
pt_status_t op_check_dense(const pt_checker_t *in, const char *operand,
                           const pt_tensor_t *x);
/* The operand whose type is the T of the call. */
pt_status_t op_check_float(const pt_checker_t *in, const char *operand,
                           const pt_tensor_t *x);
/* An operand that may be T or A: which of them it is. */
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
/* The shapes of an operand of type T or A, the type given being T. */
#define SHAPE_OF_SUM(x, dtype_, ...)                                                   \
    PT_TRY(op_check_either(&in_, #x, &a->x, dtype_));                                  \
    SHAPE(x, a->x.dtype, __VA_ARGS__)
#define DENSE_OF_SUM(x, dtype_, ...)                                                   \
    PT_TRY(op_check_either(&in_, #x, &a->x, dtype_));                                  \
    DENSE(x, a->x.dtype, __VA_ARGS__)
/* Same shape and type as a checked operand. */
#define LIKE(x, other)                                                                 \
    PT_TRY(op_check_operand(&in_, #x, &a->x, a->other.dtype, a->other.ndim,            \
                            a->other.shape))
#define HOLDS(condition) PT_TRY(op_check_holds(&in_, (condition), #condition))
#define PRESENT(x)       (a->x.data != NULL)

#endif
