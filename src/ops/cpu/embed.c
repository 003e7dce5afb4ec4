/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by index, and back. */
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/embed_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(embed_fwd, y)
PT_DISPATCH(embed_bwd, dy)
