/* Cross entropy over a vocabulary that may be cut among ranks. */
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/loss_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(softmax_stats, logits)
PT_DISPATCH(cross_entropy_fwd, loss)
PT_DISPATCH(cross_entropy_bwd, logits)
