# TEST timeout=60
# What a run that begins with the weights of another, and trains on some tokens only, says of it.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'number %g' 1 400 >text
tr -c '0-9' '\000' <text | tr '0-9' '\001' >mask
tr '\001' '\000' <mask >nothing
train() {
    "$PENTA" train data.path=text model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 model.kv_heads=2 \
        model.head_dim=16 train.sequence=16 train.global_batch=4 train.steps=4 "$@" >out 2>err
}
valid() { sed -n 's/.*"tokens":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1; }

tap_ok "a model is trained" train run.dir=base
tap_ok "... on all tokens" test "$(valid base)" -eq $((4 * 4 * 16))
digest=$("$PENTA" inspect base/checkpoints/step_00000004.h5 --digest)
tap_fails "another begins with its weights and stops" 75 \
    train run.dir=next train.init_from=base data.mask=mask run.stop_step=4 train.steps=5
tap_ok "... says so" grep -q "^weights .*base/checkpoints/step_00000004.h5, step 4, digest $digest" out
tap_ok "... and is trained on fewer" test "$(valid next)" -lt $((4 * 4 * 16 / 2))
tap_ok "... more than none" test "$(valid next)" -gt 0
tap_ok "it goes on" train run.dir=next train.init_from=base data.mask=mask train.steps=5
tap_ok "... from its own checkpoint, and says so" grep -q '^resumed .*next/.* at step 4; train.init_from is ignored' out
tap_fails "not without its mask" 2 train run.dir=next train.steps=6
tap_ok "... naming the option" grep -q 'data.mask: now empty (default), checkpoint mask' err
tap_ok "a mask of zeros is no error" train run.dir=zero data.mask=nothing
tap_ok "... but one warning" test "$(grep -c 'step 1: none of its labels counts' err)" -eq 1
tap_ok "... and no more" test "$(grep -c 'none of its labels counts' err)" -eq 1
tap_ok "another type of weights is told" train run.dir=double train.init_from=base train.precision=fp64
tap_ok "... in words" grep -q 'holds its weights in fp32: they are converted to fp64' err
tap_ok "bf16 has masters of the same type" train run.dir=narrow train.init_from=base train.precision=bf16
tap_fails "... and no word of it" 1 grep -q converted err
file=checkpoints/step_00000004.h5
"$PENTA" inspect base/$file --diff double/$file >out 2>err
tap_ok "tensors of another type are compared, each in one row" \
    test "$(sed -n 's/tensors_that_differ: //p' out)" = "$("$PENTA" inspect base/$file --tensors | sed -n 's/tensors: //p')"
tap_done
