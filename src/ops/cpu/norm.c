/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm and RMS norm. */
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/norm_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(norm_fwd, x)
PT_DISPATCH(norm_bwd_input, x)
PT_DISPATCH(norm_bwd_weight, x)
