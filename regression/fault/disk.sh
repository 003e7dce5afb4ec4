# TEST timeout=120
# Disks that are slow or turn read-only: a run measures its saves and ends in time, says once what is
# wrong, and keeps what it published.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

work=$PWD
cleanup() {
    local p
    for p in run/checkpoints run data; do
        if mountpoint -q "$work/$p"; then umount "$work/$p"; fi
    done
}
trap cleanup EXIT

base="train.steps=40 train.global_batch=3 train.micro_batch=1 train.sequence=32 model.layers=2
model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2 model.head_dim=8 data.path=data/corpus.txt
run.dir=run checkpoint.keep=1000"

run_with() { # ARGUMENT...: a run on three ranks; out, err, its status
    # shellcheck disable=SC2086 # words
    timeout -k 2 60 "$MPIEXEC" -n 3 "$PENTA" train $base "$@" >out 2>err </dev/null
}
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1" 2>/dev/null; }
code_is() { [ "$(field run/status.json code)" = "$1" ]; }
newest() { find run/checkpoints -name 'step_*.h5' 2>/dev/null | sort | tail -n 1; }
step_of() { basename "$1" .h5 | sed 's/step_0*//'; }
one_error() { [ "$(grep -c ' error: ' err)" -eq 1 ] && grep ' error: ' err | grep -qF -- "$1"; }
warned() { grep ' warning: ' err | grep -qF -- "$1"; }
all_good() {
    local f
    for f in run/checkpoints/step_*.h5; do
        "$PENTA" inspect "$f" --verify >verify.log 2>&1 || return 1
    done
}

mkdir data
seq -f 'line %g of the corpus, with some words in it' 1 4000 >data/corpus.txt

# ---- Slow: every save takes two seconds more ----
slow='checkpoint.create:0:*:slow,checkpoint.close:2:*:slow'
began=$(tap_milliseconds)
PENTA_FAULT=$slow run_with run.time_limit=00:12 train.steps=1000000 checkpoint.every=200
status=$?
took=$(($(tap_milliseconds) - began))
tap_ok "slow disk: stops with 75 ($status)" test $status -eq 75
tap_ok "slow disk: in time ($took ms of 12000)" test $took -lt 12500
tap_ok "slow disk: but made use of it" test $took -gt 5000
tap_ok "slow disk: status.json" code_is 75
tap_ok "slow disk: several saves were made" test "$(grep -c '^saved' out)" -ge 2
tap_ok "slow disk: each took what it took" test -z "$(sed -n 's/^saved .* in \([0-9.]*\) s, .*/\1/p' out | awk '$1 < 1.9')"
tap_ok "slow disk: the last step is saved" test "$(step_of "$(newest)")" = "$(field run/status.json step)"
tap_ok "slow disk: all files are good" all_good
rm -rf run

# A stop that is asked for inside a slow save waits for it.
PENTA_FAULT=$slow run_with checkpoint.every=5 train.steps=100000 &
job=$!
for _ in $(seq 400); do
    [ -e run/checkpoints/step_00000005.h5.partial ] && break
    sleep 0.05
done
touch run/stop
wait $job
tap_ok "stopped in a slow save: 75" test $? -eq 75
tap_ok "stopped in a slow save: no partial file" test -z "$(find run -name '*.partial')"
tap_ok "stopped in a slow save: the last step is saved" test "$(step_of "$(newest)")" = "$(field run/status.json step)"
rm -rf run

# ---- Read-only: root may write anywhere, but not on what is mounted read-only ----
mkdir probe
if ! mount -t tmpfs penta-test probe 2>/dev/null; then
    tap_result 0 "read-only disks # SKIP cannot mount"
    tap_done
fi
umount probe

# The corpus is only read.
mount --bind data data && mount -o remount,bind,ro data
tap_ok "read-only corpus: the corpus cannot be written" test ! -w data/corpus.txt
tap_ok "read-only corpus: no matter" run_with
tap_ok "read-only corpus: 0 in status.json" code_is 0
rm -rf run

# run.dir from the start: nothing can be said there.
tap_fails "a run with checkpoints" 75 run_with run.stop_step=10 checkpoint.every=5
mount --bind run run && mount -o remount,bind,ro run
tap_fails "read-only run.dir: 4" 4 run_with
tap_ok "read-only run.dir: one message" one_error "run: this directory cannot be written: Read-only file system"
umount run
tap_ok "read-only run.dir: all files are good" all_good
tap_ok "read-only run.dir: writable again, it goes on" run_with
tap_ok "read-only run.dir: from step 10" grep -q '^resumed .*step 10$' out
rm -rf run

# Checkpoints that turn read-only under way, as disks with errors do: a warning a save, and the last ends it.
mkdir -p run/checkpoints
mount -t tmpfs penta-test run/checkpoints
PENTA_FAULT=checkpoint.renamed:0:10:slow run_with checkpoint.every=5 &
job=$!
for _ in $(seq 400); do
    [ -e run/checkpoints/step_00000010.h5 ] && break
    sleep 0.02
done
mount -o remount,ro run/checkpoints
mounted=$?
wait $job
status=$?
tap_ok "read-only under way: remounted" test $mounted -eq 0
tap_ok "read-only under way: 4 ($status)" test $status -eq 4
tap_ok "read-only under way: a warning names the cause" warned "Read-only file system"
tap_ok "read-only under way: one message" one_error "Read-only file system"
tap_ok "read-only under way: all steps were done" grep -q '"step":40,' run/metrics.jsonl
tap_ok "read-only under way: status.json" code_is 4
tap_ok "read-only under way: earlier files are good" all_good
tap_ok "read-only under way: step 10 is the newest" test "$(step_of "$(newest)")" = 10
mount -o remount,rw run/checkpoints
tap_ok "read-only under way: writable again, it goes on" run_with
tap_ok "read-only under way: from step 10" grep -q '^resumed .*step 10$' out
tap_ok "read-only under way: no partial file" test -z "$(find run -name '*.partial')"
tap_done
