# TEST timeout=60
# Every source file says its license, in one line near its top.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    (
        cd "$1" || exit
        {
            sources bootstrap configure.ac Makefile.am .ci build-aux/pt_version.sh doc m4 src io cuda include jobs regression -- \
                '*.c' '*.h' '*.def' '*.cu' '*.sh' '*.sbatch' '*.awk' '*.py' '*.m4' Makefile.am configure.ac bootstrap
        } | while read -r file; do
            head -n 60 "$file" | grep -qE '^(/\*|#|dnl) SPDX-License-Identifier: Apache-2\.0( \*/)?$' ||
                echo "$file: no line SPDX-License-Identifier: Apache-2.0"
        done
    )
}

catches "a source without the line" src/a.c 'int x;'
catches "a script of another license" jobs/a.sh '# SPDX-License-Identifier: MIT'
accepts "sources that have it" src/a.c '/* SPDX-License-Identifier: Apache-2.0 */
int x;' jobs/a.sh '#!/bin/sh
# SPDX-License-Identifier: Apache-2.0' m4/a.m4 'dnl SPDX-License-Identifier: Apache-2.0'
check_tree
