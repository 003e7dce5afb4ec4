#!/usr/bin/env bash
# usage: regression/run.sh [--fast | --long] [-k PATTERN]
# Sets up the machine; builds with gcc in build/, with clang and Open MPI in build-clang/ and with sanitizers
# in build-asan/ (warnings are errors); runs every test with gcc and some with the others. The others run
# beside gcc's tests: many tests wait more than they compute. Tests of speed come last, alone. Its last line is
# "N passed, N failed"; it exits 1 if any failed.
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
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
export PENTA_TEST_LEVEL=$level

# What a second MPI may do otherwise: launch, wait, transfer, file access, exit codes, its own words.
openmpi_tests='^regression/(mpi/test_(launch|agree|comm|traffic|wait)|train/test_(replicas|zero)|cli/sample\.)'
log=$(mktemp -d) || exit 1
lane=gcc others='' # the lane whose files are $log/LANE.*; the process group of the lanes beside gcc's
trap 'rm -rf "$log"' EXIT
trap '[ -z "$others" ] || kill -- "-$others" 2>/dev/null; exit 1' INT TERM HUP
: >"$log/results"
sanitize=address,undefined
jobs_count=$(nproc 2>/dev/null || echo 2)

result() { # PASSED FAILED SKIPPED SECONDS NAME OUTCOME: counts it and says so, with $log/$lane.out if it failed
    echo "$1 $2 $3 $4 $5" >>"$log/results"
    {
        echo "$5 ... $6"
        [ "$2" -eq 0 ] || tail -n 2000 "$log/$lane.out" | sed 's/^/    /'
    } >"$log/$lane.said"
    flock "$log/results" cat "$log/$lane.said" # in one piece
}

step() { # NAME COMMAND...: one result
    local name=$1 began=$SECONDS
    shift
    if "$@" >"$log/$lane.out" 2>&1; then
        result 1 0 0 $((SECONDS - began)) "$name" "ok ($((SECONDS - began)) s)"
        return 0
    fi
    result 0 1 0 $((SECONDS - began)) "$name" FAILED
    return 1
}

build() ( # FOLDER CONFIGURE-ARGUMENT...
    local folder=$1
    shift
    mkdir -p "$folder" && cd "$folder" || return 1
    if [ ! -e Makefile ] || [ "$top/configure" -nt config.status ]; then
        "$top/configure" --enable-werror "$@" || return 1
    fi
    make -j"$jobs_count" tests
)

run_test() { # FOLDER TEST NAME: every combination is a result
    local began ok bad skip seconds
    began=$(date +%s.%N)
    (cd "$1" && bash "$top/regression/driver.sh" "$2") >"$log/$lane.out" 2>&1
    seconds=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    read -r ok bad skip < <(awk '
        /^ok.*# SKIP/ { skip++; next }
        /^ok/ { ok++ }
        /^not ok/ { bad++ }
        END { print ok + 0, bad + (ok + bad + skip == 0), skip + 0 }' "$log/$lane.out")
    if [ "$bad" -gt 0 ]; then
        result "$ok" "$bad" "$skip" "$seconds" "$3" "FAILED ($bad of $((ok + bad + skip)), $seconds s)"
    elif [ "$ok" -eq 0 ]; then
        result 0 0 "$skip" "$seconds" "$3" \
            "skipped: $(sed -n 's/.*# SKIP *//p' "$log/$lane.out" | head -n 1)"
    else
        result "$ok" 0 "$skip" "$seconds" "$3" "ok ($ok, $seconds s)"
    fi
}

run_all() { # FOLDER [-v] PATTERN: the tests whose names match, or do not
    local number=0 test tests folder=$1
    shift
    mapfile -t tests < <(make -s -C "$folder" --no-print-directory list-tests | grep -E "$@" |
        grep -E -- "$pattern")
    for test in ${tests[@]+"${tests[@]}"}; do # bash before 4.4: an empty array is unset
        number=$((number + 1))
        run_test "$folder" "$test" "[$lane $number/${#tests[@]}] ${test#regression/}"
    done
}

run_others() {
    local cc=clang mpicc='' which='^regression/unit/'
    command -v clang >/dev/null || cc=gcc
    lane=$cc
    if command -v mpicc.openmpi >/dev/null; then
        mpicc=MPICC=mpicc.openmpi which="$which|$openmpi_tests" lane=$cc,openmpi
    fi
    if [ "$lane" = gcc ]; then
        result 0 0 1 0 "another compiler, another MPI" "skipped: no clang, no mpicc.openmpi"
    elif step "build ($lane)" build build-clang "CC=$cc" ${mpicc:+"$mpicc"}; then
        run_all build-clang "$which"
    fi
    lane=asan
    if [ $cc = clang ]; then sanitize=$sanitize,fuzzer-no-link; fi
    if step "build ($lane)" build build-asan "CC=$cc" "--enable-sanitize=$sanitize"; then
        export PENTA_TEST_TIMEOUT_SCALE=$((scale * 3))
        run_all build-asan '^regression/(unit|golden)/'
        PENTA_TEST_BACKENDS=cpu run_all build-asan '^regression/ops/' # shadow has guards of its own
        export PENTA_TEST_TIMEOUT_SCALE=$scale
        run_all build-asan '^regression/fuzz/'
    fi
}

report() {
    echo
    echo "slow tests, seconds:"
    sort -k4,4rn "$log/results" | head -n 20 | sed -E 's/^[0-9]+ [0-9]+ [0-9]+ /  /'
    awk '$2 > 0 { if (!said++) print "failing:"; sub(/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ /, ""); print "  " $0 }' "$log/results"
    awk -v seconds=$SECONDS '
        { passed += $1; failed += $2; skipped += $3 }
        END {
            print skipped + 0 " skipped, " seconds " s"
            print passed + 0 " passed, " failed + 0 " failed"
            exit(failed > 0)
        }' "$log/results"
}

jobs/setup.sh build test || echo "set-up of packages failed; trying with what is here"
if [ $with_others = 1 ]; then jobs/setup.sh openmpi || echo "set-up of Open MPI failed"; fi
if [ ! -x configure ] || [ -n "$(find configure.ac m4 -newer configure -print -quit)" ]; then
    step bootstrap ./bootstrap
fi
scale=${PENTA_TEST_TIMEOUT_SCALE-1}
if [ $with_others = 1 ]; then
    scale=$((scale * 2)) # two lanes share the cores
    export PENTA_TEST_TIMEOUT_SCALE=$scale
    set -m # a process group of its own, so that an interrupt reaches all of it
    run_others &
    others=$!
    set +m
fi
if step "build (gcc)" build build CC=gcc; then
    # The fuzzers need the sanitizers' build, or one of their own.
    run_all build -v "^regression/(perf${others:+|fuzz})/"
    [ -z "$others" ] || wait "$others"
    run_all build '^regression/perf/'
fi
wait
report
