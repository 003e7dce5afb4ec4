# TEST timeout=60
# Validations none of whose labels counts: a warning that names the corpus, and null.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'number %g' 1 400 >text
head -c "$(wc -c <text)" /dev/zero >zeros
tr '\0' '\1' <zeros >ones
train() {
    timeout -k 2 60 "$PENTA" train data.path=text model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 model.kv_heads=2 \
        model.head_dim=16 train.sequence=16 train.global_batch=4 train.steps=4 run.eval_every=2 "$@" >out 2>err </dev/null
}
warned() { grep -c " warning: validation on $1: none of the labels it takes counts ($2," err; }
line() { grep '"validation_loss"' "$1/metrics.jsonl" | tail -n 1; }

tap_ok "one corpus without labels" train run.dir=one data.validation=wiki=text,code=text data.validation_mask=zeros,ones
tap_ok "... is named, once" test "$(warned wiki data.validation_mask)" -eq 1
tap_ok "... alone" test "$(grep -c ' warning: validation on' err)" -eq 1
line one >got
tap_ok "... and null" grep -q '"wiki":null,"code":[0-9.]*}' got
tap_ok "... none on the terminal" grep -q 'validation loss [0-9.]*, of wiki none, of code [0-9.]' out
{
    head -c "$(($(wc -c <text) * 9 / 10))" ones
    head -c "$(wc -c <text)" zeros
} | head -c "$(wc -c <text)" >mask
tap_ok "the split of data.path without labels" train run.dir=path data.mask=mask
tap_ok "... is named, once" test "$(warned data.path data.mask)" -eq 1
tap_ok "... a line a validation" test "$(grep -c '"validation_loss":null' path/metrics.jsonl)" -eq 2
tap_ok "... null in the summary" grep -q '"validation_loss": null' path/summary.json
tap_ok "nothing to validate on" train run.dir=none data.split=1,0 run.eval_every=0
tap_fails "... is no warning" 1 grep -q ' warning: validation' err
tap_fails "... and no line" 1 grep -q validation_loss none/metrics.jsonl
tap_done
