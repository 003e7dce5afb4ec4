# TEST timeout=180
# Names and things that people and other programs put in the way of a run's files.
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'line %g of a small corpus with a few words' 1 700 >corpus.txt
base="train.global_batch=3 train.micro_batch=1 train.sequence=32 train.steps=4 model.layers=2 model.hidden=32 model.ffn=64
model.heads=4 model.kv_heads=2 model.head_dim=8 checkpoint.every=2"
data=$PWD/corpus.txt

train() { # RANKS ARGUMENT...: out, err, the status
    local ranks=$1
    shift
    # shellcheck disable=SC2086 # words
    timeout -k 2 60 "$MPIEXEC" -n "$ranks" "$PENTA" train $base data.path="$data" "$@" >out 2>err </dev/null
}
alone() { # ARGUMENT...: without a launcher
    # shellcheck disable=SC2086 # words
    timeout -k 2 60 "$PENTA" train $base data.path="$data" "$@" >out 2>err </dev/null
}
one_error() { [ "$(grep -c ' error: ' err)" -eq 1 ] && grep ' error: ' err | grep -qF -- "$1"; }
good() { timeout 20 "$PENTA" inspect "$1" --verify >verify.log 2>&1; }
digest() { timeout 20 "$PENTA" inspect "$1" --digest; }

# ---- Names: any byte but / and NUL ----
train 2 run.dir=plain
tap_ok "plain: saved" good plain/checkpoints/step_00000004.h5
wanted=$(digest plain/checkpoints/step_00000004.h5)
for name in runs/2031-05-07T10:30:00 exp:1 nfs:/x ufs:y 'a b' "quo\"te'" 'back\slash' '#hash;semi' 'a%d'; do
    train 2 run.dir="$name"
    tap_ok "$name: ends with 0" test $? -eq 0
    tap_ok "$name: the same weights" test "$(digest "$name/checkpoints/step_00000004.h5")" = "$wanted"
    tap_ok "$name: no warning" test "$(grep -c ' warning: ' err)" -eq 0
done
train 2 run.dir=exp:1 train.steps=6
tap_ok "exp:1: goes on" grep -q 'resumed\|resume' out

tap_done
