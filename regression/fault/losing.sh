# TEST timeout=240
# What a run that fails, a purge or a full disk must not cost: steps that were done, and records of them.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

work=$PWD
ulimit -c 0
trap 'if mountpoint -q "$work/run"; then umount "$work/run"; fi' EXIT
base="train.steps=30 train.global_batch=3 train.micro_batch=1 train.sequence=32 model.layers=2 model.hidden=32
model.ffn=64 model.heads=4 model.kv_heads=2 model.head_dim=8 run.dir=run checkpoint.every=1000"
text=data.path=corpus.txt

run_with() { # RANKS ARGUMENT...: out, err, its status
    local ranks=$1
    shift
    # shellcheck disable=SC2086 # words
    timeout -k 2 60 "$MPIEXEC" -n "$ranks" "$PENTA" train $base "$@" >out 2>err </dev/null
}
begin_run() { # RANKS ARGUMENT...: the same in the background; $job is mpiexec
    local ranks=$1
    shift
    rm -f err # of the run before
    # shellcheck disable=SC2086 # words
    timeout -k 2 60 "$MPIEXEC" -n "$ranks" "$PENTA" train $base "$@" >out 2>err </dev/null &
    job=$!
}
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1" 2>/dev/null; }
status_is() { # KEY VALUE
    [ "$(field run/status.json "$1")" = "$2" ] || { echo "# $1 is $(field run/status.json "$1"), not $2"; return 1; }
}
steps_saved() { find run/checkpoints -name 'step_*.h5' 2>/dev/null | sed 's/.*step_0*//; s/\.h5//' | sort -n | paste -sd ' '; }
saved() { [ "$(steps_saved)" = "$1" ] || { echo "# saved: $(steps_saved), not $1"; return 1; }; }
one_error() { [ "$(grep -c ' error: ' err)" -eq 1 ] && grep ' error: ' err | grep -qF -- "$1"; }
warned() { grep ' warning: ' err | grep -qF -- "$1"; }
wait_for() { # SECONDS COMMAND...: until it succeeds
    local until=$((SECONDS + $1 * ${PENTA_TEST_TIMEOUT_SCALE-1}))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.05
    done
}
fill() { # the disk of run
    dd if=/dev/zero of=run/ballast bs=4096 status=none 2>/dev/null
}
has_step() { grep -q "\"step\":$1," run/metrics.jsonl; }
digest_is() { [ "$(field run/summary.json digest)" = "$1" ]; }
# Each step once, in order, and every line whole.
metrics_are_whole() { # STEPS
    [ "$(sed -n 's/^{"step":\([0-9]*\),"loss".*}$/\1/p' run/metrics.jsonl | paste -sd ' ')" = "$(seq -s ' ' "$1")" ]
}

seq -f 'line %g of the corpus, with some words in it' 1 2000 >corpus.txt

# ---- The batch of a step cannot be read: the steps before it are saved ----
# 16-bit tokens below 250, so many that the hash taken at the start sees few; one that step 21 reads is 300.
tokens() { # VALUE
    # shellcheck disable=SC2059 # the format is the bytes
    printf "$(awk -v bad="$1" 'BEGIN { x = 7; for (i = 0; i < 200000; i++) { x = x * 137 % 10007
        t = i == 1925 ? bad : x % 250; printf "\\%03o\\%03o", t % 256, int(t / 256) } }')" >tokens
}
ids="data.path=tokens data.format=u16 data.shuffle=no model.vocab=256"
# shellcheck disable=SC2086 # words
{
    for ranks in 1 3; do
        rm -rf run
        tokens 30
        tap_ok "tokens, $ranks ranks: an undisturbed run" run_with $ranks $ids
        reference=$(field run/summary.json digest)
        rm -rf run
        tokens 300
        tap_fails "bad token, $ranks ranks: 2" 2 run_with $ranks $ids checkpoint.every=9 checkpoint.keep=1
        tap_ok "bad token, $ranks ranks: one message" one_error "token number 1925 is 300"
        tap_ok "bad token, $ranks ranks: of step 21" grep -q ' error: .*step 21' err
        tap_ok "bad token, $ranks ranks: step 20 is saved, none is retired" saved "18 20"
        tap_ok "bad token, $ranks ranks: all steps are in metrics.jsonl" metrics_are_whole 20
        tap_ok "bad token, $ranks ranks: status.json says 2" status_is code 2
        tap_ok "bad token, $ranks ranks: and what is saved" status_is checkpoint_step 20
        tap_fails "bad token, $ranks ranks: again" 2 run_with $ranks $ids
        tap_ok "bad token, $ranks ranks: nothing new to save" saved "18 20"
        tokens 30
        tap_ok "bad token, $ranks ranks: mended, it goes on" run_with $ranks $ids
        tap_ok "bad token, $ranks ranks: the same bits" digest_is "$reference"
    done
    # A save that cannot be made does not hide why the run ends.
    rm -rf run
    tokens 300
    export PENTA_FAULT="checkpoint.write:1:*:nospace"
    tap_fails "bad token on a full disk: 2" 2 run_with 3 $ids
    unset PENTA_FAULT
    tap_ok "bad token on a full disk: one message" one_error "token number 1925 is 300"
    tap_ok "bad token on a full disk: a warning" warned "step 20 could not be saved either"
    tap_ok "bad token on a full disk: status.json" grep -q '"message": ".*token number 1925' run/status.json
}

# A corpus that is cut while it is read.
rm -rf run
tap_ok "text: an undisturbed run" run_with 3 $text train.steps=400
reference=$(field run/summary.json digest)
rm -rf run
cp corpus.txt whole.txt
begin_run 3 $text train.steps=400 train.decay_steps=400
wait_for 20 has_step 5
truncate -s 1000 corpus.txt
wait $job
tap_ok "cut corpus: 4" test $? -eq 4
step=$(field run/status.json step)
tap_ok "cut corpus: step $step is saved" saved "$step"
cp whole.txt corpus.txt
tap_ok "cut corpus: whole again, it goes on" run_with 3 $text train.steps=400
tap_ok "cut corpus: from step $step" grep -q "^resumed .* step $step$" out
tap_ok "cut corpus: the same bits" digest_is "$reference"

# ---- Numbers that are not finite: the step before is saved ----
rm -rf run
export PENTA_FAULT=train.gradient:1:8:nan
tap_fails "NaN in step 8: 5" 5 run_with 3 $text
unset PENTA_FAULT
tap_ok "NaN in step 8: step 7 is saved" saved 7
tap_ok "NaN in step 8: status.json" status_is checkpoint_step 7

# ---- A validation that cannot be read ----
rm -rf run
tokens 30
cp tokens other
begin_run 3 data.path=tokens data.format=u16 model.vocab=256 data.validation=other=other run.eval_every=5 train.steps=400
wait_for 20 has_step 6
truncate -s 100 other
wait $job
tap_ok "cut validation: 4" test $? -eq 4
step=$(field run/status.json step)
tap_ok "cut validation: after step $step, which is saved" saved "$step"

# ---- Checkpoints that a purge took away ----
rm -rf run
tap_ok "purge: an undisturbed run" run_with 3 $text
reference=$(field run/summary.json digest)
rm -rf run
tap_fails "purge: a run with checkpoints" 75 run_with 3 $text checkpoint.every=5 run.stop_step=12
tap_ok "purge: the newest is on record" grep -q '^  "step": 12,$' run/published.json
cp -R run whole
rm run/checkpoints/step_00000012.h5
tap_ok "purge of the newest: it goes on" run_with 3 $text
tap_ok "purge of the newest: from the one before" grep -q "^resumed .* step 10$" out
tap_ok "purge of the newest: a warning names both" grep -q ' warning: .* step 12, .* step 10,' err
tap_ok "purge of the newest: the same bits" digest_is "$reference"
tap_ok "a copy goes on elsewhere" run_with 3 $text run.dir=whole
rm -rf whole/checkpoints/* # keeps the record of step 30
tap_fails "purge of a copy: 4" 4 run_with 3 $text run.dir=whole
purged() { # NAME STEP: nothing is left
    rm -f run/checkpoints/*
    cp run/metrics.jsonl metrics
    tap_fails "$1: 4" 4 run_with 3 $text
    tap_ok "$1: one message" one_error "published step $2"
    tap_fails "$1: again" 4 run_with 1 $text
    tap_ok "$1: status.json" status_is code 4
    tap_ok "$1: metrics.jsonl is as it was" cmp -s metrics run/metrics.jsonl
}
cp run/checkpoints/step_00000010.h5 kept.h5
purged "purge of all" 30
rm run/published.json
printf '{"checkpoint_step": 30}' >run/status.json
purged "purge of all, known by status.json" 30
tap_ok "purge of all: told where to begin" run_with 3 $text checkpoint.resume=kept.h5
tap_ok "purge of all: the same bits" digest_is "$reference"
purged "purge of all, later" 30
tap_ok "purge of all: told to begin again" run_with 3 $text checkpoint.resume=none
tap_ok "purge of all: from step 1" metrics_are_whole 30
tap_ok "purge of all: begun again, the same bits" digest_is "$reference"

# Killed just after it published, or before it ever did.
for where in renamed create rename; do
    rm -rf run
    PENTA_FAULT=checkpoint.$where:0:5:kill run_with 3 $text checkpoint.every=5
    case $where in
    renamed) purged "killed when published" 5 ;;
    *)
        rm -f run/checkpoints/*
        tap_ok "killed at $where before the first: begins again" run_with 3 $text
        tap_ok "killed at $where before the first: the same bits" digest_is "$reference"
        ;;
    esac
done

# ---- Saves that fail ----
rm -rf run
tap_fails "no time: 2" 2 run_with 1 $text checkpoint.every_time=5
tap_ok "no time: says what one is" one_error "[HH:]MM:SS"
tap_fails "by time: 75" 75 run_with 3 $text checkpoint.every=0 checkpoint.every_time=00:01 checkpoint.keep=100 \
    train.steps=1000000 run.time_limit=00:06
count=$(grep -c ^saved out)
tap_ok "by time: a save a second ($count)" test "$count" -ge 3 -a "$count" -le 7
tap_ok "by time: the beginning says so" grep -q '^checkpoints every 00:01 and at the end' out

often="$text checkpoint.every=1 train.steps=20"
# shellcheck disable=SC2086 # words
{
    full="checkpoint.write:1:*:nospace" no_patience="checkpoint.again:0:*:io"
    rm -rf run
    PENTA_FAULT=$full,$no_patience tap_fails "all saves fail: 4" 4 run_with 3 $often checkpoint.max_failures=0
    tap_ok "all saves fail: all steps were done" metrics_are_whole 20
    tap_ok "all saves fail: warnings at 1, 2, 4, 8, 16" test "$(grep -c 'training goes on' err)" -eq 5
    tap_ok "all saves fail: one message" one_error "No space left on device"
    rm -rf run
    PENTA_FAULT=$full,$no_patience tap_fails "three saves fail: 4" 4 run_with 3 $often checkpoint.max_failures=3
    tap_ok "three saves fail: says so" one_error "3 saves in a row failed"
    tap_ok "three saves fail: after three steps" metrics_are_whole 3
    rm -rf run
    PENTA_FAULT=checkpoint.create:0:3:nospace,checkpoint.close:2:4:io \
        tap_ok "two saves fail: the run goes on" run_with 3 $often checkpoint.max_failures=3
    tap_ok "two saves fail: says when it works again" grep -q "saved again, after 2 that failed" err

    # The last one is tried again, for as long as there is time, or until somebody interrupts.
    rm -rf run
    began=$SECONDS
    PENTA_FAULT=checkpoint.rename:0:20:nospace tap_fails "the last save fails: 4" 4 \
        run_with 3 $text train.steps=20 run.time_limit=00:05
    took=$((SECONDS - began))
    tap_ok "the last save fails: after the time limit ($took s)" test $took -ge 3 -a $took -le 7
    tap_ok "the last save fails: status.json" status_is code 4
    tap_ok "the last save fails: nothing is left" saved ""
    rm -rf run
    export PENTA_FAULT=checkpoint.rename:0:20:nospace
    begin_run 3 $text train.steps=20
    unset PENTA_FAULT
    tap_ok "interrupted: it tries again" wait_for 20 grep -q "tried again" err
    mapfile -t ranks < <(tap_ranks_alive)
    kill -INT "${ranks[@]}"
    began=$SECONDS
    wait $job
    tap_ok "interrupted: 4" test $? -eq 4
    tap_ok "interrupted: at once" test $((SECONDS - began)) -le 3

    # No name of a file makes a full disk a hopeless one.
    name="Permission denied"
    PENTA_FAULT=checkpoint.rename:0:20:nospace tap_fails "a name like an error: 4" 4 \
        run_with 3 $text train.steps=20 run.time_limit=00:04 run.dir="$name"
    tap_ok "a name like an error: it tries again" grep -q "tried again.*No space left on device" err

    # A disk that is full for a moment.
    rm -rf run
    mkdir run
    if mount -t tmpfs -o size=4m penta-test run 2>/dev/null; then
        begin_run 3 $text train.steps=60 train.global_batch=60
        wait_for 20 has_step 1
        fill
        tap_ok "full for a moment: it tries again" wait_for 20 grep -q "tried again" err
        rm run/ballast
        wait $job
        tap_ok "full for a moment: 0" test $? -eq 0
        tap_ok "full for a moment: saved" saved 60
        tap_ok "full for a moment: metrics.jsonl is whole" metrics_are_whole 60
        tap_ok "full for a moment: no room is kept any longer" test ! -e run/status.reserve

        # In the middle of steps: lines wait, none is torn.
        rm -rf run/*
        begin_run 3 $text train.steps=100000 train.global_batch=60
        wait_for 20 has_step 3
        fill
        tap_ok "full under way: lines wait" wait_for 20 grep -q "wait to be written: 4" err
        rm run/ballast
        tap_ok "full under way: they are written" wait_for 20 grep -q "can be written again" err
        touch run/stop
        wait $job
        tap_ok "full under way: 75" test $? -eq 75
        tap_ok "full under way: metrics.jsonl is whole" metrics_are_whole "$(field run/status.json step)"

        # And until the end.
        export PENTA_FAULT="checkpoint.again:0:*:io"
        begin_run 3 $text train.steps=100000 train.global_batch=60
        unset PENTA_FAULT
        step=$(field run/status.json step)
        wait_for 20 has_step $((step + 3))
        fill
        wait_for 20 grep -q "wait to be written: 4" err
        mapfile -t ranks < <(tap_ranks_alive)
        kill -TERM "${ranks[@]}"
        wait $job
        tap_ok "full at the end: 4" test $? -eq 4
        tap_ok "full at the end: there was room for status.json" status_is code 4
        missing=$(sed -n 's/.*metrics.jsonl: \([0-9]*\) lines are missing.*/\1/p' err)
        step=$(field run/status.json step)
        tap_ok "full at the end: of $step lines ${missing:-none} are missing, which the log says" \
            metrics_are_whole $((step - ${missing:-0}))
        umount run
    else
        tap_result 0 "a disk that is full for a moment # SKIP cannot mount"
    fi
}
tap_done
