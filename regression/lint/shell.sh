# TEST timeout=100
# Shell scripts parse, and shellcheck (where installed) has no complaint.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    local script
    (
        cd "$1" || exit
        { sources regression jobs build-aux -- '*.sh' '*.sbatch' | grep -v '^build-aux/\(tap-driver\|install\)'
          sources bootstrap .ci/run -- bootstrap run; } >"$scratch/scripts"
        while read -r script; do bash -n "$script" 2>&1; done <"$scratch/scripts"
        # SC1090, SC1091: files sourced by variable path. SC2086: flags are meant to be split.
        # SC2148: a test script has no #! line, the driver starts it. SC2154: names from there.
        if command -v shellcheck >/dev/null && [ -s "$scratch/scripts" ]; then
            xargs shellcheck -s bash -f gcc -S warning -e SC1090,SC1091,SC2086,SC2148,SC2154 \
                <"$scratch/scripts"
        fi
    )
}

scratch=$PWD
catches "a syntax error" jobs/a.sh 'if true; then'
if command -v shellcheck >/dev/null; then
    catches "what shellcheck knows" jobs/a.sh 'cd "$1"
x=$(ls)
for f in "$x"; do echo $f; done'
fi
accepts "a good script" jobs/a.sh 'echo "$1"'
check_tree
