# TEST timeout=120
# Limits of the system (ulimit), which batch systems hand on from the login node: a command works within them,
# or says in one message which one is in its way. It neither crashes nor waits for ever.
. "$PENTA_SRCDIR/regression/tap.sh"

base="train.steps=3 train.global_batch=3 train.micro_batch=1 train.sequence=32 model.layers=2
model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2 model.head_dim=8 data.path=corpus.txt run.dir=run"
large="model.hidden=512 model.ffn=1024 model.heads=8 model.kv_heads=8 model.head_dim=64 model.vocab=4096"
seq -f 'line %g of the corpus, with some words in it' 1 700 >corpus.txt
ulimit -c 0

penta() { timeout -k 2 40 "$PENTA" "$@" >out 2>err </dev/null; }
train() { # RANKS ARGUMENT...
    local ranks=$1
    shift
    # shellcheck disable=SC2086 # words
    timeout -k 2 60 "$MPIEXEC" -n "$ranks" "$PENTA" train $base "$@" >out 2>err </dev/null
}
within() { # LIMIT VALUE COMMAND...: under `ulimit LIMIT VALUE`
    local limit=$1 value=$2
    shift 2
    (ulimit "$limit" "$value" && "$@")
}
code_is() { grep -q "^  \"code\": $1,$" run/status.json; }
one_error() { [ "$(grep -c ' error: ' err)" -eq 1 ] && grep ' error: ' err | grep -qF -- "$1"; }

# ---- Size of files: as on a full disk, and not SIGXFSZ ----
# MPI's own files fit, a checkpoint of 90 MB does not.
# shellcheck disable=SC2086
tap_fails "file size: the last save fails with 4" 4 within -f 30000 train 2 $large checkpoint.every=2
tap_ok "file size: all steps were done" grep -q '"step":3,' run/metrics.jsonl
tap_ok "file size: a periodic save is a warning" grep -q ' warning: .*File too large' err
tap_ok "file size: one message" one_error "File too large"
tap_ok "file size: status.json" code_is 4
rm -rf run
tap_ok "file size: without the limit" train 1

# What stdout is appended to is at the limit.
truncate -s 40M long
appending() { (penta() { timeout -k 2 40 "$PENTA" "$@" >>long 2>err </dev/null; }; "$@"); }
for command in plan "inspect run/checkpoints/step_00000003.h5" "sample run.dir=run" --help --man; do
    # shellcheck disable=SC2086
    tap_fails "file size: penta $command" 4 within -f 30000 appending penta $command
    tap_ok "file size: penta $command: one message" one_error "standard output cannot be written"
done
rm -rf run
# Progress is not worth a run.
appending_train() { timeout -k 2 40 "$PENTA" train "$@" >>long 2>err </dev/null; }
# shellcheck disable=SC2086
tap_ok "file size: progress of a run" within -f 30000 appending_train $base
rm -rf run
tap_done
