# TEST timeout=60
# A static function carries the name of its file or folder, so that a debugger or a profile says where it
# is: evaluate_read, not read. No two files have static functions of the same name.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

# Kinds of nodes that share a file have names of their own.
others='residual rotary'

scan() {
    (
        cd "$1" || exit
        sources src io -- '*.c' | xargs -r awk -v others="$others" '
            function begins(name, word,    plain) {
                plain = word
                sub(/s$/, "", plain)
                return name == word || index(name, word "_") == 1 || index(name, plain "_") == 1
            }
            FNR == 1 {
                parts = split(FILENAME, path, "/")
                stem = path[parts]
                sub(/\.c$/, "", stem)
                words = split(stem " " path[parts - 1] " " others, word, /[_ ]/)
            }
            /^static [^=;]*\(/ || /^__attribute__.* static [^=;]*\(/ {
                name = $0
                sub(/^__attribute__\(\([^)]*\)*\) /, "", name)
                sub(/\(.*/, "", name)
                sub(/.*[ *]/, "", name)
                if (name == "" || name ~ /^__/) next
                if (name in where && where[name] != FILENAME)
                    print FILENAME ":" FNR ": " name " is a static function of " where[name] " too"
                where[name] = FILENAME
                for (i = 1; i <= words; i++)
                    if (begins(name, word[i])) next
                print FILENAME ":" FNR ": static " name " begins neither with " stem " nor with " path[parts - 1]
            }'
    )
}

catches "a function of any file" src/comm/step.c 'static int run(void)
{
    return 1;
}'
catches "two of one name" src/comm/a.c 'static int comm_size(void)
{
    return 1;
}' src/comm/b.c 'static int comm_size(void)
{
    return 1;
}'
accepts "functions of file and folder, tables and macros" src/comm/transport_dry.c 'static int transport_size(void)
{
    return 1;
}
static int *comm_sizes(void)
{
    return NULL;
}
static const int table[] = {SIZE(1)};'
check_tree
