#!/usr/bin/env bash
# usage: regression/driver.sh TEST          in a build directory, under make check or run.sh
#
# Runs one test in every combination its TEST line asks for and prints one TAP result for each;
# the test's own output follows as comments. Exits 1 if a combination failed.
#
# The first line of the test holds the TEST line, with any of
#   np=1,2,4          ranks under mpiexec; 0 or absent: run without mpiexec
#   backend=cpu,...   exported one at a time as PENTA_TEST_BACKEND (default cpu)
#   timeout=60        seconds for one combination, scaled by PENTA_TEST_TIMEOUT_SCALE; 60,600: the
#                     second at level long
#   level=check       least PENTA_TEST_LEVEL that runs it: check < full < long. Default: check,
#                     in train, golden, fault and perf: full
# A combination passes when it exits 0, none of its TAP lines is `not ok`, and its plan is kept
# (a C test must have a plan, a script may do without). Exit 77 skips.
#
# A test runs in an empty folder of its own. It may use PENTA_SRCDIR, PENTA_BUILDDIR, PENTA (the
# program), MPIEXEC, PENTA_TEST_MPI (mpich, openmpi or other), PENTA_TEST_BACKEND, PENTA_TEST_NP,
# PENTA_TEST_LEVEL. A caller may set PENTA_TEST_BACKENDS, in place of those of the TEST line. PENTA_TEST_ISA, if a caller sets it, is run.isa in tests of training and golden tests.
# SPDX-License-Identifier: Apache-2.0
set -u

PENTA_SRCDIR=$(cd "$(dirname "$0")/.." && pwd)
PENTA_BUILDDIR=$(pwd)
PENTA=$PENTA_BUILDDIR/penta
PENTA_TEST_LEVEL=${PENTA_TEST_LEVEL-full}
export PENTA_SRCDIR PENTA_BUILDDIR PENTA PENTA_TEST_LEVEL
. "$PENTA_BUILDDIR/regression/env.sh" || exit 2
. "$PENTA_SRCDIR/jobs/mpiexec-env.sh" || exit 2

# Tests share few cores: threads that spin would take whole time slices from each other.
export OMP_NUM_THREADS=${OMP_NUM_THREADS-1} OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS-1}
export ASAN_OPTIONS=${ASAN_OPTIONS-fast_unwind_on_malloc=0}
export LSAN_OPTIONS=${LSAN_OPTIONS-suppressions=$PENTA_SRCDIR/regression/lsan.supp:print_suppressions=0}

test=$1
name=${test#"${PENTA_SRCDIR}/"}
name=regression/${name##*regression/}
case $name in
*.sh) source=$PENTA_SRCDIR/$name program=$source is_script=1 ;;
*) source=$PENTA_SRCDIR/$name.c program=$PENTA_BUILDDIR/$name is_script=0 ;;
esac
# A test that a caller keeps outside the tree, as the tests of this driver do.
if [ ! -e "$source" ] && [ -e "$test" ]; then
    source=$test program=$test is_script=1
fi

count=0 failed=0
result() { # STATUS LABEL: one TAP result
    count=$((count + 1))
    case $1 in
    pass) echo "ok $count - $2" ;;
    skip) echo "ok $count - $2 # SKIP $3" ;;
    fail) echo "not ok $count - $2: $3"; failed=1 ;;
    esac
}
finish() {
    echo "1..$count"
    exit $failed
}

np_list=0 backend_list=cpu seconds=60
case $name in
regression/train/* | regression/golden/* | regression/fault/* | regression/perf/*) level=full ;;
*) level=check ;;
esac
line=$(sed -n -e '/^#!/d' -e '/\bTEST\b/{p;q;}' -e '5q' "$source" 2>/dev/null)
if [ -z "$line" ]; then
    result fail "$name" "no TEST line in its first lines"
    finish
fi
line=${line#*TEST}
for word in ${line%%\**}; do
    case $word in
    np=*) np_list=${word#*=} ;;
    backend=*) backend_list=${word#*=} ;;
    timeout=*)
        seconds=${word#*=}
        if [ "$PENTA_TEST_LEVEL" = long ]; then seconds=${seconds#*,}; else seconds=${seconds%,*}; fi
        ;;
    level=check | level=full | level=long) level=${word#*=} ;;
    *) result fail "$name" "unknown word '$word' in its TEST line"; finish ;;
    esac
done
seconds=$((seconds * ${PENTA_TEST_TIMEOUT_SCALE-1}))

rank_of() { case $1 in check) echo 0 ;; full) echo 1 ;; *) echo 2 ;; esac; }
if [ "$(rank_of "$level")" -gt "$(rank_of "$PENTA_TEST_LEVEL")" ]; then
    result skip "$name" "level $level"
    finish
fi
if [ ! -e "$program" ]; then
    result fail "$name" "not built"
    finish
fi

scratch=$(mktemp -d "$PENTA_BUILDDIR/test.XXXXXX") || exit 2
trap 'cd /; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP

judge() { # STATUS OUTPUT -> verdict in words, nothing if the combination passed
    if [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
        echo "did not end within $seconds s (status $1)"
    elif [ "$1" -ne 0 ]; then
        echo "exit status $1"
    else
        awk -v script="$is_script" '
            /^not ok/ && !/# TODO/ { bad++ }
            /^(not )?ok/ { seen++ }
            /^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; planned++ }
            END {
                if (bad) print bad " checks failed"
                else if (!planned && (seen || !script)) print "no plan: it ended early"
                else if (planned > 1) print "more than one plan: every rank prints"
                else if (planned && plan != seen) print "plan " plan ", but " seen + 0 " checks"
            }' "$2"
    fi
}

run_one() { # NP BACKEND
    local np=$1 backend=$2 label command status why
    label="np=$np backend=$backend"
    command=()
    if [ "$np" -gt 0 ]; then command=("$MPIEXEC" -n "$np"); fi
    if [ "$is_script" = 1 ]; then command+=(bash); fi
    command+=("$program")
    rm -rf "$scratch/work" && mkdir "$scratch/work"
    { # the braces only hide the shell's own remark about a killed child
        (
            cd "$scratch/work" || exit 2
            export PENTA_TEST_BACKEND=$backend PENTA_TEST_NP=$np
            exec timeout -k 5 "$seconds" ${command[@]+"${command[@]}"} </dev/null >"$scratch/out" 2>&1
        )
        status=$?
    } 2>/dev/null
    if [ $status -eq 77 ]; then
        result skip "$label" "$(sed -n 's/.*# SKIP *//p' "$scratch/out" | head -n 1)"
    else
        why=$(judge $status "$scratch/out")
        if [ -z "$why" ]; then result pass "$label"; else result fail "$label" "$why"; fi
    fi
    tail -n 400 "$scratch/out" | sed 's/^/#   /'
}

IFS=', '
for np in $np_list; do
    for backend in ${PENTA_TEST_BACKENDS-$backend_list}; do
        run_one "$np" "$backend"
    done
done
finish
