#!/usr/bin/env bash
# usage: regression/kept/make.sh PENTA FOLDER      makes what regression/kept keeps of a version; see README.md there
# SPDX-License-Identifier: Apache-2.0
set -eu
penta=$(readlink -f "$1")
mkdir -p "$2"
cd "$2"
export OMP_NUM_THREADS=1
seq -f 'line %g of a text that every later version has to read' 1 40 >text.txt
# Four documents of 150 tokens of two bytes, in the format of Megatron-LM, and a mask.
python3 - <<'P'
import struct
tokens = [(7 * i * i + 3 * i) % 256 for i in range(600)]
open("tokens.bin", "wb").write(struct.pack("<600H", *tokens))
head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 4, 5)
open("tokens.idx", "wb").write(head + struct.pack("<4i", *[150] * 4) + struct.pack("<4q", *range(0, 1200, 300)) +
                               struct.pack("<5q", *range(5)))
open("tokens.mask", "wb").write(bytes(int(i % 5 != 0) for i in range(600)))
P
model="model.layers=1 model.hidden=8 model.ffn=16 model.heads=2 model.kv_heads=1 model.head_dim=4 model.vocab=256
train.sequence=16 train.global_batch=3 train.micro_batch=1 train.steps=8 train.lr=0.01 train.warmup=2 run.eval_sequences=4 run.isa=base"
# shellcheck disable=SC2086 # words
{
    "$penta" train $model run.dir=text data.path=text.txt data.document_mask=yes 'data.separator=\n' run.stop_step=4 || test $? = 75
    "$penta" train $model run.dir=tokens data.path=tokens data.format=idx data.mask=tokens.mask run.stop_step=4 \
        train.precision=bf16 train.moments_dtype=bf16 train.beta2=0.99 || test $? = 75
    # What comes after, for comparison.
    for run in text tokens; do
        cp -r $run $run.whole
        "$penta" train $run/config.resolved.ini run.dir=$run.whole run.stop_step=0
        sed -nE 's/^\{"step":([0-9]+),"loss":([^,]*),.*/\1 \2/p' $run.whole/metrics.jsonl >$run.losses
        rm -rf $run.whole
        "$penta" inspect $run/checkpoints/step_00000004.h5 --digest >$run.digest
    done
} >/dev/null
rm -f ./*/run.lock
