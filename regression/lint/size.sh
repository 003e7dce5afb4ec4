# TEST timeout=60
# Functions of at most 60 lines between the braces, files of at most 500.
# A function may carry a comment /* long: reason */ above it or in it.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    (
        cd "$1" || exit
        sources src io cuda include regression -- '*.c' '*.h' '*.cu' | xargs -r awk '
            function close_file() {
                if (last > 500) print file ": " last " lines; a file has at most 500"
            }
            FNR == 1 { close_file(); file = FILENAME; start = 0; excused = 0 }
            { last = FNR }
            /\/\* long: [^ ]/ { excused = 1 }
            /^$/ && !start { excused = 0 }
            /^\{/ { start = FNR }
            /^\}/ && start {
                if (FNR - start - 1 > 60 && !excused)
                    print file ":" start ": function of " FNR - start - 1 " lines; at most 60"
                start = 0
                excused = 0
            }
            END { close_file() }'
    )
}

body() { # LINES [COMMENT]: a function with so many lines
    printf 'int f(void)%s\n{\n' "${2-}"
    yes '    x++;' | head -n "$1"
    printf '}\n'
}

catches "a function of 61 lines" src/a.c "$(body 61)"
catches "a long function after an excused one" src/a.c "$(body 61 ' /* long: why */'; echo; body 61)"
catches "a file of 501 lines" src/a.c "$(yes 'int x;' | head -n 501)"
accepts "a function of 60 lines" src/a.c "$(body 60)"
accepts "an excused function" src/a.c "$(body 61 ' /* long: one loop nest */')"
accepts "a file of 500 lines" src/a.c "$(yes 'int x;' | head -n 500)"
check_tree
