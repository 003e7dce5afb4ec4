# TEST timeout=60
# A plan takes no time, whatever the number of ranks.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

plan() { # RANKS
    timeout 10 "$PENTA" plan --json model.preset=gpt2-124m "parallel.ranks=$1" "train.global_batch=$1" train.micro_batch=1 >"$1.json"
}
value() { sed -n "s/^  \"$2\": \([0-9]*\),*$/\1/p" "$1.json"; }
for ranks in 2 1024 16777216; do
    tap_ok "a plan of $ranks ranks" plan $ranks
    tap_ok "... of that many" test "$(value $ranks ranks)" = $ranks
    tap_ok "... that need the same weights" test "$(value $ranks parameters)" = "$(value 2 parameters)"
    tap_ok "... and as many sequences" test "$(value $ranks sequences)" = $ranks
done
tap_done
