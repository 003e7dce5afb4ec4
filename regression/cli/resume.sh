# TEST timeout=60
# What may change when a run is resumed: values spelt in another way, the end of wsd, and what is said of it.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'number %g' 1 400 >text
train() {
    "$PENTA" train data.path=text model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 model.kv_heads=2 \
        model.head_dim=16 train.sequence=16 train.global_batch=4 checkpoint.every=0 "$@" >out 2>err
}
wsd=(train.decay=wsd train.warmup=2 train.wsd_decay=5 train.lr=1e-3 train.min_lr=1e-4)
rate() { sed -n "s/^{\"step\":$2,\"loss\".*\"lr\":\([0-9.e-]*\),.*/\1/p" "$1/metrics.jsonl"; }
digest() { "$PENTA" inspect "$1/checkpoints/step_00000020.h5" --digest; }

tap_ok "a run of 20 steps" train run.dir=whole "${wsd[@]}" train.steps=20
for how in "train.steps=20" "train.steps=20 train.decay_steps=20"; do
    rm -rf moved
    tap_fails "one of 15 steps stops before its decay" 75 train run.dir=moved "${wsd[@]}" train.steps=15 run.stop_step=10
    # shellcheck disable=SC2086 # words
    tap_ok "... gets a later end by $how" train run.dir=moved "${wsd[@]}" $how
    tap_ok "... says so" grep -q 'schedule has now 20 steps, in the checkpoint 15' err
    tap_ok "... and is the run of 20 steps, bit for bit" test "$(digest whole)" = "$(digest moved)"
    tap_ok "... in its rates, too" test "$(rate whole 19)" = "$(rate moved 19)"
done
rm -rf moved
tap_fails "one stops in its decay" 75 train run.dir=moved "${wsd[@]}" train.steps=15 run.stop_step=12
tap_fails "... whose end stays" 2 train run.dir=moved "${wsd[@]}" train.steps=20 train.decay_steps=20
tap_ok "... for a reason" grep -q 'until the decay begins: after update 10 of the old' err
tap_ok "... more steps are a warning" train run.dir=moved "${wsd[@]}" train.steps=20
tap_ok "... in words" grep -q 'goes beyond the learning-rate schedule of 15 steps' err
tap_fails "... nor does its length change" 2 train run.dir=moved "${wsd[@]}" train.steps=15 train.wsd_decay=4
tap_ok "... for the same reason" grep -q 'train.wsd_decay: now 4 .*until the decay begins: after update 10 .* 11 of the new' err
tap_fails "... nor its shape" 2 train run.dir=moved "${wsd[@]}" train.steps=15 train.decay=linear
tap_ok "... for the same reason" grep -q 'train.decay: now linear (command line), checkpoint wsd (it may change until' err
rm -rf moved
tap_fails "one stops before its decay" 75 train run.dir=moved "${wsd[@]}" train.steps=20 run.stop_step=12 train.wsd_decay=3
tap_fails "... which may not begin earlier than that" 2 train run.dir=moved "${wsd[@]}" train.steps=20 train.wsd_decay=9
tap_ok "... but may be longer" train run.dir=moved "${wsd[@]}" train.steps=20
tap_ok "... and is then that of the other run" test "$(digest whole)" = "$(digest moved)"
rm -rf moved
tap_fails "a constant rate" 75 train run.dir=moved "${wsd[@]}" train.decay=constant train.steps=12 run.stop_step=11
tap_ok "... may end as wsd" train run.dir=moved "${wsd[@]}" train.steps=20
tap_ok "... and is then that of the other run" test "$(digest whole)" = "$(digest moved)"
rm -rf moved
tap_fails "a cosine" 75 train run.dir=moved train.decay=cosine train.warmup=4 train.steps=20 run.stop_step=8
for shape in linear constant wsd; do
    tap_fails "... does not become $shape" 2 train run.dir=moved train.decay=$shape train.warmup=4 train.steps=20
done

tap_ok "a default warm-up" train run.dir=warm train.steps=20
tap_fails "... of a run that stops in it" 75 train run.dir=short train.steps=20 run.stop_step=3
tap_ok "... and goes on with few steps" train run.dir=short train.steps=5
tap_ok "... is as long as it was" test "$(rate warm 5)" = "$(rate short 5)"
tap_fails "... without a word" 1 grep -q "train.warmup" err

tap_fails "a run without masks stops" 75 train run.dir=mask run.stop_step=2 train.steps=6
tap_fails "... and goes on with none, spelt in another way" 75 train run.dir=mask run.stop_step=4 train.steps=6 data.mask=-
tap_ok "... and back" train run.dir=mask train.steps=6
head -c "$(wc -c <text)" /dev/zero | tr '\0' '\1' >ones
tap_fails "... but not with a file" 2 train run.dir=mask train.steps=8 data.mask=ones

tap_fails "a plain run stops" 75 train run.dir=plain run.stop_step=2 train.steps=6
tap_fails "the same values, spelt in another way, are the same" 75 train run.dir=plain run.stop_step=4 train.steps=6 \
    data.split=.95,.05 data.weights=1 train.grad_dtype=fp32 train.decay_steps=6
tap_fails "... without a word" 1 grep -q 'options that change' err
tap_ok "another rate is taken" train run.dir=plain train.steps=6 train.lr=0.0005 train.beta2=0.9 train.eps=1e-7 \
    train.weight_decay=0 train.clip=2
for part in 'train.lr: 0.001 in the checkpoint, now 0.0005' 'train.beta2: 0.95' 'train.eps: 1e-08' 'train.weight_decay: 0.1' \
    'train.clip: 1 in the checkpoint, now 2'; do
    tap_ok "... and told: $part" grep -qF "$part" err
done
tap_ok "... in one line" test "$(grep -c 'in the checkpoint' err)" -eq 1
tap_done
