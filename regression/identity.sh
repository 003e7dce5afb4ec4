#!/usr/bin/env bash
# usage: regression/identity.sh OLD NEW [PATTERN]
# Are two builds of penta the same trainer? OLD and NEW are programs. Each trains, validates, saves and samples in
# many configurations; losses, gradient norms, state digests and sampled text must be equal to the bit, and so
# must plans. A change of the code's structure runs this against the commit before it; bytes that a plan may
# change are listed, so that the commit can say why. Both programs run on this machine, so nothing depends on what
# CPU it has. PATTERN: only configurations whose line matches this extended regular expression.
# SPDX-License-Identifier: Apache-2.0
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
old=$(readlink -f "$1") new=$(readlink -f "$2") pattern=${3-}
mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || command -v mpiexec)}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

cp "$top/LICENSE" text
head -c 4000 "$top/LICENSE" >other
head -c 11358 /dev/zero | tr '\0' '\1' >mask
printf '%0.s\1\0\1\1\0' $(seq 800) >mask.part
head -c 4000 mask.part >other.mask

common="data.path=text train.steps=5 train.sequence=32 train.global_batch=8 train.micro_batch=2 train.warmup=2
checkpoint.every=0 run.eval_sequences=6 run.log_every=100 data.split=0.9,0.1"
llama="model.preset=tiny model.layers=3"
gpt2="$llama model.norm=layer model.activation=gelu model.positions=learned model.bias=all model.tied=yes model.kv_heads=8"
qwen2="$llama model.bias=qkv model.tied=yes model.kv_heads=2"
qwen3="$llama model.qk_norm=yes model.head_dim=16 model.rotary_fraction=0.5"

# NAME RANKS OPTION…
configurations() {
    cat <<END
llama 1 $llama
llama-64 2 $llama train.precision=fp64
llama-bf16 2 $llama train.precision=bf16
llama-bf16-narrow 3 $llama train.precision=bf16 train.grad_dtype=bf16 train.moments_dtype=bf16
llama-fp16 2 $llama train.precision=fp16
llama-wire 3 $llama train.precision=bf16 parallel.reduce_dtype=bf16
llama-selective 2 $llama parallel.recompute=selective
llama-full 2 $llama parallel.recompute=full
llama-every2 1 $llama parallel.recompute=every:2
llama-gpipe 2 $llama parallel.schedule=gpipe
llama-4 4 $llama train.micro_batch=1
llama-uneven 3 $llama train.global_batch=7
llama-units 4 $llama parallel.unit_mib=1 parallel.overlap=off
llama-flight 4 $llama comm.in_flight=1
llama-documents 2 $llama data.separator=\\n\\n data.document_mask=on
llama-mask 2 $llama data.path=other data.mask=other.mask
llama-validation 2 $llama data.validation=a=other,b=text
llama-shadow 2 $llama run.device=shadow
gpt2 1 $gpt2
gpt2-64 2 $gpt2 train.precision=fp64
gpt2-dropout 2 $gpt2 model.dropout=0.1
gpt2-dropout-full 2 $gpt2 model.dropout=0.1 parallel.recompute=full
gpt2-dropout-selective 3 $gpt2 model.dropout=0.1 parallel.recompute=selective train.precision=fp64
gpt2-bf16 2 $gpt2 train.precision=bf16 model.dropout=0.1
gpt2-fp16 1 $gpt2 train.precision=fp16 parallel.recompute=every:2
gpt2-shadow 3 $gpt2 run.device=shadow model.dropout=0.1 train.precision=bf16
qwen2 2 $qwen2
qwen2-full 4 $qwen2 parallel.recompute=full train.micro_batch=1
qwen2-bf16 1 $qwen2 train.precision=bf16 parallel.recompute=selective
qwen2-shadow 2 $qwen2 run.device=shadow parallel.unit_mib=1 parallel.recompute=selective
qwen3 2 $qwen3
qwen3-64 3 $qwen3 train.precision=fp64 parallel.recompute=every:2
qwen3-bf16 2 $qwen3 train.precision=bf16 model.dropout=0.2
qwen3-shadow 4 $qwen3 run.device=shadow parallel.recompute=full
END
}

run() { # PROGRAM FOLDER RANKS OPTION…: what must be equal, in FOLDER/result; the plan in FOLDER/plan
    local program=$1 folder=$2 ranks=$3
    shift 3
    # shellcheck disable=SC2086
    "$mpiexec" -n "$ranks" "$program" train $common "$@" run.dir="$folder" >"$folder.log" 2>&1 </dev/null ||
        { echo "failed: $("$program" version 2>&1 | head -n 1)" >"$folder.result"; tail -n 3 "$folder.log"; return 1; }
    {
        grep -oE '"(step|loss|grad_norm|validation[a-z_]*|eval[a-z_]*)": *[^,}]*' "$folder/metrics.jsonl"
        "$program" inspect "$folder"/checkpoints/step_00000005.h5 --digest
        "$program" sample run.dir="$folder" sample.prompt='The License' sample.tokens=40 sample.temperature=0 2>/dev/null
        "$program" sample run.dir="$folder" sample.prompt='You' sample.tokens=40 sample.count=3 2>/dev/null
    } | sed "s|$folder|RUN|g" >"$folder.result"
    # shellcheck disable=SC2086
    "$program" plan $common "$@" parallel.ranks="$ranks" run.dir="$folder" --json >"$folder.plan" 2>&1
}

plan_differences() { # OLD NEW: "bytes.workspace 6167808 -> 6000000; …"
    python3 - "$1" "$2" <<'END'
import json, sys

def flat(value, path=""):
    if isinstance(value, dict):
        return {k: v for key in value for k, v in flat(value[key], f"{path}.{key}" if path else key).items()}
    if isinstance(value, list):
        return {k: v for i, item in enumerate(value) for k, v in flat(item, f"{path}[{i}]").items()}
    return {path: value}

old, new = (flat(json.load(open(name))) for name in sys.argv[1:])
print("; ".join(f"{key} {old.get(key)} -> {new.get(key)}" for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)))
END
}

same=0 differ=0 plans=0
printf '%-24s %5s  %-10s %s\n' configuration ranks results plan
while read -r name ranks options; do
    [[ "$name $options" =~ $pattern ]] || continue
    # shellcheck disable=SC2086
    run "$old" "$work/old.$name" "$ranks" $options
    # shellcheck disable=SC2086
    run "$new" "$work/new.$name" "$ranks" $options
    if grep -q '"step"' "$work/old.$name.result" && sed "s/old.$name/new.$name/g" "$work/old.$name.result" | cmp -s - "$work/new.$name.result"; then
        same=$((same + 1)) verdict=equal
    else
        differ=$((differ + 1)) verdict=DIFFERENT
        diff -a "$work/old.$name.result" "$work/new.$name.result" | head -n 6
    fi
    if cmp -s "$work/old.$name.plan" "$work/new.$name.plan"; then
        plans=$((plans + 1)) plan=equal
    else
        plan=$(plan_differences "$work/old.$name.plan" "$work/new.$name.plan" 2>&1 | tail -n 1)
    fi
    printf '%-24s %5s  %-10s %s\n' "$name" "$ranks" $verdict "$plan"
done < <(configurations)
echo "$same equal, $differ different; $plans plans equal"
[ $differ = 0 ]
