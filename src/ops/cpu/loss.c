/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy over a vocabulary that may be sharded. */
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/loss_body.h"
#include "src/ops/cpu/each_type.h"
#undef PT_BODY
#define PT_BODY "src/ops/cpu/loss_wide_body.h"
#include "src/ops/cpu/each_wide.h"

PT_DISPATCH(softmax_stats, logits)
PT_DISPATCH_WIDE(cross_entropy_fwd, loss)
PT_DISPATCH(cross_entropy_bwd, logits)
