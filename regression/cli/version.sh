# TEST timeout=20
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

"$PENTA" --version >out
tap_ok "--version names the version" grep -q "^penta $PENTA_VERSION" out
tap_fails "an unknown subcommand is a usage error" 2 "$PENTA" no-such-command
tap_done
