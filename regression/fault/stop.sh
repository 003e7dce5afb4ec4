# TEST timeout=300
# Runs that are asked to stop: what they say of it, while they are at work and afterwards.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

ulimit -c 0
seq -f 'line %g of the corpus, with some words in it' 1 4000 >corpus.txt
steps=100000
base="train.steps=$steps train.decay_steps=$steps train.global_batch=3 train.micro_batch=1
train.sequence=32 model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2
model.head_dim=8 data.path=corpus.txt run.dir=run checkpoint.every=0"

begin_run() { # ARGUMENT...: on three ranks in the background; $job is mpiexec
    # shellcheck disable=SC2086 # words
    "$MPIEXEC" -n 3 "$PENTA" train $base "$@" >out 2>err </dev/null &
    job=$!
}
end_run() { # SECONDS: sets $status
    { timeout "$1" tail -s 0.02 --pid="$job" -f /dev/null || kill -9 "$job"; } 2>/dev/null
    wait "$job" 2>/dev/null
    status=$?
}
run_with() { # ARGUMENT...
    begin_run "$@"
    end_run 30
    return $status
}
field() { # KEY: of status.json
    sed -n "s/^ *\"$1\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}$/\1/p" run/status.json 2>/dev/null
}
field_is() { # KEY VALUE
    [ "$(field "$1")" = "$2" ] || { echo "# $1 is $(field "$1"), not $2"; return 1; }
}
field_has() { field "$1" | grep -q -- "$2" || { echo "# $1 is $(field "$1"), without $2"; return 1; }; }
wait_for() { # SECONDS COMMAND...: until it succeeds
    local until=$((SECONDS + $1 * ${PENTA_TEST_TIMEOUT_SCALE-1}))
    shift
    until "$@" >/dev/null; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.05
    done
}
has_step() { grep -q "\"step\":$1," run/metrics.jsonl 2>/dev/null; }
none_left() { wait_for 3 no_rank; }
no_rank() { [ -z "$(tap_ranks_alive)" ]; }
iso='^[0-9]\{4\}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z$'

# ---- At work ----
begin_run
tap_ok "a run begins" wait_for 20 has_step 3
tap_ok "at work: code is null" field_is code null
tap_ok "at work: RUNNING" field_is name RUNNING
tap_ok "at work: steps" field_is steps $steps
tap_ok "at work: ranks" field_is ranks 3
tap_ok "at work: no reason" field_is reason null
tap_ok "at work: no checkpoint" field_is checkpoint_step null
tap_ok "at work: started" field_has started "$iso"
tap_ok "at work: time" field_has time "$iso"
tap_ok "at work: a line a rank in hosts.txt" \
    test "$(awk -v host="$(hostname)" '$1 == NR - 1 && $2 == host && $3 > 1' run/hosts.txt | wc -l)" -eq 3
mapfile -t ranks < <(tap_ranks_alive | sort)
tap_ok "at work: with their processes" test "${ranks[*]}" = "$(cut -d ' ' -f 3 run/hosts.txt | sort | tr '\n' ' ' | sed 's/ $//')"
dated='2[0-9]\{3\}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z'
tap_ok "at work: metrics.jsonl has the time" grep -q "^{\"step\":3,.*\"time\":\"$dated\"}$" run/metrics.jsonl
tap_ok "at work: so have progress lines" grep -q "^step .* ETA .*  $dated$" out
tap_ok "at work: log lines begin with it" grep -q "^$dated rank 0 warning: 3 ranks" err
later() { ! field_is step 0; }
tap_ok "at work: it is renewed when the phase changes" wait_for 10 later
tap_ok "at work: once in 2 seconds at most" \
    test "$(for _ in 1 2 3 4 5 6 7 8 9 10; do stat -c %i:%Y run/status.json; sleep 0.1; done | sort -u | wc -l)" -le 2

# ---- Why it stopped ----
stopped_by() { # NAME REASON MESSAGE
    tap_ok "$1: status.json says 75" field_is code 75
    tap_ok "$1: reason" field_is reason "$2"
    tap_ok "$1: message" field_has message "$3"
    tap_ok "$1: the log says so" grep -q "the run ends early: .*$3" err
    tap_ok "$1: so does the end of the output" grep -q "^stopped by .*$3" out
    tap_ok "$1: summary.json too" grep -q "\"reason\": \"$2\"" run/summary.json
    tap_ok "$1: the newest checkpoint" field_is checkpoint_step "$(field step)"
    tap_ok "$1: none left" none_left
}
heard='heard at 2[0-9-]*T[0-9:]*Z on rank'
kill -USR1 $job
end_run 20
stopped_by SIGUSR1 signal "SIGUSR1, $heard 0"
begin_run
wait_for 20 has_step "$(($(field step) + 3))"
mapfile -t ranks < <(tap_ranks_alive)
for pid in "${ranks[@]}"; do
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'PMI_RANK=2' || kill -TERM "$pid"
done
end_run 20
stopped_by "SIGTERM to a rank" signal "SIGTERM, $heard 2"
begin_run run.time_limit=00:03
end_run 20
stopped_by "time limit" time_limit "run.time_limit=00:03"
tap_ok "timing.json has a save" grep -q '^    [0-9.e-]*,\{0,1\}$' run/timing.json
bytes=$(sed -n 's/^ *"state_bytes": \([0-9.]*\),$/\1/p' run/timing.json)
step=$(field step)
echo "{\"state_bytes\": $bytes, \"save_sec\": [0.1, 100]}" >run/timing.json
run_with run.time_limit=01:00
tap_ok "saves that took long: one step is all there is time for" field_is step $((step + 1))
tap_ok "saves that took long: reason" field_is reason time_limit
for foreign in "{\"state_bytes\": 1, \"save_sec\": [100]}" '{"state_bytes": 1' '[]' '{"save_sec": 3}' ''; do
    echo "$foreign" >run/timing.json
    step=$(field step)
    run_with run.time_limit=01:00 run.stop_step=$((step + 5))
    tap_ok "save times that do not count: $foreign" field_is reason stop_step
done
rm -f run/timing.json
mkfifo run/timing.json
run_with run.time_limit=01:00 run.stop_step=$((step + 10))
tap_ok "save times that are a pipe" field_is reason stop_step
begin_run
wait_for 20 has_step "$(($(field step) + 3))"
touch run/stop
end_run 20
stopped_by "stop file" stop_file "the file run/stop"
tap_ok "stop file: it is gone" test ! -e run/stop
step=$(($(field step) + 5))
run_with run.stop_step=$step
stopped_by "stop step" stop_step "run.stop_step=$step"
run_with run.stop_step=$step
stopped_by "stop step of before" stop_step "run.stop_step=$step"
run_with "train.steps=$((step + 2))"
tap_ok "finished: 0" test $status -eq 0
tap_ok "finished: no reason" field_is reason null
tap_ok "finished: code" field_is code 0

# ---- Another run took the directory over, or somebody removed the lock ----
rm -rf run
begin_run
wait_for 20 has_step 3
rm run/run.lock
wait_for 10 test -e run/run.lock
tap_ok "lock removed: it is made again" test -e run/run.lock
kill -TERM $job
end_run 20
stopped_by "lock removed" signal "SIGTERM, $heard"
tap_ok "lock removed: a warning" grep -q 'warning: run/run.lock: removed during .* created again' err
begin_run
wait_for 20 has_step "$(($(field step) + 3))"
echo "node7 4711 0123456789abcdef" >lock
mv lock run/run.lock
end_run 20
tap_ok "taken over: 2 (mpiexec: $status)" test $status -eq 2
tap_ok "taken over: one message" test "$(grep -c ' error: run: another run (host node7, process 4711) has taken over' err)" -eq 1
tap_ok "taken over: status.json is left alone" field_is code null
tap_ok "taken over: no save" test "$(find run/checkpoints -type f | wc -l)" -eq 1
tap_ok "taken over: the lock stays" grep -q node7 run/run.lock
tap_ok "taken over: none left" none_left

# ---- Before the loop ----
# From the moment on when the process can hear it, a signal is heard: it never just kills.
hears() { # PID: is it penta, not yet the shell that becomes it, and SIGTERM held or handled?
    local mask
    [ "/proc/$1/exe" -ef "$PENTA" ] || return 1
    for mask in $(sed -n 's/^Sig\(Blk\|Cgt\):[[:space:]]*//p' "/proc/$1/status" 2>/dev/null); do
        if ((0x$mask >> 14 & 1)); then return 0; fi
    done
    return 1
}
asked_early() { # SECONDS after it hears: what is wrong, in words
    rm -rf run
    # shellcheck disable=SC2086 # words
    "$PENTA" train $base >out 2>err </dev/null &
    job=$!
    until hears $job; do :; done
    sleep "$1"
    kill -TERM $job
    end_run 20
    case $status in
    130) [ ! -e run/status.json ] || field_is code 130 ;;
    75) field_is code 75 ;;
    *) echo "status $status" ;;
    esac
    grep -q 'SIGTERM, heard at .* on rank 0' err || echo "nothing said"
}
bad=0
for delay in 0 0 0 0 0.005 0.01 0.015 0.02 0.025 0.03 0.04 0.05 0.07 0.1 0.15 0.2; do
    why=$(asked_early $delay)
    [ -z "$why" ] || { echo "# after $delay s: $why"; bad=$((bad + 1)); }
done
tap_ok "asked at any moment, it says so and ends with 130 or 75" test $bad -eq 0

in_set_up() { field_is code null && field_is phase set-up; }
begun=$SECONDS
rm -rf run
PENTA_FAULT='train.setup:*:*:sleep' begin_run
tap_ok "set-up: the heartbeat says so" wait_for 20 in_set_up
kill -TERM $job
sleep 0.2
kill -TERM $job
end_run 20
tap_ok "two signals in set-up: 130 (mpiexec: $status)" test $status -eq 130
tap_ok "two signals in set-up: status.json" field_is code 130
tap_ok "two signals in set-up: reason" field_is reason signal
tap_ok "two signals in set-up: one message" test "$(grep -c '^penta: asked to stop' err)" -eq 1
tap_ok "two signals in set-up: none left" none_left
tap_ok "two signals in set-up: at once" test $((SECONDS - begun)) -lt 15

# A rank that does not answer: nobody waits for it longer than 20 seconds. There is a checkpoint: 75.
rm -rf run
run_with run.stop_step=2
tap_ok "a checkpoint to go on from" field_is checkpoint_step 2
PENTA_FAULT='train.setup:1:*:sleep' begin_run
wait_for 20 in_set_up
kill -TERM $job
begun=$SECONDS
end_run 40
tap_ok "a rank that hangs in set-up: 75 (mpiexec: $status)" test $status -eq 75
tap_ok "a rank that hangs in set-up: after 20 s ($((SECONDS - begun)))" \
    test $((SECONDS - begun)) -ge 19 -a $((SECONDS - begun)) -le 25
tap_ok "a rank that hangs in set-up: status.json" field_is code 75
tap_ok "a rank that hangs in set-up: reason" field_is reason signal
tap_ok "a rank that hangs in set-up: none left" none_left

# Set-up goes on while the ranks agree to end, and the checkpoint stays what it was.
PENTA_FAULT='train.setup:2:*:slow' begin_run
wait_for 20 in_set_up
kill -TERM $job
end_run 20
tap_ok "one signal in set-up: status.json" field_is code 75
tap_ok "one signal in set-up: message" field_has message 'SIGTERM, heard .*before the first step'
tap_ok "one signal in set-up: no step was done" field_is checkpoint_step 2
tap_ok "one signal in set-up: none left" none_left

# The process has a name, and other signals than those of a user mean the same.
rm -rf run
# shellcheck disable=SC2086 # words
"$PENTA" train $base >out 2>err </dev/null &
job=$!
wait_for 20 has_step 3
tap_ok "its name is penta" test "$(cat /proc/$job/comm)" = penta
kill -HUP $job
end_run 20
tap_ok "SIGHUP: 75" test $status -eq 75
stopped_by SIGHUP signal "SIGHUP, $heard 0"
# shellcheck disable=SC2086 # words
(trap '' HUP && exec "$PENTA" train $base >out 2>err </dev/null) &
job=$!
wait_for 20 has_step "$(($(field step) + 3))"
kill -HUP $job
sleep 0.5
tap_ok "SIGHUP under nohup: it stays" kill -0 $job
kill -XCPU $job
end_run 20
stopped_by SIGXCPU signal "SIGXCPU, $heard 0"

# ---- Without a launcher: MPICH has a handler of SIGUSR1 of its own, which looks for one ----
for signal in USR1 USR2 TERM; do
    rm -rf run
    # shellcheck disable=SC2086 # words
    "$PENTA" train $base >out 2>err </dev/null &
    job=$!
    tap_ok "alone, $signal: a run begins" wait_for 20 has_step 3
    kill -$signal "$job"
    end_run 20
    tap_ok "alone, $signal: 75" test $status -eq 75
    tap_ok "alone, $signal: says so" field_has message "SIG$signal"
done

# ---- A lock that is no lock any more ----
rm -rf run
begin_run
tap_ok "lock overwritten: a run begins" wait_for 20 has_step 3
: >run/run.lock
tap_ok "lock overwritten: made again" wait_for 10 grep -q ' warning: .*run.lock: overwritten' err
kill -USR1 "$job"
end_run 20
tap_ok "lock overwritten: the run goes on and saves" field_is code 75

tap_done
