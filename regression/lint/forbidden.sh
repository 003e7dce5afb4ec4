# TEST timeout=60
# Words that code must not contain; forbidden.txt has the rules, forbidden_ok.txt the exceptions.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    (
        cd "$1" || exit
        sources src io cuda include -- '*.c' '*.h' '*.def' '*.cu' |
            xargs -r awk -v strings=1 -f "$lint_dir/strip.awk" |
            awk -v ok_file="$lint_dir/forbidden_ok.txt" '
            function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
            function allowed_place(rule,    n, i, part) {
                n = split(places[rule], part, ",")
                for (i = 1; i <= n; i++)
                    if (file == part[i] || index(file, part[i] "/") == 1) return 1
                return 0
            }
            function excused(rule,    i) {
                for (i = 1; i <= excuses; i++)
                    if (ok_rule[i] == rule && ok_path[i] == file &&
                        (ok_text[i] == "*" || index(code, ok_text[i]))) return 1
                return 0
            }
            BEGIN {
                while ((getline row < ok_file) > 0) {
                    if (row ~ /^#/ || split(row, f, "|") < 3) continue
                    excuses++
                    ok_rule[excuses] = trim(f[1]); ok_path[excuses] = trim(f[2])
                    ok_text[excuses] = trim(f[3])
                    if (trim(f[4]) == "") print "forbidden_ok.txt: no reason: " row
                }
            }
            FILENAME ~ /forbidden\.txt$/ {
                sub(/#.*/, "")
                if (NF < 3) next
                rules++
                name[rules] = $1; places[rules] = $2
                n = split($3, w, ",")
                pattern[rules] = ""
                for (i = 1; i <= n; i++) {
                    word = w[i]
                    call = sub(/\($/, "", word)
                    gsub(/\./, "[.]", word)
                    if (call) word = word "[ \t]*[(]"
                    else word = word "($|[^A-Za-z0-9_])"
                    pattern[rules] = pattern[rules] (i > 1 ? "|" : "") word
                }
                pattern[rules] = "(^|[^A-Za-z0-9_])(" pattern[rules] ")"
                next
            }
            {
                match($0, /^[^:]*:[0-9]+:/)
                place = substr($0, 1, RLENGTH - 1)
                code = substr($0, RLENGTH + 1)
                file = place
                sub(/:[0-9]+$/, "", file)
                for (r = 1; r <= rules; r++)
                    if (code ~ pattern[r] && !allowed_place(r) && !excused(name[r]))
                        print place ": rule " name[r] ": " trim(code)
            }' "$lint_dir/forbidden.txt" -
        sources . -- configure.ac Makefile.am '*.m4' | grep -v -e '^./build' -e '^./aclocal' -e autom4te |
            xargs -r grep -n -H -e '-ffast-math' -e '-Ofast' -e 'unsafe-math' /dev/null
        sources src io cuda include -- '*.c' '*.h' '*.cu' |
            xargs -r grep -n -H -e 'fast-math' -e 'FP_CONTRACT *ON' /dev/null
    )
}

catches "malloc" src/ops/a.c 'void *p = malloc(3);'
catches "free after a space" io/a.c 'free (p);'
catches "exit" src/train/a.c 'if (bad) exit(1);'
catches "assert" src/base/a.c 'assert(x);'
catches "MPI_COMM_WORLD" src/comm/a.c 'MPI_Comm c = MPI_COMM_WORLD;'
catches "mpi.h" src/model/a.c '#include <mpi.h>'
catches "MPI_SUM" src/comm/a.c 'MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, c);'
catches "printf" src/model/a.c 'printf("x");'
catches "fprintf to stdout" io/a.c 'fprintf(stdout, "x");'
catches "sprintf" src/cmd/a.c 'sprintf(s, "x");'
catches "strcpy" src/base/a.c 'strcpy(a, b);'
catches "atoi" src/config/a.c 'n = atoi(s);'
catches "-ffast-math" src/ops/Makefile.am 'AM_CFLAGS += -ffast-math'
accepts "the allowed places" src/base/a.c 'p = malloc(3); free(p);' src/main.c 'exit(MPI_COMM_WORLD);' \
    src/comm/a.c '#include <mpi.h>' src/cmd/a.c 'printf("malloc(3)");'
accepts "names that only contain a word" src/ops/a.c 'pt_malloc(3); x.at_exit(); fprintf(stderr, "exit(1)");
/* free(p); and strcpy(a, b)
   MPI_SUM */ pt_free(p); // exit(1)'
check_tree
