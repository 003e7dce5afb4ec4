# TEST timeout=60
# Scripts do with bash 4.2, which clusters still have (CentOS 7; 4.3 on SLES 12): no feature that came later,
# and no array that may be empty where `set -u` takes it for unset, as it did before 4.4.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

scan() {
    (
        cd "$1" || exit
        {
            sources regression jobs build-aux -- '*.sh' '*.sbatch' '*.in' | grep -v '^build-aux/\(tap-driver\|install\)'
            sources bootstrap .ci/run -- bootstrap run
        } | grep -v '^regression/lint/bash42.sh$' >"$scratch/scripts"
        # Each file twice: first for what its arrays are given.
        sed p "$scratch/scripts" | xargs -r awk '
            function complain(what) { print FILENAME ":" FNR ": " what }
            FNR == 1 {
                first = FILENAME != before
                before = first ? FILENAME : ""
                careful = 0
                if (first) { split("", words); split("", other) }
            }
            /^[ \t]*#/ { next }
            first {
                line = $0
                while (match(line, /[A-Za-z_][A-Za-z_0-9]*\+?=\([^ \t)$"]?/)) {
                    name = part = substr(line, RSTART, RLENGTH)
                    sub(/\+?=.*/, "", name)
                    sub(/.*=\(/, "", part)
                    if (part != "") words[name] = 1
                    else other[name] = 1
                    line = substr(line, RSTART + RLENGTH)
                }
                next
            }
            /(^|[ \t;])set -[a-z]*u/ || /nounset/ { careful = 1 }
            /(EPOCHREALTIME|EPOCHSECONDS|BASH_ARGV0)/ || /[$][{]?SRANDOM/ { complain("a variable of bash 5") }
            /(local|declare|typeset) -[a-zA-Z]*n/ { complain("references to names came with bash 4.3") }
            /(^|[ \t;{(])local -([ \t;]|$)/ { complain("local - came with bash 4.4") }
            /[$][{][A-Za-z_0-9]+(\[[^]]*\])?@[A-Za-z][}]/ { complain("${x@Q} and its kin came with bash 4.4") }
            /(mapfile|readarray)[^<|;]* -d/ { complain("mapfile -d came with bash 4.4") }
            /(^|[ \t;])wait -[nfp]/ { complain("wait -n came with bash 4.3, -f and -p later") }
            /\[\[? .*-v "?[A-Za-z_0-9]+\[/ || /-R [A-Za-z_]/ && /\[\[ / { complain("-v a[i] and -R came with bash 4.3") }
            /shopt .*(inherit_errexit|localvar_|globasciiranges|patsub_replacement|assoc_expand_once|globskipdots)/ {
                complain("an option of a later shopt")
            }
            /[A-Za-z_0-9]\[-[0-9]+\]\+?=/ || /unset .*\[-[0-9]/ { complain("assignment to a[-1] came with bash 4.3") }
            # An array that is only ever given words is never empty.
            careful {
                line = $0
                # What is guarded: ${a[@]+"${a[@]}"}
                gsub(/[$][{][A-Za-z_0-9]+\[[@*]\]\+"[$][{][A-Za-z_0-9]+\[[@*]\][^}]*[}]"[}]/, "", line)
                while (match(line, /[$][{][A-Za-z_0-9]+\[[@*]\]/)) {
                    name = substr(line, RSTART + 2, RLENGTH - 5)
                    if (!(name in words) || name in other) complain("an array that may be empty: write ${" name "[@]+\"${" name "[@]}\"}")
                    line = substr(line, RSTART + RLENGTH)
                }
            }'
    )
}

scratch=$PWD
catches "EPOCHREALTIME" jobs/a.sh 'began=${EPOCHREALTIME/./}'
catches "a reference to a name" regression/a.sh 'local -n out=$1'
catches '${x@Q}' jobs/a.sh 'echo "${x@Q}"' jobs/b.sh 'echo 1'
catches "mapfile -d" jobs/a.sh "mapfile -d '' files"
catches "wait -n" jobs/a.sh 'wait -n'
catches "-v of an element" jobs/a.sh 'if [[ -v a[0] ]]; then :; fi'
catches "inherit_errexit" jobs/a.sh 'shopt -s inherit_errexit'
catches "a[-1]=" jobs/a.sh 'a[-1]=x'
catches "an array that may be empty" jobs/a.sbatch 'set -euo pipefail
after=()
sbatch "${after[@]}" "$@"'
catches "its tail" jobs/a.sh 'set -u
words=("$@")
echo "${words[@]:1}"'
catches "one that is emptied" jobs/a.sh 'set -u
words=(a b)
echo "${words[@]}"
words=()'
accepts "what 4.2 has" jobs/a.sh '# EPOCHREALTIME is of bash 5
set -u
words=(a b)
echo "${words[@]}" "${#words[@]}" "${words[-1]}"
more=()
run ${more[@]+"${more[@]}"}
printf "%(%s)T" -1
if [[ -v words ]]; then mapfile -t lines < <(date); fi
wait $!'
accepts "an empty array without set -u" regression/a.sh 'a=()
echo "${a[@]}"'
check_tree
