/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h — element types (layer: base). */
#ifndef PENTA_DTYPE_H
#define PENTA_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum pt_dtype {
    PT_F64,
    PT_F32,
    PT_BF16,
    PT_F16,
    PT_I64,
    PT_I32,
    PT_U8,
    PT_DTYPE_COUNT
} pt_dtype_t;

size_t pt_dtype_size(pt_dtype_t dtype);
const char *pt_dtype_name(pt_dtype_t dtype); /* "fp32", "int64", … */
bool pt_dtype_is_float(pt_dtype_t dtype);
/* Type of sums, statistics, losses and master weights for storage type `dtype`: fp64
 * for fp64, fp32 for the other floating-point types. */
pt_dtype_t pt_dtype_accumulator(pt_dtype_t dtype);
/* Read or write element `index` of a host array of floating-point numbers; set rounds
 * to nearest. */
double pt_float_get(pt_dtype_t dtype, const void *array, int64_t index);
void pt_float_set(pt_dtype_t dtype, void *array, int64_t index, double value);

#endif
