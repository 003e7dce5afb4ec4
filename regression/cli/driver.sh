# TEST timeout=60
# The test driver itself: what it must call a failure.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"
export PENTA_TEST_LEVEL=full # the times below are those of this level, not scaled
unset PENTA_TEST_TIMEOUT_SCALE

driver() { # SCRIPT-TEXT -> status of the driver
    printf '%s\n' "$1" >case.sh
    (case=$PWD/case.sh && cd "$PENTA_BUILDDIR" && bash "$PENTA_SRCDIR/regression/driver.sh" "$case") >out
    local status=$?
    sed 's/^/# /' out
    return $status
}

tap_fails "a script that succeeds passes" 0 driver '# TEST timeout=5
exit 0'
tap_fails "a bad exit status fails" 1 driver '# TEST
exit 3'
tap_fails "a failed check fails, even with status 0" 1 driver '# TEST
echo "not ok 1 - x"; echo 1..1'
tap_fails "an unkept plan fails" 1 driver '# TEST
echo "ok 1 - x"; echo 1..2'
tap_fails "checks without a plan fail" 1 driver '# TEST
echo "ok 1 - x"'
tap_fails "no TEST line fails" 1 driver 'exit 0'
tap_fails "a misspelt word in the TEST line fails" 1 driver '# TEST timout=5
exit 0'
tap_fails "status 77 is no failure" 0 driver '# TEST
echo "1..0 # SKIP because"; exit 77'
tap_ok "... and is reported as skipped" grep -q '^ok 1 .*# SKIP because' out
driver '# TEST backend=cpu,shadow
echo "backend is $PENTA_TEST_BACKEND"' >/dev/null
tap_ok "each backend is a result" test "$(grep -c '^ok' out)" -eq 2
tap_ok "... and is exported" grep -q 'backend is shadow' out
tap_fails "a test that hangs is ended" 1 driver '# TEST timeout=1
sleep 100 & wait'
tap_fails "of two times the first holds" 1 driver '# TEST timeout=1,30
sleep 1.5'
PENTA_TEST_LEVEL=long tap_fails "... at level long the second" 0 driver '# TEST timeout=1,30
sleep 1.5'
tap_fails "a test deaf to TERM is ended" 1 driver '# TEST timeout=1
trap "" TERM; while :; do sleep 0.2; done'
tap_done
