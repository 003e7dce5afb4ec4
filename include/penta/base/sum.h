/* SPDX-License-Identifier: Apache-2.0 */
/* sum.h — sums of many numbers that do not depend on order or grouping (layer: base).
 *
 * The kernels sum aligned blocks of 1,024 elements in fp64 in a fixed pairwise order.
 * Each block sum is then added exactly to bins of 32 bits, held in int64. The bins of
 * several ranks or threads merge by integer addition (MPI_SUM of int64 is exact) and
 * then carry. Inf and NaN are counted separately. At most 2^31 additions may occur
 * between merges and carries. */
#ifndef PENTA_SUM_H
#define PENTA_SUM_H

#include <stdint.h>

enum { PT_SUM_BLOCK = 1024, PT_SUM_BINS = 67, PT_SUM_WORDS = 70 };

/* bins[i] has the weight 2^(32 i - 1074). The counts of +Inf, -Inf and NaN follow. All
 * words are integers: up to 2^30 carried sums may be added over ranks as
 * int64[PT_SUM_WORDS]. */
typedef struct pt_sum {
    int64_t bins[PT_SUM_BINS];
    int64_t positive_inf, negative_inf, nan;
} pt_sum_t;

void pt_sum_clear(pt_sum_t *sum);
void pt_sum_add(pt_sum_t *sum, double value); /* exact */
/* Keeps the value and brings bins 0 … PT_SUM_BINS-2 into [0, 2^32); the last bin has
 * the sign. */
void pt_sum_carry(pt_sum_t *sum);
void pt_sum_merge(pt_sum_t *sum, const pt_sum_t *other);
/* Rounds the exact value to the nearest double (ties to even). NaN and ±Inf are as IEEE
 * addition would give them. */
double pt_sum_value(const pt_sum_t *sum);
/* Number of non-finite values that were added. */
int64_t pt_sum_nonfinite(const pt_sum_t *sum);

#endif
