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

# ---- What cannot be read is not damaged: nothing older is taken, nothing is replaced ----
saved() { stat -c '%i %Y' "$1"; }
again() { # a run of two steps more, that stopped at step 4
    rm -rf again
    cp -r --preserve=timestamps plain again
    rm -f again/summary.json
    file=again/checkpoints/step_00000004.h5
    before=$(saved $file)
}
unread() { # WHAT RANKS: ended with 4, once, and the file is what it was
    tap_ok "$1, $2 ranks: 4" test $status -eq 4
    tap_ok "$1, $2 ranks: one error that names the file" one_error step_00000004.h5
    tap_ok "$1, $2 ranks: nothing was replaced" test "$(saved $file)" = "$before"
    tap_ok "$1, $2 ranks: no step was done" test "$(wc -l <again/metrics.jsonl)" -eq "$(wc -l <plain/metrics.jsonl)"
}
for site in checkpoint.open checkpoint.read; do
    for rank in 0 1; do
        again
        PENTA_FAULT="$site:$rank:*:io" train 2 run.dir=again train.steps=6
        status=$?
        unread "$site fails on rank $rank" 2
    done
done
again
rm $file
mkdir $file
before=$(saved $file)
train 1 run.dir=again train.steps=6
status=$?
unread 'a directory' 1
again
rm $file
mkfifo $file
before=$(saved $file)
train 1 run.dir=again train.steps=6
status=$?
unread 'a FIFO' 1

# ---- Damaged ones are skipped, and replaced when the run comes by ----
again
printf x | dd of=$file bs=1 seek=3000 conv=notrunc 2>dd.log
truncate -s -1 $file
train 2 run.dir=again train.steps=6
tap_ok "damaged: goes on from an older one" test $? -eq 0
tap_ok "damaged: says so" grep -q 'skipped a damaged checkpoint' err
tap_ok "damaged: is good again" good $file

# ---- A copy under a later name ----
again
cp $file again/checkpoints/step_00000100.h5
train 2 run.dir=again train.steps=6
tap_ok "misnamed copy: goes on" test $? -eq 0
tap_ok "misnamed copy: from step 4" grep -q 'step_00000004.h5' out
tap_ok "misnamed copy: one warning" test "$(grep -c ' warning: .*step_00000100.h5: skipped: it holds step 4' err)" -eq 1
tap_ok "misnamed copy: to step 6" good again/checkpoints/step_00000006.h5
timeout 20 "$PENTA" sample run.dir=again sample.tokens=1 sample.prompt=a >out 2>err
tap_ok "misnamed copy: sample takes step 6" grep -q 'step_00000006.h5, step 6' err out
alone run.dir=begun train.init_from=again
tap_ok "misnamed copy: init_from takes step 6" grep -q 'step_00000006' begun/summary.json
alone run.dir=named checkpoint.resume=again/checkpoints/step_00000100.h5 train.steps=5
tap_ok "misnamed copy: taken when it is named" good named/checkpoints/step_00000005.h5

# ---- Beside a run at work ----
# shellcheck disable=SC2086 # words
"$PENTA" train $base data.path="$data" run.dir=live train.steps=10000000 checkpoint.every=1 checkpoint.keep=1 \
    checkpoint.verify=none run.log_every=1000000 >live.out 2>live.err </dev/null &
job=$!
for _ in $(seq 200); do
    ls live/checkpoints/*.h5 >ls.log 2>&1 && break
    sleep 0.05
done
failed=0
for _ in $(seq 20); do
    timeout 20 "$PENTA" sample run.dir=live sample.tokens=1 sample.prompt=a >out 2>err || failed=$((failed + 1))
done
tap_ok "live: every sample works ($failed fail)" test $failed -eq 0
alone run.dir=from-live train.init_from=live
tap_ok "live: init_from works" test $? -eq 0
kill -TERM $job
wait $job
tap_ok "live: the run was not harmed" test $? -eq 75

tap_done
