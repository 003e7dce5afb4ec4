# TEST timeout=560
# Runs that are killed, stopped or refused by their disk: the next start goes on from the newest
# published file, the result has the bits of an undisturbed run, and nothing hangs.
# PENTA_TEST_LEVEL=long kills 200 times instead of 20.
. "$PENTA_SRCDIR/regression/tap.sh"

work=$PWD
ulimit -c 0
kills=20
[ "$PENTA_TEST_LEVEL" != long ] || kills=200
RANDOM=${SEED-1}
trap 'if mountpoint -q "$work/run"; then umount "$work/run"; fi' EXIT

steps=60
base="train.steps=$steps train.decay_steps=$steps train.global_batch=3 train.micro_batch=1
train.sequence=32 model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2
model.head_dim=8 data.path=corpus.txt run.dir=run checkpoint.every=1 checkpoint.keep=1000"

run_with() { # ARGUMENT...: a run on three ranks; out, err, its status
    # shellcheck disable=SC2086 # words
    timeout -k 2 30 "$MPIEXEC" -n 3 "$PENTA" train $base "$@" >out 2>err </dev/null
}

begin_run() { # ARGUMENT...: the same in the background; $job is mpiexec
    # shellcheck disable=SC2086 # words
    "$MPIEXEC" -n 3 "$PENTA" train $base "$@" >out 2>err </dev/null &
    job=$!
}

# A run that does not end by itself within the time is ended here, and that is a failure.
end_run() { # SECONDS: sets $status and $took (milliseconds)
    local began=${EPOCHREALTIME/./} guard
    (
        trap - EXIT
        sleep "$1"
        kill -9 "$job"
    ) 2>/dev/null &
    guard=$!
    wait "$job" 2>/dev/null
    status=$?
    took=$(((${EPOCHREALTIME/./} - began) / 1000))
    kill $guard 2>/dev/null
    wait $guard 2>/dev/null
}

none_left() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(tap_ranks_alive)" ] || return 0
        sleep 0.2
    done
    return 1
}

field() { # FILE KEY
    sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1" 2>/dev/null
}
code_is() { [ "$(field run/status.json code)" = "$1" ]; }
newest() { find run/checkpoints -name 'step_*.h5' 2>/dev/null | sort | tail -n 1; }
step_of() { basename "$1" .h5 | sed 's/step_0*//'; }
good() { [ -z "$1" ] || "$PENTA" inspect "$1" --verify >verify.log 2>&1; }
all_good() {
    local f
    for f in run/checkpoints/step_*.h5; do good "$f" || return 1; done
}
same_result() { [ "$(field run/summary.json digest)" = "$reference" ]; }
went_on_from() { [ -z "$1" ] || grep -q "^resumed *from $1 " out; }
warned() { grep ' warning: ' err | grep -qF -- "$1"; }
one_error() { [ "$(grep -c ' error: ' err)" -eq 1 ] && grep ' error: ' err | grep -qF -- "$1"; }
no_partial() { [ -z "$(find run -name '*.partial')" ]; }
wait_for_step() { # STEP: until the run has done it
    for _ in $(seq 600); do
        grep -q "\"step\":$1," run/metrics.jsonl 2>/dev/null && return 0
        sleep 0.05
    done
    return 1
}
finish() { # NAME: the next start goes on from the newest file and ends as if nothing had been
    local from
    from=$(newest)
    tap_ok "$1: the next start succeeds" run_with
    tap_ok "$1: it went on from ${from:-the beginning}" went_on_from "$from"
    tap_ok "$1: the same bits" same_result
}
flip() { # FILE OFFSET
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %03o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

seq -f 'line %g of the corpus, with some words in it' 1 4000 >corpus.txt
begun=${EPOCHREALTIME/./}
tap_ok "an undisturbed run" run_with
span=$(((${EPOCHREALTIME/./} - begun) / 1000)) # milliseconds
reference=$(field run/summary.json digest)
tap_ok "it has a digest" test -n "$reference"

# ---- Killed at random moments ----
rm -rf run
bad=0 finished=0 killed=0 from=
while [ $killed -lt $kills ] && [ $finished -lt $((4 * kills)) ]; do
    begin_run
    delay=$((span / 8 + RANDOM % span)) # ends after the run now and then
    sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
    mapfile -t victims < <(tap_ranks_alive)
    victims+=("$job")
    kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null
    end_run 20
    why=
    none_left || why="processes left"
    [ ! -s out ] || went_on_from "$from" || why="$why; not resumed from $from"
    if [ $status -eq 0 ]; then
        same_result || why="$why; other bits"
        finished=$((finished + 1))
        rm -rf run
    else
        killed=$((killed + 1))
        # A status.json then: mpiexec was killed when all was done.
        [ ! -e run/status.json ] || { code_is 0 && same_result; } ||
            why="$why; a killed run left a status.json"
    fi
    from=$(newest)
    good "$from" || why="$why; $from is damaged"
    [ -z "$why" ] || { echo "# kill $killed, status $status: $why"; bad=$((bad + 1)); }
done
tap_ok "$kills kills at random moments ($finished more runs ended before)" \
    test $bad -eq 0 -a $killed -eq $kills
finish "after the kills"
tap_ok "after the kills: no partial file" no_partial

# ---- Killed at a site: the newest file then is step 2, or 3 once it is renamed ----
for where in create:0 create:1 write:0 write:2 close:1 rename:0 renamed:0; do
    rm -rf run
    PENTA_FAULT=checkpoint.${where%:*}:${where#*:}:3:kill run_with
    tap_ok "killed at $where: not success" test $? -ne 0
    step=2
    [ $where != renamed:0 ] || step=3
    tap_ok "killed at $where: step $step is the newest" test "$(step_of "$(newest)")" = $step
    tap_ok "killed at $where: all files are good" all_good
    finish "killed at $where"
done

# ---- One rank cannot write ----
for where in create:0 create:1 write:0 write:2 close:1 rename:0; do
    for kind in io nospace; do
        site=checkpoint.${where%:*}:${where#*:}
        rm -rf run
        PENTA_FAULT=$site:3:$kind tap_ok "$kind at $where: the run goes on" run_with
        tap_ok "$kind at $where: a warning names the site" warned "checkpoint.${where%:*}"
        tap_ok "$kind at $where: no file of step 3" test ! -e run/checkpoints/step_00000003.h5
        tap_ok "$kind at $where: the same bits" same_result
        rm -rf run
        PENTA_FAULT=$site:$steps:$kind tap_fails "$kind at $where in the last save: 4" 4 \
            run_with checkpoint.every=0
        tap_ok "$kind at $where in the last save: one message" one_error "checkpoint.${where%:*}"
        tap_ok "$kind at $where in the last save: status.json" code_is 4
        tap_ok "$kind at $where in the last save: no partial file" no_partial
    done
done

# ---- Failures inside a step ----
rm -rf run
PENTA_FAULT=train.gradient:1:3:nan tap_fails "NaN in a gradient: 5" 5 run_with
tap_ok "NaN in a gradient: names the step" one_error "step 3: "
tap_ok "NaN in a gradient: names the parameter" one_error "embedding.token.weight"
tap_ok "NaN in a gradient: status.json" code_is 5
finish "NaN in a gradient"
for kind in kill exit segv; do
    rm -rf run
    export PENTA_FAULT=train.gradient:1:3:$kind
    begin_run
    unset PENTA_FAULT
    end_run 20
    tap_ok "$kind in a step: not success" test $status -ne 0
    tap_ok "$kind in a step: the others end ($took ms)" test $took -lt 6000
    tap_ok "$kind in a step: none left" none_left
    finish "$kind in a step"
done

# ---- Asked to stop ----
# hydra's mpiexec answers 0 once in some tens of times when it has passed a signal on: what counts then is
# status.json.
stopped() { # NAME [OTHER_STATUS]
    tap_ok "$1: 75 (mpiexec: $status)" test $status -eq 75 -o $status -eq "${2-75}"
    tap_ok "$1: status.json" code_is 75
    tap_ok "$1: the newest file is the last step" \
        test "$(step_of "$(newest)")" = "$(field run/status.json step)"
    finish "$1"
}
for signal in TERM INT USR1; do
    rm -rf run
    begin_run
    wait_for_step 3
    kill -s $signal $job
    end_run 20
    stopped "SIG$signal" 0
done
rm -rf run
begin_run
wait_for_step 3
touch run/stop
end_run 20
stopped "file stop"
rm -rf run
run_with run.stop_step=5
status=$?
stopped "run.stop_step"
rm -rf run
run_with run.time_limit=00:02 train.steps=100000 checkpoint.every=0
tap_ok "run.time_limit: 75" test $? -eq 75
tap_ok "run.time_limit: status.json" code_is 75

# A step long enough for the second interrupt to come inside it. hydra's mpiexec kills the job itself
# when it is interrupted again, so only ranks that are asked directly can say 130.
interrupted() { # NAME
    tap_ok "$1: not success" test $status -ne 0
    tap_ok "$1: at once ($took ms)" test $took -lt 5000
    tap_ok "$1: none left" none_left
}
rm -rf run
begin_run checkpoint.every=0 train.global_batch=20000
wait_for_step 1
mapfile -t victims < <(tap_ranks_alive)
kill -INT "${victims[@]}"
sleep 0.1
kill -INT "${victims[@]}"
end_run 20
interrupted "ranks interrupted twice"
tap_ok "ranks interrupted twice: status.json says 130" code_is 130
rm -rf run
begin_run checkpoint.every=0 train.global_batch=20000
wait_for_step 1
kill -INT $job
sleep 0.1
kill -INT $job
end_run 20
interrupted "mpiexec interrupted twice"

# ---- Damaged files ----
rm -rf run
run_with run.stop_step=5
last=$(newest)
flip "$last" 200000
tap_ok "newest file damaged: the next start succeeds" run_with
tap_ok "newest file damaged: a warning names it" warned "$last"
tap_ok "newest file damaged: the one before is taken" went_on_from run/checkpoints/step_00000004.h5
tap_ok "newest file damaged: the same bits" same_result
rm -rf run
run_with run.stop_step=3
for f in run/checkpoints/*.h5; do flip "$f" 200000; done
tap_fails "all files damaged: 4" 4 run_with
tap_ok "all files damaged: one message" one_error "none of its 3 checkpoints"
tap_ok "all files damaged: status.json" code_is 4

# ---- A full disk ----
rm -rf run
mkdir run
if mount -t tmpfs -o size=3m penta-test run 2>/dev/null; then
    tap_fails "full disk: the last save fails with 4" 4 run_with
    tap_ok "full disk: a warning says so" warned "training goes on"
    tap_ok "full disk: all steps were done" grep -q "\"step\":$steps," run/metrics.jsonl
    tap_ok "full disk: published files are good" all_good
    tap_ok "full disk: no partial file" no_partial
    umount run
else
    echo "ok $((tap_count += 1)) - full disk # SKIP cannot mount"
fi
tap_done
