/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding and activations. */
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/activation_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(rotary, x)
PT_DISPATCH(activation_fwd, y)
PT_DISPATCH(activation_bwd, dy)
