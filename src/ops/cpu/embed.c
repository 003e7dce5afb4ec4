/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding: copies rows of a table by index; the gradient adds rows to it. */
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/embed_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(embed_fwd, y)
PT_DISPATCH(embed_bwd, dy)
