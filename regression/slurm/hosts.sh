# A Slurm of three hosts (sandbox.sh) for as long as the test that sources this runs; skips it where there is none.
# Source tap.sh first.
# SPDX-License-Identifier: Apache-2.0
SANDBOX_DIR=$(mktemp -d /tmp/penta-slurm.XXXXXX) || exit 1
export SANDBOX_DIR
sandbox() { timeout 100 bash "$PENTA_SRCDIR/regression/slurm/sandbox.sh" "$@"; }
sandbox start 3 >start.log 2>&1
status=$?
if [ $status -ne 0 ]; then
    rm -rf "$SANDBOX_DIR"
    tap_skip_all "no Slurm here: $(tail -n 1 start.log)"
fi
trap 'sandbox stop; rm -rf "$SANDBOX_DIR"' EXIT
eval "$(sandbox env)"
