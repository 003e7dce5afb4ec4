# TEST timeout=120
# What doc/formats says is enough: a program in Python that was written from these pages alone finds the order of
# samples, writes a checkpoint that penta goes on from, and finds the digests of one that penta wrote.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

here=$PENTA_SRCDIR/regression/documents
python=
for candidate in /usr/bin/python3 python3; do
    "$candidate" -c 'import numpy, h5py' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || tap_skip_all "no Python with numpy and h5py (python3-numpy, python3-h5py)"

penta() { timeout -k 2 40 "$PENTA" "$@" >out 2>err </dev/null; }
digest() { "$PENTA" inspect "$1" --digest 2>&1; }

"$python" "$here/documents.py" samples >samples.txt
tap_ok "samples.txt is what documents.py finds" cmp samples.txt "$here/samples.txt"

seq -f 'line %g of a small corpus with a few words' 1 60 >corpus.txt
mkdir -p run/checkpoints
first=run/checkpoints/step_00000002.h5
tap_ok "writes a checkpoint" sh -c '"$1" "$2" write "$3" corpus.txt >written' - "$python" "$here/documents.py" $first
read -r state hash <written
tap_ok "penta finds the same digest" test "$(digest $first)" = "$state"
tap_ok "penta verifies it" penta inspect $first --verify
tap_ok "penta samples from it" penta sample run.dir=run sample.tokens=5
"$PENTA" inspect $first --config >conf.ini
set -- conf.ini train.steps=6 train.micro_batch=1 data.path=corpus.txt
tap_ok "penta goes on from it" penta train "$@" run.dir=run
tap_ok "... from step 2" grep -q '^resumed .*step 2$' out
tap_ok "... to step 6" grep -q '"step":6,' run/metrics.jsonl
tap_ok "penta begins with its weights" penta train "$@" run.dir=other train.init_from=$first
another() { # of another text, as long
    tr a b <corpus.txt >another.txt
    penta train "$@" data.path=another.txt run.dir=third checkpoint.resume=$first
}
tap_fails "another text is seen by the hash" 2 another "$@"

last=run/checkpoints/step_00000006.h5
read -r found found_hash wrong < <("$python" "$here/documents.py" check $last)
tap_ok "finds the digests of what penta wrote" test "$found" = "$(digest $last)" -a -z "$wrong"
tap_ok "finds its data_hash" test "$found_hash" = "$hash"

# Moments of two bytes.
set -- "$@" train.precision=bf16 train.moments_dtype=bf16 train.beta2=0.99
tap_ok "a run with bf16 moments" penta train "$@" run.dir=narrow
read -r found found_hash wrong < <("$python" "$here/documents.py" check narrow/checkpoints/step_00000006.h5)
tap_ok "finds the digests of bf16 moments" test "$found" = "$(digest narrow/checkpoints/step_00000006.h5)" -a -z "$wrong"

# The forward pass: the loss of step 4 is that of the weights after step 3, here of large ones, so that every term counts.
printf 'Documents say what the model does' >one.txt # a sample of 32
family() { # NAME OPTION...
    local name=$1
    shift
    penta train data.path=one.txt run.dir="$name" train.steps=4 train.sequence=32 train.global_batch=1 train.micro_batch=1 \
        train.precision=fp64 train.lr=0.05 train.weight_decay=0 checkpoint.every=3 data.split=1,0 model.vocab=256 model.max_positions=40 \
        model.layers=2 model.hidden=24 model.ffn=40 model.heads=4 model.dropout=0 model.init_std=0.3 "$@" || return 1
    sed -n 's/.*"step":4,"loss":\([0-9.]*\),.*/\1/p' "$name/metrics.jsonl" >wanted
    "$python" "$here/documents.py" loss "$name/checkpoints/step_00000003.h5" one.txt >found
    echo "# $name: $(cat wanted) $(cat found)"
    awk 'NR == FNR { wanted = $1; next } { d = wanted - $1; exit !(wanted > 0.01 && d < 1e-9 && d > -1e-9) }' wanted found
}
tap_ok "the loss of GPT-2" family gpt2 model.norm=layer model.activation=gelu model.positions=learned model.bias=all model.tied=yes \
    model.kv_heads=4 model.head_dim=6 model.norm_eps=1e-3
tap_ok "... of Llama" family llama model.kv_heads=2 model.head_dim=6 model.tied=no model.norm_eps=1e-2
tap_ok "... of Qwen2" family qwen2 model.kv_heads=1 model.head_dim=6 model.bias=qkv model.tied=yes model.rotary_base=1e6
tap_ok "... of Qwen3" family qwen3 model.kv_heads=2 model.head_dim=10 model.qk_norm=yes
tap_ok "... with heads that are turned in part" family part model.kv_heads=4 model.head_dim=8 model.rotary_fraction=0.5
tap_done
