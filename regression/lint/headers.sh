# TEST timeout=100
# Every contract header compiles alone, and twice.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    local header
    (
        cd "$1" || exit
        sources include/penta -- '*.h' | while read -r header; do
            printf '#include "%s"\n' "${header#include/}" "${header#include/}" |
                $CC -std=c11 -Wall -Wextra -Werror $PENTA_TEST_CPPFLAGS -Iinclude -I. \
                    -I"$PENTA_BUILDDIR" -fsyntax-only -x c - 2>&1 | sed "s|^|$header: |"
        done
    )
}

catches "a header that needs another first" include/penta/base/a.h 'size_t f(void);'
catches "a header without a guard" include/penta/base/a.h 'struct a { int x; };'
accepts "a header that stands alone" include/penta/base/a.h '#ifndef A_H
#define A_H
#include <stddef.h>
size_t f(void);
#endif'
check_tree
