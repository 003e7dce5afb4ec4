#!/usr/bin/env bash
# TEST timeout=900,2400
# usage: PENTA_PERF=full regression/driver.sh regression/perf/speed.sh     in a build directory
#
# Speed as ratios of things measured side by side in one run. As a test it takes GPT-2 124M with two of
# its twelve layers, few steps, and asks for half of each goal, since machines that test are busy, and for
# bf16 to be fast only where the processor multiplies it. With PENTA_PERF=full it takes the whole model and asks for the goals: on an idle machine. The figures of
# doc/performance.md come from there. PENTA_TORCH names a Python with torch and transformers, whose
# step is then measured too.
# SPDX-License-Identifier: Apache-2.0
set -u
. "$PENTA_SRCDIR/regression/tap.sh"

full=0 layers=2 steps=3 part=2
[ "${PENTA_PERF-}" = full ] && full=1 layers=12 steps=4 part=1
unset OMP_NUM_THREADS OPENBLAS_NUM_THREADS
export OMP_WAIT_POLICY=passive # as jobs/slurm/job.sh has it

awk 'BEGIN { srand(1); for (i = 0; i < 300000; i++) printf "%c", 97 + int(25 * rand()) }' >text

penta_run() { # RANKS KEY=VALUE... : tokens/s of the fastest step, the first apart, and FLOPs a token
    local ranks=$1
    shift
    rm -rf run
    "$MPIEXEC" -n "$ranks" "$PENTA" train data.path=text train.steps="$steps" run.eval_sequences=1 \
        checkpoint.every=0 checkpoint.verify=none data.split=0.9,0.1 "$@" >out 2>&1 || { cat out >&2; return 1; }
    rm -rf run/checkpoints # before a line is printed: the reader goes on at once
    awk -F'[:,]' '
        FNR == NR { for (i = 1; i < NF; i++) if ($i == "\"tokens_per_s\"" && FNR > 1 && $(i+1) > best) best = $(i+1); next }
        /^tokens\/sec\/gpu/ { rate = $2 }
        /^throughput per GPU/ { flops = $2 }
        END { printf "%.3f %.6g\n", best, flops * 1e12 / rate }' run/metrics.jsonl out
}

gpt2() { # RANKS SEQUENCE TOKENS-A-STEP KEY=VALUE...
    local ranks=$1 sequence=$2 tokens=$3
    shift 3
    penta_run "$ranks" model.preset=gpt2-124m model.layers="$layers" train.sequence="$sequence" \
        train.global_batch=$((tokens / sequence)) train.micro_batch=$((tokens / sequence / ranks)) "$@"
}

# Asks VALUE to be at least GOAL (or at most, with <=), half as good as a test, or that PART of it; says so
# either way. No VALUE, of a run that failed, is not good enough.
ask() { # NAME VALUE >=|<= GOAL [PART]
    local part=$part
    [ $full = 1 ] || part=${5-$part}
    tap_ok "$1: $2, goal $3 $4" awk -v x="$2" -v goal="$4" -v op="$3" -v part="$part" \
        'BEGIN { exit !(x != "" && (op == ">=" ? x >= goal / part : x <= goal * part)) }'
}

ratio() { # EXPRESSION of numbers
    awk "BEGIN { printf \"%.3f\", $1 }"
}

first_step() { # RANKS KEY=VALUE... : seconds from the launch to the end of step 1
    local ranks=$1 began ended=
    shift
    rm -rf run
    began=$(tap_milliseconds)
    while read -r line; do
        case $line in "step 1/"*) ended=$(tap_milliseconds) ;; esac
    done < <("$MPIEXEC" -n "$ranks" "$PENTA" train data.path=text train.steps=1 checkpoint.verify=none \
        run.eval_sequences=1 train.sequence=64 train.micro_batch=1 train.global_batch="$ranks" "$@" 2>&1)
    ratio "(${ended:-1e99} - $began) / 1000"
}

best() { # COMMAND... : the smallest of three numbers
    for _ in 1 2 3; do "$@"; echo; done | sort -g | head -n 1
}

# ---- one core, against plain matrix products ----
for sequence in 256 1024; do
    read -r speed flops < <(gpt2 1 "$sequence" 1024)
    rate=$(OPENBLAS_NUM_THREADS=1 "$PENTA_BUILDDIR/regression/perf/rate" 1024 768 3072 50257 "$layers" 3)
    echo "# sequence $sequence: $speed tokens/s, $(ratio "$speed * $flops * 1e-9") GFLOP/s; plain products $rate"
    sed -n 's/^time of a step:/# &/p' out
    goal=0.80
    [ "$sequence" = 256 ] && goal=0.85 fp32=$speed
    ask "fp32 step at sequence $sequence, of the plain rate" "$(ratio "$speed * $flops * 1e-9 / $rate")" '>=' $goal
    other=$(sed -n '/"step_seconds"/,/}/p' run/summary.json |
        awk -F': ' '$2 + 0 > 0 { sum += $2 } /"other"/ { other = $2 } END { printf "%.4f", other / sum }')
    ask "share of its time that has no name" "$other" '<=' 0.05
done

# ---- bf16 ----
read -r bf16 _ < <(gpt2 1 256 1024 train.precision=bf16)
echo "# bf16: $bf16 tokens/s"
sed -n 's/^time of a step:/# &/p' out
if [ $full = 1 ] || grep -qw -m 1 avx512_bf16 /proc/cpuinfo; then
    ask "bf16 step against fp32" "$(ratio "$bf16 / $fp32")" '>=' 1.7
else
    ask "bf16 step against fp32, no AVX-512 BF16 here" "$(ratio "$bf16 / $fp32")" '>=' 0.5
fi

# ---- two cores: as a test not slower than two thirds of one, for another process may have the other ----
if [ "$(nproc)" -ge 2 ]; then
    read -r two _ < <(gpt2 1 256 1024 run.threads=2)
    ask "two threads against one" "$(ratio "$two / $fp32")" '>=' 1.8 3
    read -r one _ < <(gpt2 1 256 $((full ? 4096 : 2048)) train.micro_batch=4)
    read -r two _ < <(gpt2 2 256 $((full ? 4096 : 2048)) train.micro_batch=4)
    ask "two ranks against one" "$(ratio "$two / $one")" '>=' 1.8 3
fi

# ---- more ranks than cores ----
ten_million() { # RANKS MICRO_BATCH
    penta_run "$1" model.layers=6 model.hidden=384 model.ffn=1024 model.heads=6 model.kv_heads=6 model.head_dim=64 \
        train.sequence=256 train.global_batch=32 train.micro_batch="$2"
}
read -r few _ < <(ten_million 2 4)
read -r many _ < <(ten_million 16 2)
ask "a step on 16 ranks against 2, 10 M parameters, 8,192 tokens" "$(ratio "$few / $many")" '<=' 1.5

# ---- start: as a test at most the goal twice, or four times what a start alone takes on a slow machine ----
launch() { # RANKS : seconds of a program that only begins and ends
    local began
    began=$(tap_milliseconds)
    PENTA_TEST_NP=$1 "$MPIEXEC" -n "$1" "$PENTA_BUILDDIR/regression/mpi/test_launch" >/dev/null 2>&1
    ratio "($(tap_milliseconds) - $began) / 1000"
}
for ranks in 1 64; do
    goal=$([ $ranks = 1 ] && echo 0.5 || echo 6)
    alone=$(best launch $ranks)
    [ $full = 1 ] || goal=$(awk -v goal="$goal" -v alone="$alone" 'BEGIN { print (2 * alone > goal ? 2 * alone : goal) }')
    ask "seconds to the end of step 1, ranks: $ranks (a start alone: $alone)" "$(best first_step $ranks)" '<=' "$goal"
done

# ---- PyTorch ----
torch() { # ARGUMENT... : tokens/s
    local sec
    sec=$(OMP_NUM_THREADS=1 "$PENTA_TORCH" "$PENTA_SRCDIR/regression/perf/torch_step.py" \
        --layers "$layers" --steps "$steps" "$@" 2>torch.err) || cat torch.err >&2
    ratio "1024 / $sec"
}
if [ -n "${PENTA_TORCH-}" ]; then
    for dtype in fp32 bf16; do
        ours=$fp32
        [ $dtype = bf16 ] && ours=$bf16
        eager=$(torch --dtype $dtype)
        echo "# PyTorch, $dtype: $eager tokens/s eager"
        ask "$dtype step against PyTorch eager" "$(ratio "$ours / $eager")" '>=' \
            "$([ $dtype = fp32 ] && echo 1.2 || echo 1.3)"
        compiled=$(torch --dtype $dtype --compile)
        echo "# PyTorch, $dtype: $compiled tokens/s compiled"
        [ $dtype = fp32 ] && ask "fp32 step against PyTorch compiled" "$(ratio "$ours / $compiled")" '>=' 1.0
    done
fi
tap_done
