# TEST timeout=60
# Every source file stands in a Makefile.am, so that it is compiled, run and distributed.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    (
        cd "$1" || exit
        sources . -- Makefile.am | grep -v '^./build' | xargs cat | tr -s ' \\' '\n' >"$scratch/listed"
        {
            sources src io include -- '*.c' '*.h' '*.def'
            sources regression -- '*.c' '*.h' '*.sh'
        } | while read -r file; do
            case $file in regression/*/test_*.c | regression/*/fuzz_*.c | regression/perf/*.c) entry=${file%.c} ;; *) entry=$file ;; esac
            grep -q -x -F -e "$entry" -e "\$(top_srcdir)/$entry" "$scratch/listed" ||
                echo "$file: not listed in any Makefile.am"
        done
    )
}

scratch=$PWD
catches "a forgotten source" src/ops/a.c 'int x;' src/ops/Makefile.am 'libpenta_a_SOURCES += src/ops/ab.c'
catches "a forgotten test" regression/unit/test_a.c 'int x;' regression/Makefile.am 'PT_UNIT_TESTS +='
accepts "listed files" src/ops/a.c 'int x;' regression/unit/test_a.c 'int x;' \
    src/ops/Makefile.am 'libpenta_a_SOURCES += src/ops/a.c' \
    regression/Makefile.am 'PT_UNIT_TESTS += regression/unit/test_a'
check_tree
