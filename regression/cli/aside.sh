# TEST timeout=90
# Files in checkpoints/ that are not the run's own: none is replaced, counted in checkpoint.keep, or removed.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'number %g' 1 400 >text
seq -f 'another %g' 1 400 >other
train() {
    timeout -k 2 60 "$PENTA" train data.path=text model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 model.kv_heads=2 \
        model.head_dim=16 train.sequence=16 train.global_batch=4 train.decay_steps=9 checkpoint.every=1 "$@" >out 2>err </dev/null
}
file() { printf '%s/checkpoints/step_%08d.h5' "$1" "$2"; }
bytes() { sha256sum <"$1"; }
good() { timeout 20 "$PENTA" inspect "$1" --verify >verify.log 2>&1; }
again() { # run `work`, stopped after step 4 with all its files
    rm -rf work
    cp -r stopped work
}
names() { # of the step files of `work`
    (cd work/checkpoints && echo *)
}
flip() { # a byte of the elements; before HDF5 looks at them all is well
    printf '\377' | dd of="$1" bs=1 seek=20000 conv=notrunc 2>dd.log
}
tap_fails "a run of 4 steps" 75 train run.dir=stopped train.steps=9 run.stop_step=4 checkpoint.keep=9
train run.dir=foreign data.path=other train.steps=2

# ---- In the place of a file that is to be saved ----
again
cp "$(file work 2)" "$(file work 5)"
wanted=$(bytes "$(file work 2)")
tap_ok "a copy under the name of step 5: the run goes on" train run.dir=work train.steps=9 checkpoint.keep=9
tap_ok "... the copy is kept" test "$(bytes "$(file work 5).kept-1")" = "$wanted"
tap_ok "... and step 5 is saved" good "$(file work 5)"
tap_ok "... which one warning says" test "$(grep -c 'warning: .*step_00000005.h5: this run neither read .*kept-1' err)" -eq 1
again
cp "$(file work 2)" "$(file work 5)"
echo precious >"$(file work 5).kept-1"
train run.dir=work train.steps=6
tap_ok "names that are taken stay" test "$(cat "$(file work 5).kept-1")" = precious
tap_ok "... the next one is used" test "$(bytes "$(file work 5).kept-2")" = "$wanted"

again
flip "$(file work 4)"
wanted=$(bytes "$(file work 4)")
train run.dir=work train.steps=5
tap_ok "damaged: skipped" grep -q 'skipped a damaged checkpoint: .*step_00000004.h5' err
tap_ok "... kept" test "$(bytes "$(file work 4).kept-1")" = "$wanted"
tap_ok "... and saved anew" good "$(file work 4)"
tap_ok "a start from there moves nothing more" train run.dir=work train.steps=6
tap_fails "... and says nothing" 1 grep -q kept- err

again
rm "$(file work 4)"
cp "$(file work 3)" precious
ln -s "$PWD/precious" "$(file work 4)"
train run.dir=work train.steps=5
tap_ok "a link to a copy: what it points to stays" cmp precious "$(file work 3)"

# ---- A save that is tried again finds what it left itself ----
again
PENTA_FAULT=checkpoint.renamed:0:5:io tap_fails "a last save that fails after the renaming" 4 train run.dir=work train.steps=5 \
    run.time_limit=00:04
tap_ok "... is tried again" grep -q 'it is tried again' err
tap_ok "... without a file beside" test "$(find work -name '*.kept-*' | wc -l)" -eq 0

# ---- checkpoint.keep ----
again
flip "$(file work 4)"
tap_ok "skipped at step 4, saved at step 6" train run.dir=work train.steps=6 checkpoint.every=3 checkpoint.keep=2
tap_ok "... the damaged one is kept, good ones count" test "$(names)" = "step_00000003.h5 step_00000004.h5.kept-1 step_00000006.h5"
again
truncate -s -100 "$(file work 3)"
cp "$(file work 1)" "$(file work 2)"
tap_ok "damaged and misnamed ones in the row" train run.dir=work train.steps=6 checkpoint.keep=3 checkpoint.every=0
tap_ok "... do not count" test "$(names)" = \
    "step_00000001.h5 step_00000002.h5.kept-1 step_00000003.h5.kept-1 step_00000004.h5 step_00000006.h5"
tap_ok "... and are named with the reason" grep -q 'step_00000003.h5: damaged (.*kept as .*step_00000003.h5.kept-1' err
tap_ok "... the other, too" grep -q 'step_00000002.h5: holds step 1, not the one of its name; kept as' err
again
cp "$(file foreign 1)" "$(file work 1)"
tap_ok "a file of another run" train run.dir=work train.steps=6 checkpoint.keep=3 checkpoint.every=0
tap_ok "... is not removed" cmp "$(file foreign 1)" "$(file work 1).kept-1"
tap_ok "... for a reason" grep -q 'step_00000001.h5: of a run with other data; kept as' err
again
cp "$(file work 4)" work/checkpoints/step_000000004.h5
tap_ok "a name that no run writes" train run.dir=work train.steps=6 checkpoint.keep=1 checkpoint.every=0
tap_ok "... is left alone" test "$(names)" = "step_000000004.h5 step_00000006.h5"
tap_done
