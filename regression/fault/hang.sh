# TEST timeout=120,1500
# Runs that hang: the watchdog names the rank that does not come and what the others wait in, ends with 6 and leaves no
# process. Collectives that are left out or resized are named and end with 1. Slow runs that live are left alone.
# A few of each; PENTA_TEST_LEVEL=long runs them all.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

work=$PWD
ulimit -c 0
seq -f 'line %g of the corpus, with some words in it' 1 4000 >corpus.txt
base="train.steps=12 train.decay_steps=12 train.global_batch=8 train.micro_batch=1
train.sequence=32 model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2
model.head_dim=8 data.path=$work/corpus.txt run.dir=run checkpoint.every=4 run.eval_every=5 run.hang_timeout=0:02"
at_once=6 # drills that run side by side: most of their time they wait

field() { # KEY: of status.json
    sed -n "s/^ *\"$1\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}$/\1/p" run/status.json 2>/dev/null
}
none_left() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ -n "$(tap_ranks_alive)" ] || return 0
        sleep 0.2
    done
    return 1
}
run_with() { # RANKS FAULT ARGUMENT...: sets $status and $took (milliseconds)
    local ranks=$1 fault=$2 began
    shift 2
    began=$(tap_milliseconds)
    # shellcheck disable=SC2086 # words
    PENTA_FAULT=$fault timeout -k 2 60 "$MPIEXEC" -n "$ranks" "$PENTA" train $base "$@" >out 2>err </dev/null
    status=$?
    took=$(($(tap_milliseconds) - began))
}

# Each judge prints what is wrong.
ended_with() { # CODE
    local errors
    [ "$status" -eq "$1" ] || echo "mpiexec: $status"
    [ "$(field code)" = "$1" ] || [ ! -e run ] || echo "status.json: $(field code)"
    errors=$(grep -c ' error: ' err)
    [ "$errors" -eq 1 ] || echo "$errors messages"
    none_left || echo "processes left"
}
said() { # WORDS: of the message, and of status.json
    grep ' error: ' err | grep -qE -- "$1" || echo "no '$1' in: $(grep ' error: ' err)"
    [ -e run/status.json ] || return # there is no directory yet
    field message | grep -qE -- "$1" || echo "no '$1' in status.json"
}

# RANKS FAULT PLACE OPERATION ARGUMENT...: the rank of the fault holds up the run at PLACE, others wait for it in
# OPERATION.
hang() {
    local rank=${2#*:}
    rank=${rank%%:*}
    run_with "$1" "$2" "${@:5}"
    ended_with 6
    said "^[^:]*:?.*rank $rank \(host [^,]+, process [0-9]+\) holds up the run in [^:]*$3"
    case $2 in
    *:stop) said "its process is stopped" ;;
    *) said "it sleeps" ;;
    esac
    said "for it in $4"
    [ "$took" -lt 12000 ] || echo "it took $took ms"
    [ "$(wc -l <run/hang.txt)" -eq "$1" ] || echo "hang.txt: $(cat run/hang.txt)"
}
# RANKS VICTIM: stopped from outside at some moment.
stop_one() {
    local pid
    {
        for _ in $(seq 200); do
            grep -qs '"step":2,' run/metrics.jsonl && break
            sleep 0.05
        done
        sleep "0.$((RANDOM % 10))"
        for pid in $(tap_ranks_alive); do
            ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "PMI_RANK=$2" || kill -STOP "$pid"
        done
    } &
    run_with "$1" '' train.steps=100000 train.decay_steps=100000 checkpoint.every=0
    wait
    ended_with 6
    said "rank $2 \(host [^,]+, process [0-9]+\) holds up the run in .*its process is stopped"
}
# RANKS VICTIM: sleeps when the run is over; what status.json says of it stands.
parts_late() {
    run_with "$1" "train.finish:$2:*:sleep"
    [ "$status" -eq 6 ] || echo "mpiexec: $status"
    grep -qE " error: rank $2 .* holds up the run in .*it sleeps; $(($1 - 1)) ranks .* wait for it in MPI_Finalize over world" err ||
        grep ' error: ' err
    [ "$2" -eq 0 ] || [ "$(field code)" = 0 ] || echo "status.json: $(field code)"
    none_left || echo "processes left"
}
# RANKS FAULT OPERATION ARGUMENT...: both ranks and both operations are named.
differ() {
    local rank=${2#*:}
    rank=${rank%%:*}
    run_with "$1" "$2" "${@:4}"
    ended_with 1
    said "a defect of the program: .*rank $rank \(host"
    said "$3"
    grep ' error: ' err | grep -oE 'rank [0-9]+' | sort -u | grep -cqx 2 ||
        [ "$(grep ' error: ' err | sed 's/.* error: //' | grep -oE 'rank [0-9]+' | sort -u | wc -l)" -ge 2 ] ||
        echo "one rank is named: $(grep ' error: ' err)"
}
# RANKS FAULT ARGUMENT...: slow, and left alone.
lives() {
    run_with "$@"
    [ "$status" -eq 0 ] || echo "mpiexec: $status"
    [ "$(field code)" = 0 ] || echo "status.json: $(field code)"
    ! grep -q ' error: ' err || echo "$(grep ' error: ' err)"
    none_left || echo "processes left"
}
# RANKS: one of them has the least priority, beside one that never sleeps.
crowded() {
    local busy pid
    { while :; do :; done; } &
    busy=$!
    {
        sleep 1
        for pid in $(tap_ranks_alive | head -n 1); do renice -n 19 -p "$pid" >/dev/null; done
    } &
    lives "$1" '' train.steps=200 train.decay_steps=200
    kill $busy
    wait $busy 2>/dev/null
}

# RANKS VICTIM: works longer than the others, and says so.
straggles() {
    lives "$1" "train.forward:$2:*:slow" train.steps=23 train.decay_steps=23 train.global_batch="$1" run.eval_every=0 checkpoint.every=0
    [ "$(grep -c ' is slow: ' err)" -eq 1 ] || echo "$(grep -c ' is slow: ' err) lines"
    grep -q "rank $2 .*warning: rank $2 on host .* is slow: .*the last 20 steps it worked 1[. ].*they wait for it \(9[0-9]\|100\) %" err ||
        echo "$(grep ' is slow: ' err)"
}

number=0 pending=()
begin_drill() { # JUDGE ARGUMENT...
    number=$((number + 1))
    mkdir "$work/$number"
    (cd "$work/$number" && "$@" >verdict 2>&1) &
    pending+=("$number $*")
    if [ ${#pending[@]} -ge $at_once ]; then end_drills; fi
}
end_drills() {
    local drill
    wait
    for drill in ${pending[@]+"${pending[@]}"}; do
        sed 's/^/# /' "$work/${drill%% *}/verdict"
        tap_ok "${drill#* }" test ! -s "$work/${drill%% *}/verdict"
    done
    pending=()
}

reduction='(reduce-scatter of [0-9]+ bytes over dense_replicas|all-gather of [0-9]+ bytes over dense_gather), number [0-9]+ \(step 3'
# The weights that were updated in step 3 are gathered until step 4 needs them.
updated='all-gather of [0-9]+ bytes over dense_gather, number [0-9]+ \((step 3, optimizer|step 4, forward)'
begin_drill hang 2 'train.setup:0:*:sleep' 'set-up' '(max|integer sum) of [0-9]+ bytes over world, number [0-9]+ \(set-up'
begin_drill hang 3 'train.forward:1:3:stop' 'step 3, forward' "$reduction"
begin_drill hang 4 'comm.backward:3:3:sleep' 'step 3, backward' "$reduction"
begin_drill hang 2 'comm.exchange:1:3:stop' 'step 3, step exchange' 'integer sum of [0-9]+ bytes over world, number [0-9]+ \(step 3, step exchange'
begin_drill hang 3 'checkpoint.write:2:4:sleep' 'step 4, save' 'max of [0-9]+ bytes over world, number [0-9]+ \(step 4, save'
begin_drill hang 3 'train.evaluate:0:5:stop' 'step 5, evaluation' 'integer sum of [0-9]+ bytes over world, number [0-9]+ \(step 5, evaluation'
begin_drill hang 3 'comm.optimizer:1:3:stop' 'step 3, optimizer' "$updated" parallel.zero=1
begin_drill stop_one 3 1
begin_drill differ 3 'comm.optimizer:1:3:skip' 'all-gather of [0-9]+ bytes over dense_gather' parallel.zero=1
begin_drill differ 3 'comm.backward:1:3:skip' 'reduce-scatter of [0-9]+ bytes over dense_replicas'
begin_drill differ 2 'comm.backward:1:3:resize' 'reduce-scatter of ([0-9]+) bytes over dense_replicas.*reduce-scatter of'
begin_drill differ 3 'comm.exchange:2:3:skip' 'rank 2 .* left out integer sum of [0-9]+ bytes over world'
begin_drill lives 3 'train.forward:1:*:slow' train.steps=3 train.decay_steps=3 train.global_batch=3
begin_drill lives 2 'checkpoint.write:1:4:slow'
end_drills

if [ "$PENTA_TEST_LEVEL" = long ]; then
    for ranks in 2 3 4 5; do
        for ((rank = 0; rank < ranks; rank++)); do
            kinds=(sleep stop)
            kind=${kinds[(ranks + rank) % 2]}
            begin_drill hang $ranks "train.setup:$rank:*:$kind" 'set-up' '[^ ].* over world, number'
            begin_drill hang $ranks "train.forward:$rank:3:$kind" 'step 3, forward' "$reduction"
            begin_drill hang $ranks "comm.reduce:$rank:3:$kind" 'step 3, gradient reduction' "$reduction"
            begin_drill hang $ranks "comm.save:$rank:4:$kind" 'step 4, save' '.* over world, number'
        done
    done
    for rank in 0 1 2; do
        begin_drill hang 3 "train.data:$rank:3:sleep" 'step 3, (data|optimizer|step exchange)' "$reduction"
        begin_drill hang 3 "train.backward:$rank:3:sleep" 'step 3, backward' "$reduction"
        begin_drill hang 3 "comm.optimizer:$rank:3:sleep" 'step 3, optimizer' "$updated" parallel.zero=1
        begin_drill differ 3 "comm.optimizer:$rank:3:skip" 'over dense_gather' parallel.zero=1
        begin_drill differ 3 "comm.optimizer:$rank:3:resize" 'over dense_gather' parallel.zero=1
        begin_drill hang 3 "comm.evaluate:$rank:5:stop" 'step 5, evaluation' 'integer sum of [0-9]+ bytes over world'
        begin_drill parts_late 3 "$rank"
        begin_drill stop_one 4 "$rank"
        begin_drill differ 3 "comm.setup:$rank:*:skip" 'over world'
        begin_drill differ 3 "comm.reduce:$rank:3:skip" 'over (dense_gather|world)'
        begin_drill differ 4 "comm.backward:$rank:3:resize" 'reduce-scatter of'
        begin_drill differ 2 "comm.save:$((rank % 2)):4:skip" 'over world'
        begin_drill differ 3 "comm.evaluate:$rank:5:skip" 'over world'
        begin_drill differ 3 "comm.data:$rank:1:skip" 'over world'
        begin_drill differ 3 "comm.exchange:$rank:3:resize" 'integer sum of'
    done
    begin_drill hang 2 'checkpoint.rename:0:4:stop' 'step 4, save' 'max of [0-9]+ bytes over world'
    for site in train.data train.forward train.backward train.evaluate comm.reduce comm.exchange; do
        begin_drill lives 2 "$site:1:*:slow" train.steps=3 train.decay_steps=3 train.global_batch=2 run.eval_sequences=2
        begin_drill lives 4 "$site:0:*:slow" train.steps=3 train.decay_steps=3 train.global_batch=4 run.eval_sequences=2
    done
    begin_drill lives 3 'train.setup:2:*:slow'
    begin_drill lives 3 'checkpoint.rename:0:*:slow'
    begin_drill lives 3 'comm.save:1:4:slow'
    begin_drill lives 2 'train.forward:0:*:slow,train.backward:1:*:slow' train.steps=2 train.decay_steps=2 train.global_batch=2
    end_drills
    begin_drill straggles 3 1
    end_drills
    at_once=1
    begin_drill crowded 2
    begin_drill crowded 4
    begin_drill crowded 8
    begin_drill crowded 3
fi
tap_done
