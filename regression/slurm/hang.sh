# TEST timeout=200 level=full
# Hangs over the three hosts of a real Slurm (sandbox.sh): the rank is named, also when all ranks of its host are stopped;
# status.json says 6, and no process is left.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"
. "$PENTA_SRCDIR/regression/slurm/hosts.sh"

seq -f 'line %g of a small corpus with a few words' 1 700 >corpus.txt
base="train.steps=12 train.decay_steps=12 train.global_batch=6 train.micro_batch=1
train.sequence=32 model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2
model.head_dim=8 data.path=corpus.txt run.dir=run checkpoint.every=4 run.eval_every=5 run.hang_timeout=0:02"

field() { # KEY: of status.json
    sed -n "s/^ *\"$1\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}$/\1/p" run/status.json 2>/dev/null
}
field_has() { field "$1" | grep -qE -- "$2" || { echo "# $1 is $(field "$1"), without $2"; return 1; }; }
none_left() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ -n "$(tap_ranks_alive)" ] || return 0
        sleep 0.2
    done
    return 1
}
drill() { # CODE FAULT WORDS: ranks 0 and 1 on node1, 2 and 3 on node2, 4 and 5 on node3
    rm -rf run
    # shellcheck disable=SC2086 # words
    PENTA_FAULT=$2 timeout -k 2 60 srun --nodes=3 --ntasks-per-node=2 --kill-on-bad-exit=1 "$PENTA" train $base \
        >out 2>err </dev/null
    tap_ok "$2: no success" test $? -ne 0
    tap_ok "$2: status.json says $1" test "$(field code)" = "$1"
    tap_ok "$2: $3" field_has message "$3"
    tap_ok "$2: one message" test "$(grep -c 'rank [0-9]*\( step [0-9]*\)\{0,1\} error: ' err)" -eq 1
    tap_ok "$2: none left" none_left
}
drill 6 'comm.backward:3:3:sleep' '^rank 3 \(host node2, .* holds up the run in step 3, backward.*it sleeps; 5 ranks .* wait for it in (reduce-scatter|all-gather) of'
drill 6 'train.evaluate:4:5:stop' '^rank 4 \(host node3, .* holds up the run in step 5, evaluation: .*stopped .*integer sum of [0-9]+ bytes over world'
drill 6 'train.forward:2:3:stop,train.forward:3:3:stop' '^rank 2 \(host node2\) holds up the run: nothing is seen of it and 1 more'
drill 6 'train.setup:0:*:stop' '^rank 0 \(host node1, .* holds up the run in set-up: its process is stopped'
drill 1 'comm.backward:2:3:skip' 'a defect of the program: .*rank 2 \(host node2'
tap_ok "slow, but living" env PENTA_FAULT='train.forward:1:*:slow' timeout -k 2 60 srun --nodes=3 --ntasks-per-node=2 \
    "$PENTA" train ${base} train.steps=3 train.decay_steps=3 run.dir=slow
tap_done
