# TAP for shell tests: source it, call tap_ok or tap_run, end with tap_done.
#   . "$PENTA_SRCDIR/regression/tap.sh"
#   tap_ok "the file is there" test -e file        passes when the command succeeds
#   tap_fails "refuses rubbish" 2 penta rubbish    passes when the command exits with that status
# SPDX-License-Identifier: Apache-2.0
tap_count=0
tap_failed=0

tap_result() { # STATUS NAME
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        echo "not ok $tap_count - $2"
        tap_failed=$((tap_failed + 1))
    fi
}

tap_ok() { # NAME COMMAND...
    local name=$1 status
    shift
    "$@"
    status=$?
    [ $status -eq 0 ] || echo "# status $status: $*"
    tap_result $status "$name"
}

tap_fails() { # NAME STATUS COMMAND...
    local name=$1 wanted=$2 status
    shift 2
    "$@"
    status=$?
    [ $status -eq "$wanted" ] || echo "# status $status, wanted $wanted: $*"
    tap_result $((status != wanted)) "$name"
}

tap_milliseconds() { # of the clock
    date +%s%3N
}

tap_ranks_alive() { # pids of the program at work in this folder
    local p exe
    exe=$(readlink -f "$PENTA")
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$PWD" ] || continue
        [ "$(readlink "$p/exe" 2>/dev/null)" = "$exe" ] || continue
        grep -q '^State:[[:space:]]*Z' "$p/status" 2>/dev/null || echo "${p#/proc/}"
    done
}

tap_skip_all() { # REASON
    echo "1..0 # SKIP $1"
    exit 77
}

tap_done() {
    echo "1..$tap_count"
    exit $((tap_failed != 0))
}
