/* SPDX-License-Identifier: Apache-2.0 */
/* sum.h — sums of many numbers that do not depend on order or grouping (layer: base).
 *
 * Elements are summed in fp64 over aligned blocks of 1,024 in a fixed pairwise order (the
 * kernels do that); each block sum is added exactly into bins of 32 bits held in int64.
 * Bins of several holders merge by integer addition (MPI_SUM of int64 is exact), then carry.
 * Inf and NaN are counted apart. Capacity: 2^31 additions between merges and carries. */
#ifndef PENTA_SUM_H
#define PENTA_SUM_H

#include <stdint.h>

enum { PT_SUM_BLOCK = 1024, PT_SUM_BINS = 67, PT_SUM_WORDS = 70 };

/* bins[i] weighs 2^(32 i - 1074); then counts of +Inf, -Inf, NaN. All-integer: once carried, up to
 * 2^30 of them may be summed over ranks as int64[PT_SUM_WORDS]. */
typedef struct pt_sum {
    int64_t bins[PT_SUM_BINS];
    int64_t positive_inf, negative_inf, nan;
} pt_sum_t;

void pt_sum_clear(pt_sum_t *sum);
void pt_sum_add(pt_sum_t *sum, double value); /* exact */
/* Same value, bins 0 … PT_SUM_BINS-2 in [0, 2^32), the sign in the last. */
void pt_sum_carry(pt_sum_t *sum);
void pt_sum_merge(pt_sum_t *sum, const pt_sum_t *other);
/* Nearest double (ties to even) of the exact value; NaN, ±Inf as IEEE addition would give. */
double pt_sum_value(const pt_sum_t *sum);
/* Number of non-finite values added. */
int64_t pt_sum_nonfinite(const pt_sum_t *sum);

#endif
