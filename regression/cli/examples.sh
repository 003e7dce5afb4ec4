# TEST level=full timeout=500
# The commands of doc/examples.md, run from top to bottom in one shell: all succeed, and print what the page
# quotes, but for numbers and for what it leaves out (…).
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

page=$PENTA_SRCDIR/doc/examples.md
mkdir bin work text
ln -s "$PENTA" bin/penta
printf '#!/bin/sh\nexec "%s" "$@"\n' "$MPIEXEC" >bin/mpiexec
chmod +x bin/mpiexec
export OMPI_MCA_orte_execute_quiet=1 # Open MPI explains at length that 75 is not 0
export SOURCE=$PENTA_SRCDIR PATH=$PWD/bin:$PATH

# Blocks sh become one script, the output of each in a file; blocks text what should be in it.
awk -v folder="$PWD/text" '
    /^```/ && kind { kind = ""; next }
    /^```sh$/ { kind = "sh"; n++; printf "exec >%s/out.%d 2>&1\n", folder, n; next }
    /^```text$/ { kind = "text"; next }
    /^```/ { kind = "other"; next }
    kind == "sh" { print }
    kind == "text" { print >(folder "/quoted." n) }' "$page" >script

# Digests and numbers are not compared.
plain() { sed -E 's/[0-9a-f]{16}/DIGEST/g; s/[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?/N/g; s/ +/ /g; s/^ //' "$1"; }

# Lines of the first file that are in none of the second: each part between … stands there in order.
missing() { # QUOTED OUTPUT
    plain "$1" >quoted
    plain "$2" >output
    awk 'FILENAME == "output" { line[++lines] = $0; next }
         {
             parts = split($0, part, " *… *")
             for (i = 1; i <= lines; i++) {
                 rest = line[i]
                 for (p = 1; p <= parts; p++) {
                     at = index(rest, part[p])
                     if (part[p] != "" && (at == 0 || (p == 1 && at != 1))) break
                     if (part[p] != "") rest = substr(rest, at + length(part[p]))
                 }
                 if (p > parts && (part[parts] == "" || rest == "")) next
             }
             print
         }' output quoted
}

tap_ok "the page has commands" grep -q 'penta train' script
(cd work && bash -e ../script)
status=$?
[ $status -eq 0 ] || tail -n 5 "$(find text -name 'out.*' | sort -V | tail -n 1)" | sed 's/^/# /'
tap_ok "all of them succeed" test $status -eq 0
for quoted in text/quoted.*; do
    number=${quoted##*.}
    wrong=$(missing "$quoted" "text/out.$number" 2>&1)
    [ -z "$wrong" ] || { echo "$wrong"; echo "---"; head -n 30 "text/out.$number"; } | sed 's/^/# /'
    tap_ok "commands $number print what is quoted" test -z "$wrong"
done
echo 'step 1 loss 2' >a
printf 'step 3 loss 1.5 x\nother\n' >b
tap_ok "what is not there would be found" test "$(missing a b)" = "step N loss N"
tap_done
