# TEST timeout=100
# clang-format would change nothing. Only the pinned version is asked: others differ in details.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

pinned=14
tool=
for candidate in clang-format-$pinned clang-format; do
    if $candidate --version 2>/dev/null | grep -q "version $pinned\\."; then
        tool=$candidate
        break
    fi
done
[ -n "$tool" ] || tap_skip_all "no clang-format $pinned"

scan() {
    (
        cd "$1" || exit
        cp -n "$PENTA_SRCDIR/.clang-format" . 2>/dev/null
        sources src io cuda include regression -- '*.c' '*.h' '*.cu' |
            xargs -r "$tool" --dry-run -Werror --style=file 2>&1 | grep 'error:'
    )
}

catches "a line of two statements" src/a.c 'int f(void) { int x = 1; return x; }'
catches "a tab" src/a.c 'int f(void)
{
	return 1;
}'
accepts "the house style" src/a.c 'int f(void)
{
    return 1;
}'
check_tree
