# TEST timeout=300 level=full
# The batch scripts on a real Slurm of three nodes (sandbox.sh): signal, requeue and finish with the bits of
# an undisturbed run; a node and ranks that are lost; an array; a cancelled chain; the wrong MPI type; mpiexec.
# The scenarios run side by side. At its first start rank 0 sleeps a second in each step, so that little work
# lasts until it is disturbed.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"
. "$PENTA_SRCDIR/regression/slurm/hosts.sh"

export PENTA_HOME=$PENTA_SRCDIR BACKOFF=0 PAUSE=1
scripts=$PENTA_HOME/jobs/slurm
seq -f 'line %g of a small corpus with a few words' 1 700 >corpus.txt
cat >small.ini <<'S'
[model]
layers = 2
hidden = 32
ffn = 64
heads = 4
kv_heads = 2
head_dim = 8
[train]
global_batch = 6
micro_batch = 1
sequence = 32
[data]
path = corpus.txt
[checkpoint]
every = 1
keep = 100
S

cat >first-slow <<'S'
#!/bin/bash
[ -n "${SLURM_RESTART_COUNT-}" ] || export PENTA_FAULT=train.gradient:0:*:slow
exec "$REAL" "$@"
S
chmod +x first-slow
export REAL=$PENTA

# ---- Looking at jobs ----

submit() { # SBATCH-OPTION... SCRIPT ARGUMENT...: prints the id
    PENTA=${program-$PWD/first-slow} sbatch --parsable --cpus-per-task=1 --time=10 "$@"
}
await() { # SECONDS COMMAND...
    local until=$((SECONDS + $1 * ${PENTA_TEST_TIMEOUT_SCALE-1}))
    shift
    until "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.3
    done
}
state() { scontrol -o show job "$1" 2>/dev/null | sed -n '1s/.* JobState=\([A-Z_]*\) .*/\1/p'; }
has_ended() { case $(state "$1") in PENDING | RUNNING | COMPLETING | '') return 1 ;; esac; }
ends_as() { # JOB STATE
    await 100 has_ended "$1"
    [ "$(state "$1")" = "$2" ] && return
    echo "# job $1 is $(state "$1")"
    sed 's/^/# /' ./*-"${1/_*/}"*.out
    return 1
}
has_step() { grep -q "\"step\":$2," "runs/$1/metrics.jsonl" 2>/dev/null; }
digest() { sed -n 's/^ *"digest": "\(.*\)".*/\1/p' "$1/summary.json"; }
says() { grep -q -- "$2" "$1"-*.out; } # NAME WORDS
count() { cat "$1"-*.out 2>/dev/null | grep -c -- "$2"; }
# What runs without Slurm and undisturbed ends with.
reference() { # RANKS STEPS
    timeout 60 "$MPIEXEC" -n "$1" "$PENTA" train small.ini train.steps="$2" run.dir="alone-$1-$2" checkpoint.every=0 >alone.log 2>&1
    digest "alone-$1-$2"
}
same_bits() { [ -n "$(digest "runs/$1")" ] && [ "$(digest "runs/$1")" = "$2" ]; }
ranks_of() { # NAME: pids
    local p
    for p in $(tap_ranks_alive); do
        tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q "run.dir=runs/$1 " && echo "$p"
    done
}

# ---- All at once ----

one() { submit --nodes=1 --ntasks-per-node=2 "$@"; }
spread() { submit --ntasks-per-node=1 "$@"; }
node_job=$(spread --job-name=node --nodes=2 "$scripts/one-node.sbatch" small.ini train.steps=200)
signal_job=$(spread --job-name=signal --nodes=3 "$scripts/one-node.sbatch" small.ini train.steps=20)
array_job=$(one --job-name=array --array=1-2 "$scripts/one-node.sbatch" small.ini train.steps=10)
kill_job=$(one --job-name=kill "$scripts/one-node.sbatch" small.ini train.steps=20)
again_job=$(program=$PENTA PENTA_FAULT=train.gradient:1:3:kill one --job-name=again "$scripts/one-node.sbatch" small.ini train.steps=9)
wrong_job=$(SLURM_MPI_TYPE=none one --job-name=wrong "$scripts/one-node.sbatch" small.ini train.steps=9)
mpiexec_job=$(LAUNCH=$MPIEXEC spread --job-name=mpiexec --nodes=2 "$scripts/mpiexec.sbatch" small.ini train.steps=20)
PENTA=$PWD/first-slow bash "$scripts/chain.sh" 3 --job-name=chain --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=10 \
    "$scripts/one-node.sbatch" small.ini train.steps=200 >chain.log
read -r first second third <<<"$(sed -n 's/^job [0-9] of 3: //p' chain.log | tr '\n' ' ')"
tap_ok "many-nodes.sbatch would start on 128 nodes" sbatch --test-only -p cloud "$scripts/many-nodes.sbatch" small.ini

# ---- One is disturbed after the other ----

tap_ok "signal: at work" await 60 has_step signal 2
scancel --batch --signal=USR1 "$signal_job"
tap_ok "array: at work" await 60 has_step array_1 2
scancel --batch --signal=USR1 "${array_job}_1"
tap_ok "mpiexec: at work" await 60 has_step mpiexec 2
scancel --batch --signal=USR1 "$mpiexec_job"
tap_ok "killed: at work" await 60 has_step kill 2
kill -KILL "$(ranks_of kill | tail -n 1)"
tap_ok "chain: at work" await 60 has_step chain 2
scancel "$first"

bits_signal=$(reference 3 20) bits_array=$(reference 2 10) bits_kill=$(reference 2 20) bits_node=$(reference 2 200)

tap_ok "wrong MPI type: the job fails" ends_as "$wrong_job" FAILED
tap_ok "wrong MPI type: one message says what to do" test "$(count wrong 'error:.*SLURM_MPI_TYPE')" -eq 1
tap_ok "wrong MPI type: nothing is trained" test ! -e runs/wrong/checkpoints
tap_ok "wrong MPI type: no retry" test "$(count wrong '^job: .* start')" -eq 1

tap_ok "signal: finishes" ends_as "$signal_job" COMPLETED
tap_ok "signal: back into the queue once" test "$(count signal 'back into the queue')" -eq 1
tap_ok "signal: three nodes, three ranks" says signal '3 nodes, 3 ranks'
tap_ok "signal: the bits of an undisturbed run" same_bits signal "$bits_signal"

tap_ok "mpiexec: finishes" ends_as "$mpiexec_job" COMPLETED
tap_ok "mpiexec: back into the queue once" test "$(count mpiexec 'back into the queue')" -eq 1
tap_ok "mpiexec: the bits of an undisturbed run" same_bits mpiexec "$bits_kill"

tap_ok "array: task 1 finishes" ends_as "${array_job}_1" COMPLETED
tap_ok "array: task 2 finishes" ends_as "${array_job}_2" COMPLETED
tap_ok "array: only task 1 went back into the queue" test "$(count array 'back into the queue')" -eq 1
for task in 1 2; do tap_ok "array: task $task has the bits of an undisturbed run" same_bits array_$task "$bits_array"; done

tap_ok "killed: finishes" ends_as "$kill_job" COMPLETED
tap_ok "killed: rank and host are named" says kill 'ranks\{0,1\} [-01]* on node[123] was lost (Killed); retry 1 of 3'
tap_ok "killed: elsewhere" test "$(scontrol -o show job "$kill_job" | sed -n 's/.* ExcNodeList=\(node[123]\) .*/\1/p')" \
    = "$(sed -n 's/.*, without \(node[123]\).*/\1/p' kill-*.out)"
tap_ok "killed: the bits of an undisturbed run" same_bits kill "$bits_kill"

tap_ok "chain: cancelled" ends_as "$first" CANCELLED
tap_ok "chain: it had saved" test -e runs/chain/checkpoints/step_00000002.h5
tap_ok "chain: the second link ends" ends_as "$second" COMPLETED
tap_ok "chain: the second says why" grep -q "cancelled.*chain ends here" chain-"$second".out
tap_ok "chain: the third is dropped" await 20 has_ended "$third"
tap_ok "chain: the third never ran" test ! -e "chain-$third.out"

# ---- Power failure of a node, when the others are done ----

tap_ok "killed again and again: gives up" ends_as "$again_job" FAILED
tap_ok "killed again and again: four starts" test "$(count again '^job: .* start')" -eq 4
tap_ok "killed again and again: says so" says again '3 retries brought no new checkpoint: giving up'

tap_ok "node lost: at work" await 60 has_step node 5
victim=$(scontrol -o show job "$node_job" | sed -n 's/.* NodeList=node\[\{0,1\}.*\([123]\)\]\{0,1\} BatchHost.*/\1/p')
tap_ok "node lost: node$victim" sandbox kill-node "$victim"
tap_ok "node lost: finishes" ends_as "$node_job" COMPLETED
tap_ok "node lost: two starts" test "$(count node '^job: .* start')" -eq 2
tap_ok "node lost: went on from a checkpoint" says node '^resumed'
tap_ok "node lost: the bits of an undisturbed run" same_bits node "$bits_node"
tap_done
