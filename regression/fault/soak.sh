# TEST timeout=240
# Two thousand steps with validations, checks of replicas and saves: the memory of each rank and its
# open files are what they were after half of them. 20,000 steps at level long.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

steps=2000
[ "$PENTA_TEST_LEVEL" != long ] || steps=20000
settled=$((steps / 2)) late=$((steps * 9 / 10))
bound=256 # KiB

sample() { # STEP: a line for each rank: step, process, KiB of its own, open files
    local p own
    for p in $ranks; do
        own=$(awk '/^Rss(Anon|Shmem):/ { sum += $2 } END { print sum + 0 }' "/proc/$p/status" 2>/dev/null)
        [ "${own:-0}" -eq 0 ] || echo "$1 $p $own $(find "/proc/$p/fd" -type l 2>/dev/null | wc -l)"
    done >>samples
}

last_step() { tail -n 1 run/metrics.jsonl 2>/dev/null | sed -n 's/.*"step":\([0-9]*\).*/\1/p'; }

# How much more a rank has late than soon after it settled, the largest of both; of the samples the
# least, for a save takes and returns.
growth() { # COLUMN
    awk -v column="$1" -v settled=$settled -v late=$late -v steps=$steps '
        function keep(least) { if (!($2 in least) || $column < least[$2]) least[$2] = $column }
        $1 >= settled && $1 < 1.2 * settled { keep(early) }
        $1 >= late && $1 < steps { keep(end) } # then it ends
        END {
            for (p in end)
                if (p in early && (!ranks++ || end[p] - early[p] > worst)) worst = end[p] - early[p]
            print (ranks == 2 ? worst : "unknown")
        }' samples
}

# What set-up freed goes back to the system at once (glibc), else a leak would fill that first.
export MALLOC_MMAP_THRESHOLD_=4096 MALLOC_TRIM_THRESHOLD_=4096 MALLOC_TOP_PAD_=0
seq -f 'line %g of the corpus, with some words in it' 1 4000 >corpus.txt
"$MPIEXEC" -n 2 "$PENTA" train train.steps=$steps train.global_batch=4 train.micro_batch=1 \
    train.sequence=32 model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2 \
    model.head_dim=8 data.path=corpus.txt run.dir=run checkpoint.every=100 checkpoint.keep=2 \
    run.eval_every=100 run.eval_sequences=32 run.replica_check_every=50 >out 2>err </dev/null &
job=$!
: >samples
ranks=
while kill -0 $job 2>/dev/null; do
    step=$(last_step)
    [ -n "$ranks" ] || [ -z "$step" ] || ranks=$(tap_ranks_alive)
    sample "${step:-0}"
    sleep 0.05
done
wait $job
tap_result $? "$steps steps on two ranks"
grown=$(growth 3)
tap_ok "from step $settled on memory grows by $grown KiB, below $bound" test "$grown" -lt $bound
opened=$(growth 4)
tap_ok "from step $settled on $opened more files are open" test "$opened" -le 0
tap_ok "every save, validation and step was made" \
    test "$(grep -c '^saved\|^step .* validation' out) $(grep -c '"loss"' run/metrics.jsonl)" = "$((steps / 50)) $steps"
tap_ok "the summary names what the run was made with" \
    grep -qE '"build": "penta .*HDF5 [0-9.]+, .*MPI.*, .*[A-Za-z]+.*, ' run/summary.json
tap_done
