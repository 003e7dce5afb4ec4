# TEST timeout=60
# Includes go only downwards; regression/lint/layers.txt is the order.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    (
        cd "$1" || exit
        sources src io cuda include -- '*.c' '*.h' '*.def' '*.cu' |
            xargs -r awk -f "$lint_dir/strip.awk" |
            awk -f "$lint_dir/layers.awk" "$lint_dir/layers.txt" -
    )
}

catches "an include upwards" src/base/a.c '#include "penta/ops/ops.h"'
catches "an include of a neighbour" src/model/a.c '#include "penta/data/data.h"'
catches "config below parallel" src/comm/a.c '#include "penta/config/config.h"'
catches "comm including a kernel's header" src/comm/a.c '#include "src/ops/cpu/k.h"'
catches "a private header of a higher module" io/a.c '#include "src/train/loop.h"'
catches "a path with .." src/ops/a.c '#include "../base/x.h"'
catches "a header of no module" include/penta/orphan.h 'int x;'
catches "an upward include in a header" include/penta/base/base.h '  #  include "penta/comm/comm.h"'
accepts "downward includes" src/train/a.c '#include "penta/config/config.h"
#include "penta/model/model.h"
#include "io/x.h"
#include "loop.h"
/* #include "penta/cmd/cmd.h" */' src/config/c.c '#include "penta/base/base.h"' \
    src/ops/cpu/k.c '#include "penta/ops/ops.h"
#include "k.h"'
check_tree
