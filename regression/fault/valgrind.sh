# TEST timeout=500
# Under valgrind: training on two ranks, going on with one, the other commands, and unit tests of
# what reads files. No invalid access, no use of what was never written, no memory lost.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

command -v valgrind >/dev/null || tap_skip_all "no valgrind"
grep -q '^PT_LDFLAGS = .*-fsanitize' "$PENTA_BUILDDIR/Makefile" &&
    tap_skip_all "valgrind cannot run a build with sanitizers"

checker=(valgrind --leak-check=full --errors-for-leak-kinds=definite --num-callers=30
    --suppressions="$PENTA_SRCDIR/regression/valgrind.supp" --log-file=valgrind.%p)

is_clean() { # PROCESSES: each wrote a report, and it is empty
    local clean
    clean=$(cat valgrind.* | grep -c 'ERROR SUMMARY: 0 errors ')
    [ "$clean" -eq "$1" ] && return 0
    echo "# $clean clean reports, wanted $1"
    sed -n '/ERROR SUMMARY\|^==[0-9]* *$/d; s/^/# /p' valgrind.* | head -n 60
    return 1
}

check() { # NAME STATUS RANKS COMMAND...
    local name=$1 wanted=$2 ranks=$3 status launcher=()
    shift 3
    if [ "$ranks" -gt 1 ]; then launcher=("$MPIEXEC" -n "$ranks"); fi
    rm -f valgrind.*
    "${launcher[@]}" "${checker[@]}" "$@" >out 2>err </dev/null
    status=$?
    [ $status -eq "$wanted" ] || tail -n 5 out err | sed 's/^/# /'
    tap_ok "$name: exit code $wanted" test $status -eq "$wanted"
    tap_ok "$name: nothing found" is_clean "$ranks"
}

# ---- It can fail ----
cat >faulty.c <<'C'
#include <stdlib.h>
static void *volatile kept;
int main(int argc, char **argv)
{
    (void)argv;
    kept = malloc(100);
    if (argc > 1)
        return *(volatile char *)kept == 'x';
    kept = NULL;
    return 0;
}
C
# shellcheck disable=SC2086 # CC may be several words
$CC -O0 -g -o faulty faulty.c || exit 1
finds() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    rm -f valgrind.*
    "${checker[@]}" ./faulty "$@"
    ! is_clean 1 >/dev/null && grep -q "$pattern" valgrind.*
}
tap_ok "lost memory is found" finds "100 bytes in 1 blocks are definitely lost"
tap_ok "the use of what was never written is found" finds "uninitialised value" x

# ---- The program ----
model=(train.steps=4 train.global_batch=4 train.micro_batch=1 train.sequence=16 model.layers=1
    model.hidden=16 model.ffn=32 model.heads=2 model.kv_heads=1 model.head_dim=8
    run.eval_sequences=2 data.path=corpus.txt run.dir=run)
seq -f 'line %g of the corpus, with some words in it' 1 400 >corpus.txt
check "train on two ranks, stopped after 3 steps" 75 2 "$PENTA" train "${model[@]}" run.stop_step=3
check "the rest on one rank" 0 1 "$PENTA" train "${model[@]}"
tap_ok "... went on from step 3" grep -q '^resumed *from run/checkpoints/step_00000003.h5 ' out
check "plan" 0 1 "$PENTA" plan "${model[@]}" parallel.ranks=2
check "inspect --verify" 0 1 "$PENTA" inspect --verify run/checkpoints/step_00000004.h5
check "sample" 0 1 "$PENTA" sample run.dir=run sample.prompt=line sample.tokens=4
check "a misspelt option" 2 1 "$PENTA" train "${model[@]}" train.lrr=1
truncate -s 9000 run/checkpoints/*.h5
check "damaged checkpoints" 4 1 "$PENTA" sample run.dir=run

# ---- Unit tests ----
for test in arena checkpoint_bad config_errors config_json loader; do
    check "test_$test" 0 1 "$PENTA_BUILDDIR/regression/unit/test_$test"
done
tap_done
