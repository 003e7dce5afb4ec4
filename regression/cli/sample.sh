# TEST timeout=120
# penta sample: what it writes, of what that depends, and how it fails.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

sentence='the quick brown fox jumps over the lazy dog. '
for _ in $(seq 400); do printf '%s' "$sentence"; done >text
model=(model.layers=2 train.sequence=32 train.global_batch=8 train.micro_batch=8 run.eval_sequences=8
    run.log_level=warn data.path=text)
train() { "$PENTA" train "${model[@]}" "$@" >>log 2>&1 || { tail -n 5 log | sed 's/^/# /'; return 1; }; }
sample() { "$PENTA" sample run.log_level=warn "$@"; }
same() { cmp -s "$1" "$2"; }
differ() { ! cmp -s "$1" "$2"; }

tap_ok "a model is trained" train run.dir=run train.steps=80 train.lr=0.004 checkpoint.every=70
sample run.dir=run sample.prompt="the quick " sample.tokens=125 sample.temperature=0 >cold 2>errors
tap_ok "a model that knows a sentence goes on with it, beyond its window" \
    test "$(cat cold)" = "$(printf '%s%s%s' "$sentence" "$sentence" "$sentence")"
tap_ok "stdout is the prompt and as many bytes as asked for" test "$(wc -c <cold)" -eq 135
tap_ok "nothing is on stderr" test ! -s errors

warm=(run.dir=run sample.prompt=q sample.tokens=60 sample.temperature=3)
sample "${warm[@]}" >a
sample "${warm[@]}" sample.seed=1 >b
sample "${warm[@]}" sample.seed=2 >c
tap_ok "the same seed gives the same text" same a b
tap_ok "another seed gives another" differ a c
sample "${warm[@]}" run.device=shadow >b
tap_ok "another device does not" same a b
sample "${warm[@]}" sample.top_k=1 >a
sample "${warm[@]}" sample.temperature=0 sample.seed=7 >b
tap_ok "top_k=1 is temperature 0" same a b
sample "${warm[@]}" sample.top_k=3 >c
tap_ok "top_k=3 is not" differ b c
sample "${warm[@]}" sample.top_k=256 >a
sample "${warm[@]}" >b
tap_ok "top_k=256 is all bytes" same a b
printf '[train]\nsequence = 8\nprecision = fp64\n[model]\nlayers = 5\n' >other.ini
"$PENTA" sample other.ini "${warm[@]}" >b 2>errors
tap_ok "model, sequence and precision are the checkpoint's" same a b
tap_ok "stderr says which checkpoint" grep -q 'run/checkpoints/step_00000080.h5' errors
sample run.dir=run sample.tokens=5 >a
tap_ok "an empty prompt will do" test "$(wc -c <a)" -eq 5
tap_ok "a double-precision model is trained" train run.dir=run64 train.steps=2 train.precision=fp64
sample run.dir=run64 sample.tokens=5 >a
tap_ok "... and sampled" test "$(wc -c <a)" -eq 5

for precision in bf16 fp16; do
    tap_ok "a model is trained in $precision" train run.dir=run_$precision train.steps=80 train.lr=0.004 \
        train.precision=$precision
    sample run.dir=run_$precision sample.prompt="the quick " sample.tokens=125 sample.temperature=0 >a
    tap_ok "... and knows the sentence, too" test "$(cat a)" = "$(cat cold)"
done

tap_ok "a model of 16-bit tokens is trained" \
    train run.dir=run16 train.steps=1 data.format=u16 model.vocab=32768 model.hidden=32 model.ffn=32
tap_fails "... and not sampled as text" 2 sample run.dir=run16 2>errors
tap_ok "... naming the option" grep -q 'data.format' errors

# A byte at a time, each from a model that reads its window anew: of a full one the newer half.
tap_ok "a model that hangs on every byte it sees is made" train run.dir=young train.steps=2 train.lr=1e-4 train.precision=fp64 \
    model.init_std=0.5 model.tied=no
anew() { # TOKENS: goes on with the text in `seen`
    for _ in $(seq "$1"); do
        sample run.dir=young sample.prompt_file=seen sample.tokens=1 sample.temperature=0 >grown || return 1
        tail -c 1 grown >>all
        if [ "$(wc -c <seen)" -eq 32 ]; then tail -c 16 grown >seen; else cp grown seen; fi
    done
}
printf 'quick br' >seen
cp seen all
tap_ok "the text is made without memory of it" anew 50
sample run.dir=young sample.prompt='quick br' sample.tokens=50 sample.temperature=0 >a
tap_ok "... and with it, the same" same all a

printf 'the quick \n\nover the lazy dog. the quick brown fox jumps over the lazy \nq' >prompts
many=(run.dir=run sample.prompt_file=prompts sample.tokens=40 sample.temperature=3)
sample "${many[@]}" sample.count=3 >a
tap_ok "each line is a prompt, the empty and the last ones too" test "$(grep -ac '^==> prompt ' a)" -eq 12
head -n 1 a >b
echo "==> prompt 1, text 1 <==" >c
tap_ok "a line says which text follows" same b c
for batch in 1 2 5 12; do
    sample "${many[@]}" sample.count=3 sample.batch=$batch >b
    tap_ok "made $batch at a time they are the same" same a b
done
bytes() { tail -c +$(($2 + 1)) "$1" | head -c "$3"; } # FILE FROM COUNT
header=$(wc -c <c)
sample "${many[@]}" sample.prompt_file= sample.prompt='the quick ' >alone
bytes a "$header" 50 >b
tap_ok "a prompt alone goes on as it does among others" same alone b
sample "${many[@]}" sample.prompt_file= sample.prompt='the quick ' sample.count=2 >c
bytes c "$header" 50 >b
tap_ok "... and as the first of two continuations" same alone b
bytes c $((2 * header + 52)) 50 >b
tap_ok "... of which the second is another" differ alone b
tap_ok "... and nothing is left" test "$(wc -c <c)" -eq $((2 * header + 103))
printf 'the quick \nover the "\\lazy ' >prompts
sample "${many[@]}" sample.tokens=10 sample.temperature=0 --json >a
cat >b <<'END'
[
  {"prompt": "the quick ", "text": "brown fox "},
  {"prompt": "over the \"\\lazy ", "text": "dog. the q"}
]
END
tap_ok "--json: an array of prompts and texts" same a b
sample "${warm[@]}" >a
sample "${warm[@]}" sample.top_p=1 >b
sample "${warm[@]}" sample.top_p=0 >c
tap_ok "top_p=1 is all bytes" same a b
tap_ok "so is top_p=0" same a c
sample "${warm[@]}" sample.top_p=1e-9 >b
sample "${warm[@]}" sample.temperature=0 >c
tap_ok "a top_p near 0 is temperature 0" same b c
sample "${warm[@]}" sample.top_p=0.6 >b
tap_ok "top_p=0.6 is neither" differ a b
tap_ok "... nor the other" differ b c

tap_fails "a prompt and a file of prompts" 2 sample "${many[@]}" sample.prompt=q
sed 's/$/\r/; 1s/^/\xef\xbb\xbf/' prompts >prompts.dos
sample "${many[@]}" sample.prompt_file=prompts.dos --json >dos && sample "${many[@]}" --json >unix && cmp dos unix
tap_result $? "a byte order mark and CRLF are no part of prompts"
wild="sample run.dir=run sample.prompt=x sample.tokens=600 sample.temperature=1000 sample.seed=3"
has_escapes() { LC_ALL=C grep -q "$(printf '[\001-\007\016-\037\177]')" "$1"; }
if command -v script >/dev/null; then
    # shellcheck disable=SC2086 # words
    "$PENTA" $wild >file 2>/dev/null
    script -qec "$PENTA $wild 2>/dev/null" /dev/null </dev/null >terminal
    tap_ok "a file gets the bytes a model chose" has_escapes file
    tap_fails "a terminal no control bytes" 1 has_escapes terminal
fi
# Whoever reads may have enough of a text that would take hours.
enough() { # ARGUMENT...
    { timeout 20 "$PENTA" sample run.dir=run run.log_level=warn "$@" 2>errors; echo $? >code; } | head -c 30 >a
    [ "$(cat code)" -eq 0 ] && [ ! -s errors ] && [ "$(wc -c <a)" -eq 30 ]
}
tap_ok "a reader who goes away ends a text" enough sample.prompt=q sample.tokens=100000000
tap_ok "... and texts" enough sample.prompt=q sample.tokens=40 sample.count=60000 sample.batch=1
tap_ok "... as JSON" enough sample.prompt=q sample.tokens=40 sample.count=60000 sample.batch=1 --json
tap_fails "no file of prompts" 2 sample run.dir=run sample.prompt_file=nowhere
: >empty
tap_fails "an empty one" 2 sample run.dir=run sample.prompt_file=empty
tap_fails "no checkpoint: exit code 4" 4 sample run.dir=nowhere 2>errors
tap_ok "... naming the place and what to do" grep -q 'nowhere/checkpoints.*train' errors
tap_fails "checkpoint.resume=none makes no sense" 2 sample run.dir=run checkpoint.resume=none
tap_fails "a named file that is none" 4 sample checkpoint.resume=text
sample "${warm[@]}" run.dir=nowhere checkpoint.resume=run/checkpoints/step_00000070.h5 >a
tap_ok "a named checkpoint" test "$(wc -c <a)" -eq 61
to_full() { sample run.dir=run >/dev/full; }
tap_fails "output that cannot be written" 4 to_full
sample "${warm[@]}" >whole

newest=run/checkpoints/step_00000080.h5
cp $newest kept
# One bit of one element: halfway through the file is the optimizer, its first half has weights.
flip() { # FILE OFFSET
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
flip $newest $(($(wc -c <$newest) / 5))
sample "${warm[@]}" >b 2>errors
tap_ok "a checkpoint with a flipped bit is skipped" same a b
tap_ok "... and named" grep -q "skipped.*$newest.*digest" errors
cp kept $newest
truncate -s 100000 $newest
sample "${warm[@]}" >b 2>errors
tap_ok "a torn one is, too" same a b
truncate -s 100000 run/checkpoints/step_00000070.h5
tap_fails "all damaged: exit code 4" 4 sample "${warm[@]}" 2>errors
tap_ok "... after naming both" test "$(grep -c 'skipped a damaged checkpoint' errors)" -eq 2
cp kept $newest
sample "${warm[@]}" >b
tap_ok "whole again, it is taken" same whole b

# Weights beyond all bounds: the third step overflows what the fourth would compute.
wild() {
    "$PENTA" train "${model[@]}" run.dir=wild train.steps=3 train.lr=1000 train.min_lr=1000 \
        train.weight_decay=1000 train.warmup=0 train.decay=constant train.clip=0 checkpoint.every=3 \
        >>log 2>&1
}
tap_fails "training that diverged in its last update: exit code 5" 5 wild
tap_fails "a model that diverged: exit code 5" 5 sample run.dir=wild 2>errors
tap_ok "... with a reason" grep -q 'not a finite number' errors
tap_done
