# TEST timeout=180
# Names and things that people and other programs put in the way of a run's files.
# SPDX-License-Identifier: Apache-2.0
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

# ---- Links and things that are no files ----
fresh() {
    rm -rf way
    mkdir way
}
refused() { # NAME WORDS: 4, once, with these words, in time
    tap_ok "$1: 4" test $status -eq 4
    tap_ok "$1: one error: $2" one_error "$2"
}
ln -s nowhere dangling
ln -s plain/../linked-to link
mkdir linked-to
alone run.dir=dangling
status=$?
refused 'run.dir is a link to nothing' 'a dangling symbolic link'
alone run.dir=link
tap_ok "run.dir is a link to a directory" good linked-to/checkpoints/step_00000004.h5
fresh
ln -s nowhere way/checkpoints
alone run.dir=way
status=$?
refused 'checkpoints is a link to nothing' 'way/checkpoints: cannot create this directory: it is a dangling symbolic link'
fresh
: >way/checkpoints
alone run.dir=way
status=$?
refused 'checkpoints is a file' 'is not a directory'
for name in metrics.jsonl run.lock; do
    fresh
    mkfifo way/$name
    alone run.dir=way
    status=$?
    refused "$name is a FIFO" "$name: is not a regular file; remove it"
    fresh
    mkdir way/$name
    alone run.dir=way
    status=$?
    refused "$name is a directory" "way/$name: "
done
for name in status.json summary.json config.resolved.ini; do
    fresh
    mkdir way/$name
    alone run.dir=way
    status=$?
    refused "$name is a directory" "way/$name"
    fresh
    echo untouched >target
    ln -s ../target way/$name
    alone run.dir=way
    tap_ok "$name is a link: ends" test $? -eq 0
    tap_ok "$name is a link: its target stays" test "$(cat target)" = untouched
    tap_ok "$name is a link: a file replaced it" test ! -L way/$name
    fresh
    mkfifo way/$name
    alone run.dir=way
    tap_ok "$name is a FIFO: replaced" test -f way/$name
done
fresh
echo '{"step":0}' >target
cp target before
ln -s ../target way/metrics.jsonl
alone run.dir=way
tap_ok "metrics.jsonl is a link: its target stays" cmp -s target before
tap_ok "metrics.jsonl is a link: a file with its lines replaced it" test ! -L way/metrics.jsonl -a "$(wc -l <way/metrics.jsonl)" -ge 5
fresh
ln -s ../nothing way/metrics.jsonl
alone run.dir=way
tap_ok "metrics.jsonl is a link to nothing: a file replaced it" test ! -L way/metrics.jsonl -a -f way/metrics.jsonl -a ! -e nothing
fresh
mkdir -p way/checkpoints/step_00000004.h5.partial/x
alone run.dir=way
status=$?
refused 'a partial file is a directory' 'step_00000004.h5.partial: is in the way'

# ---- The stop file ----
fresh
mkdir -p way/stop/inside
alone run.dir=way
tap_ok "stop is a directory: all steps" test $? -eq 0
tap_ok "stop is a directory: one warning" test "$(grep -c ' warning: way/stop is a directory' err)" -eq 1
fresh
ln -s nowhere way/stop
alone run.dir=way
tap_ok "stop is a link to nothing: counts" test $? -eq 75
tap_ok "stop is a link to nothing: removed" test ! -L way/stop
alone run.dir=way
tap_ok "stop is a link to nothing: the next start goes on" test $? -eq 0

# ---- checkpoints/ removed under way ----
fresh
PENTA_FAULT='checkpoint.renamed:0:2:slow' alone run.dir=way train.steps=8 checkpoint.every=2 &
job=$!
for _ in $(seq 300); do
    [ -e way/checkpoints/step_00000002.h5 ] && break
    sleep 0.02
done
rm -rf way/checkpoints
wait $job
tap_ok "checkpoints removed: ends with 0" test $? -eq 0
tap_ok "checkpoints removed: later saves work" good way/checkpoints/step_00000008.h5
tap_ok "checkpoints removed: one warning" test "$(grep -c ' warning: way/checkpoints: was removed' err)" -eq 1

# ---- Names that are no UTF-8 ----
odd=$(printf 'caf\351')
cp corpus.txt "$odd.txt"
alone run.dir="$odd" data.path="$odd.txt"
tap_ok "not UTF-8: ends" test $? -eq 0
alone run.dir="$odd" data.path="$odd.txt" train.steps=6
tap_ok "not UTF-8: resumed_from" grep -q '"resumed_from": ".*step_00000004.h5"' "$odd/summary.json"
tap_ok "not UTF-8: the name's bytes stay in config.resolved.ini" grep -qaF "$odd.txt" "$odd/config.resolved.ini"
timeout 20 "$PENTA" inspect "$odd/checkpoints/step_00000006.h5" --config >config.ini 2>err
timeout 60 "$PENTA" train config.ini run.dir=odd2 >out 2>err
tap_ok "not UTF-8: the configuration of the file trains again" test $? -eq 0
timeout 20 "$PENTA" inspect "$odd/checkpoints/step_00000006.h5" --config --json >config.json 2>err
tap_ok "not UTF-8: inspect --json has its text" grep -q 'caf.*txt' config.json
alone run.dir=odd3 train.init_from="$odd"
tap_ok "not UTF-8: init_from" grep -q '"file": "caf.*step_00000006.h5"' odd3/summary.json

tap_done
