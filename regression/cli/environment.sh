# TEST timeout=60
# Variables that begin with PENTA_: those nobody reads are named once, with what was probably meant.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

plan() { env "$@" "$PENTA" plan >out 2>err; }
warned() { # TEXT: one line, a warning with it
    [ "$(wc -l <err)" -eq 1 ] && grep ' warning: environment: variables without effect: ' err | grep -qF -- "$1"
}
meant() { # VARIABLE WHAT
    plan "$1=1" && warned "$1 (maybe: $2?)"
}
tap_ok "the variables of a test are no strangers" plan PENTA_TEST_ANYTHING=1
tap_ok "... silently" test ! -s err
tap_ok "those of scripts, modules and drills" plan PENTA_HOME=/ PENTA_ROOT=/ PENTA_VERSION=1 PENTA_PERF=1
tap_ok "... silently" test ! -s err
tap_ok "a key without its section" meant PENTA_LR PENTA_TRAIN_LR
tap_ok "... misspelt" meant PENTA_MICRO_BACH PENTA_TRAIN_MICRO_BATCH
tap_fails "... as two words: an error" 2 plan PENTA_GLOBAL_BATCH=4
tap_ok "... that names it" grep -q 'maybe: PENTA_TRAIN_GLOBAL_BATCH?' err
tap_ok "a drill misspelt" meant PENTA_FALUT PENTA_FAULT
tap_ok "... and in small letters" meant penta_fault PENTA_FAULT
plan PENTA_FOO=1
tap_ok "something else" warned "effect: PENTA_FOO"
tap_fails "... without a guess" 1 grep -q maybe err
plan PENTA_FOO=1 PENTA_LR=1 PENTA_BAR=1
tap_ok "several, one line" warned PENTA_FOO
tap_ok "... with all" warned PENTA_BAR
# shellcheck disable=SC2046 # words
plan $(seq -f 'PENTA_FOREIGN_%g=1' 1 300)
tap_ok "many, one line" warned PENTA_FOREIGN_
plan "$(printf 'PENTA_\033[31m')=1"
tap_fails "no control bytes" 1 grep -q "$(printf '\033')" err
plan PENTA_=1 PENTA=1 PENTAGON_LR=1
tap_ok "not ours" test ! -s err
seq -f 'number %g' 1 400 >text
train() {
    timeout 50 "$MPIEXEC" -n 2 "$PENTA" train data.path=text train.steps=1 model.layers=1 model.hidden=32 model.ffn=32 \
        model.heads=2 model.kv_heads=2 model.head_dim=16 train.sequence=16 train.global_batch=2 train.micro_batch=1 >out 2>err
}
export PENTA_STEPS=5
tap_ok "a run of two ranks" train
tap_ok "... says it once" test "$(grep -c 'effect: PENTA_STEPS (maybe: PENTA_TRAIN_STEPS?)' err)" -eq 1
tap_done
