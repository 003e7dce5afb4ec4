# TEST timeout=560,3600
# Runs that are killed, stopped or refused by their disk: the next start goes on from the newest
# published file, the result has the bits of an undisturbed run, and nothing hangs.
# PENTA_TEST_LEVEL=long kills 200 times instead of 20, KILLS=60 as often as it says, a quarter of them on a disk that is full.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

work=$PWD
ulimit -c 0
if [ "$PENTA_TEST_LEVEL" = long ]; then kills=200; else kills=${KILLS-20}; fi
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
    local began
    began=$(tap_milliseconds)
    { timeout "$1" tail -s 0.02 --pid="$job" -f /dev/null || kill -9 "$job"; } 2>/dev/null
    wait "$job" 2>/dev/null
    status=$?
    took=$(($(tap_milliseconds) - began))
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
    for f in run/checkpoints/step_*.h5; do [ ! -e "$f" ] || good "$f" || return 1; done # none: killed before the first
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
begun=$(tap_milliseconds)
tap_ok "an undisturbed run" run_with
span=$(($(tap_milliseconds) - begun)) # milliseconds
reference=$(field run/summary.json digest)
tap_ok "it has a digest" test -n "$reference"

# ---- Killed at random moments and sites, also while the disk fills ----

# A place of a save for one of the ranks that pass it, at one of the next steps.
random_site() { # KIND: a failure of the next run
    local sites=(create write close rename renamed) site rank=0 step
    site=${sites[RANDOM % 5]}
    case $site in create | write | close) rank=$((RANDOM % 3)) ;; esac
    step=$(($([ -z "$from" ] || step_of "$from") + 1 + RANDOM % 20))
    [ "$1" = kill ] || step='*' # a full disk stays full
    echo "checkpoint.$site:$rank:$step:$1"
}

# All that is free but up to 2 MiB, a few saves; where nothing can be mounted a save meets the failure.
fill_disk() {
    if mountpoint -q run; then
        dd if=/dev/zero of=run/ballast bs=1024 status=none \
            count=$(($(df -k --output=avail run | tail -n 1) - RANDOM % 2048))
    else
        export PENTA_FAULT
        PENTA_FAULT=$(random_site nospace)
    fi
}

new_run() { # a directory for it, on a small disk if possible
    if mountpoint -q run; then umount run; fi
    rm -rf run
    mkdir run
    mount -t tmpfs -o size=64m penta-test run 2>/dev/null || rmdir run
}

list_published() { find run/checkpoints -name 'step_*.h5' 2>/dev/null | sort; }

# What a run that ended so may have left in status.json: that of a run at work, as a rule. mpiexec's own status is no help: it is 0 when
# a rank is killed before it has begun.
ended_as_told() { # MODE
    [ -e run/status.json ] || return 0
    ! code_is null || return 0
    if code_is 0; then same_result; else [ "$1" = full ] && code_is 4; fi
}

kill_once() { # MODE: moment, site or full
    local delay victims
    unset PENTA_FAULT
    rm -f run/status.json
    case $1 in
    site)
        export PENTA_FAULT
        PENTA_FAULT=$(random_site kill)
        ;;
    full) fill_disk ;;
    esac
    begin_run
    unset PENTA_FAULT
    if [ "$1" != site ]; then
        delay=$((span / 8 + RANDOM % span)) # ends after the run now and then
        sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
        mapfile -t victims < <(tap_ranks_alive)
        victims+=("$job")
        kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null
    fi
    end_run 20
    rm -f run/ballast
}

judge_kill() { # MODE: what is wrong, in words
    none_left || echo "processes left"
    [ ! -s out ] || went_on_from "$from" || echo "not resumed from $from"
    ended_as_told "$1" || echo "status.json says $(field run/status.json code)"
    list_published | comm -13 - published | sed 's/$/ is gone/'
    good "$(newest)" || echo "$(newest) is damaged"
}

new_run
bad=0 finished=0 killed=0 from='' turn=0 filled=0
modes=(moment site moment full)
: >published
while [ $killed -lt $kills ] && [ $finished -lt $((4 * kills)) ]; do
    mode=${modes[turn++ % 4]}
    kill_once $mode
    why=$(judge_kill $mode)
    [ -z "$why" ] || { echo "# turn $turn, $mode, status $status: ${why//$'\n'/; }"; bad=$((bad + 1)); }
    if code_is 0; then
        finished=$((finished + 1))
        all_good || bad=$((bad + 1))
        new_run
    else
        killed=$((killed + 1))
        [ $mode != full ] || filled=$((filled + 1))
    fi
    from=$(newest)
    list_published >published
done
tap_ok "$kills kills, $filled on a full disk ($finished more runs ended before)" \
    test $bad -eq 0 -a $killed -eq $kills -a $filled -gt 0
tap_ok "all that was published is good" all_good
finish "after the kills"
tap_ok "after the kills: no partial file" no_partial
if mountpoint -q run; then umount run; fi

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
        PENTA_FAULT="$site:$steps:$kind,checkpoint.again:0:*:io" tap_fails "$kind at $where in the last save: 4" 4 \
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
# Open MPI's reads no more output on SIGTERM and SIGINT, and soon kills the ranks (jobs/README.md).
signals="TERM INT USR1"
[ "$PENTA_TEST_MPI" != openmpi ] || signals=USR1
for signal in $signals; do
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
    PENTA_FAULT="checkpoint.again:0:*:io" \
        tap_fails "full disk: the last save fails with 4" 4 run_with checkpoint.max_failures=0
    tap_ok "full disk: a warning says so" warned "training goes on"
    tap_ok "full disk: all steps were done" grep -q "\"step\":$steps," run/metrics.jsonl
    tap_ok "full disk: published files are good" all_good
    tap_ok "full disk: no partial file" no_partial
    umount run
else
    echo "ok $((tap_count += 1)) - full disk # SKIP cannot mount"
fi
tap_done
