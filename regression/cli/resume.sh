# TEST timeout=60
# What may change when a run is resumed: values spelt in another way, the end of wsd, and what is said of it.
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
