/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in a fixed order, and exact sums. */
#include "penta/base/sum.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/sum_body.h"
#include "src/ops/cpu/each_type.h"

#undef PT_BODY
#define PT_BODY "src/ops/cpu/ordered_sum_body.h"
#include "src/ops/cpu/each_wide.h"

PT_DISPATCH(sum, x)
PT_DISPATCH(sum_squares, x)
PT_DISPATCH_WIDE(ordered_sum, dst)
