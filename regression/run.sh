#!/usr/bin/env bash
# usage: regression/run.sh [--fast | --long] [-k PATTERN]
# Sets up the machine, builds with gcc in build/, with clang in build-clang/, with sanitizers in
# build-asan/ and with Open MPI in build-openmpi/ (warnings are errors), runs every test with gcc and some
# with the others. Its last line is "N passed, N failed"; it exits 1 if any failed.
#   --fast        only tests of level check, only gcc
#   --long        also tests of level long
#   -k PATTERN    only tests whose name matches this extended regular expression; only gcc
# SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD

level=full pattern='' with_others=1
while [ $# -gt 0 ]; do
    case $1 in
    --fast) level=check with_others=0 ;;
    --long) level=long ;;
    -k) pattern=${2-} with_others=0; shift ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
export PENTA_TEST_LEVEL=$level

# What a second MPI may do otherwise: launch, wait, transfer, file access, exit codes, its own words.
openmpi_tests='^regression/(mpi/test_(launch|agree|comm|ledger|wait)|train/test_replicas|cli/sample\.)'
jobs_count=$(nproc 2>/dev/null || echo 2)
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT
trap 'exit 1' INT TERM HUP
passed=0 failed=0 skipped=0
: >"$log/failing"
: >"$log/times"

step() { # NAME COMMAND...: one result, its output shown only on failure
    local name=$1 began=$SECONDS
    shift
    printf '%s ... ' "$name"
    if "$@" >"$log/step" 2>&1; then
        passed=$((passed + 1))
        echo "ok ($((SECONDS - began)) s)"
        return 0
    fi
    failed=$((failed + 1))
    echo FAILED
    tail -n 100 "$log/step" | sed 's/^/    /'
    echo "$name" >>"$log/failing"
    return 1
}

build() ( # FOLDER CONFIGURE-ARGUMENT...
    local folder=$1
    shift
    if [ ! -x configure ] || [ -n "$(find configure.ac m4 -newer configure -print -quit)" ]; then
        ./bootstrap || return 1
    fi
    mkdir -p "$folder" && cd "$folder" || return 1
    if [ ! -e Makefile ] || [ "$top/configure" -nt config.status ]; then
        "$top/configure" --enable-werror "$@" || return 1
    fi
    make -j"$jobs_count" tests
)

run_test() { # FOLDER TEST LABEL PROGRESS: every combination is a result
    local began ok bad skip seconds
    began=$(date +%s.%N)
    printf '[%s] %s ... ' "$4" "$3"
    (cd "$1" && bash "$top/regression/driver.sh" "$2") >"$log/out" 2>&1
    seconds=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    read -r ok bad skip < <(awk '
        /^ok.*# SKIP/ { skip++; next }
        /^ok/ { ok++ }
        /^not ok/ { bad++ }
        END { print ok + 0, bad + (ok + bad + skip == 0), skip + 0 }' "$log/out")
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    echo "$seconds $3" >>"$log/times"
    if [ "$bad" -gt 0 ]; then
        echo "FAILED ($bad of $((ok + bad + skip)), $seconds s)"
        sed 's/^/    /' "$log/out"
        echo "$3" >>"$log/failing"
    elif [ "$ok" -eq 0 ]; then
        echo "skipped: $(sed -n 's/.*# SKIP *//p' "$log/out" | head -n 1)"
    else
        echo "ok ($ok, $seconds s)"
    fi
}

run_all() { # FOLDER PREFIX PATTERN
    local number=0 test tests
    mapfile -t tests < <(make -s -C "$1" --no-print-directory list-tests | grep -E -- "$3")
    for test in ${tests[@]+"${tests[@]}"}; do # bash before 4.4: an empty array is unset
        number=$((number + 1))
        run_test "$1" "$test" "$2${test#regression/}" "$number/${#tests[@]}"
    done
}

report() {
    echo
    awk '$1 >= 5' "$log/times" | sort -rn | head -n 20 | sed '1i slow tests, seconds:' | sed 's/^/  /'
    if [ -s "$log/failing" ]; then
        echo "failing:"
        sed 's/^/  /' "$log/failing"
    fi
    echo "$skipped skipped, $SECONDS s"
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
}

jobs/setup.sh build test || echo "set-up of packages failed; trying with what is here"
if step "build (gcc)" build build CC=gcc; then
    run_all build "" "$pattern"
fi
if [ $with_others = 1 ]; then
    if ! command -v clang >/dev/null; then
        skipped=$((skipped + 1))
        echo "build (clang) ... skipped: no clang"
    elif step "build (clang)" build build-clang CC=clang; then
        run_all build-clang "clang " '^regression/unit/'
    fi
    if step "build (sanitizers)" build build-asan CC=gcc --enable-sanitize; then
        PENTA_TEST_TIMEOUT_SCALE=3 run_all build-asan "asan " '^regression/(unit|ops|golden)/'
    fi
    jobs/setup.sh openmpi || echo "set-up of Open MPI failed"
    if ! command -v mpicc.openmpi >/dev/null; then
        skipped=$((skipped + 1))
        echo "build (Open MPI) ... skipped: no mpicc.openmpi"
    elif step "build (Open MPI)" build build-openmpi CC=gcc MPICC=mpicc.openmpi; then
        run_all build-openmpi "Open MPI " "$openmpi_tests"
    fi
fi
report
