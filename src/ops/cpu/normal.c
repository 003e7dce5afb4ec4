/* Normal numbers: initial weights. */
#include "penta/normal.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/normal_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(normal, x)
