# TEST timeout=180
# Limits of the system (ulimit), which batch systems hand on from the login node: a command works within them,
# or says in one message which one is in its way. It neither crashes nor waits for ever.
# SPDX-License-Identifier: Apache-2.0
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
appending() { timeout -k 2 40 "$PENTA" "$@" >>long 2>err </dev/null; }
for command in plan "inspect run/checkpoints/step_00000003.h5" "sample run.dir=run" --help --man; do
    # shellcheck disable=SC2086
    tap_fails "file size: penta $command" 4 within -f 30000 appending $command
    tap_ok "file size: penta $command: one message" one_error "standard output cannot be written"
done
rm -rf run
# Progress is not worth a run.
# shellcheck disable=SC2086
tap_ok "file size: progress of a run" within -f 30000 appending train $base
rm -rf run

# ---- CPU time: asked to stop before the end that kills ----
# shellcheck disable=SC2086
{
    tap_fails "CPU time: 75" 75 within -t 4 train 2 $base train.steps=1000000 train.decay_steps=100
    tap_ok "CPU time: one warning at most" test "$(grep -c ' warning: ' err)" -le 1
    tap_ok "CPU time: says why" grep -q '^  "message": "stopped by SIGXCPU' run/status.json
}
rm -rf run

# ---- Addresses and data: OpenBLAS would ask for its buffers for ever, MPI and OpenMP crash ----
# From what the loader needs for the libraries to what a run needs; a value that a message names does.
answers() { # NAME COMMAND...: 0, or 3 and one message with a limit
    local status name=$1
    shift
    "$@"
    status=$?
    if [ $status -eq 3 ]; then
        one_error "ulimit -"
        status=$?
    fi
    tap_result $status "$name"
}
advised() { sed -n "s/.*ulimit $1 \([0-9]*\) or more.*/\1/p" err | head -n 1; }
for value in 160000 200000 250000 300000 350000 400000 450000 500000 600000 650000 750000 850000; do
    answers "addresses: $value KiB" within -v $value train 1
    answers "addresses: $value KiB, 3 ranks" within -v $value train 3
    rm -rf run # of another model
    # shellcheck disable=SC2086
    answers "addresses: $value KiB, larger, 2 threads" within -v $value train 1 $large run.threads=2
    rm -rf run
done
for value in 4000 50000 140000 200000 250000 300000; do
    answers "data: $value KiB" within -d $value train 2
    rm -rf run
done
for flag in -v -d; do
    limit=250000
    for _ in 1 2 3 4; do # MPI and BLAS, the model
        # shellcheck disable=SC2086
        within $flag $limit train 1 $large && break
        limit=$(advised $flag)
    done
    tap_ok "ulimit $flag: what was advised does ($limit)" code_is 0
    rm -rf run
done
train 1
for value in 160000 200000 250000 300000 350000 400000 450000; do
    answers "addresses: $value KiB, sample" within -v $value penta sample run.dir=run sample.tokens=10
    answers "addresses: $value KiB, inspect" within -v $value penta inspect run/checkpoints/step_00000003.h5 --verify
    answers "addresses: $value KiB, plan" within -v $value penta plan model.preset=gpt2-124m parallel.ranks=4
    tap_ok "addresses: $value KiB, help" within -v $value penta --help
done
# The weights of a plan take no addresses.
tap_ok "addresses: a plan of a model that does not fit" within -v 4000000 penta plan model.preset=llama3-8b
tap_fails "addresses: many texts at once" 3 within -v 800000 penta sample run.dir=run sample.count=65536 sample.batch=65536
tap_ok "addresses: many texts at once, one message" one_error "lower sample.batch"
rm -rf run

# ---- Threads: the superuser has no limit ----
unlucky() { # LIMIT ARGUMENT...: as another user
    local limit=$1
    shift
    # shellcheck disable=SC2016,SC2086
    setpriv --reuid=65534 --regid=65534 --clear-groups bash -c \
        'ulimit -u "$1" && shift && exec timeout -k 2 40 "$@"' - "$limit" "$PENTA" train $base "$@" >out 2>err </dev/null
}
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$PENTA"; then
    tap_fails "threads: none for MPI" 3 unlucky 2
    tap_ok "threads: none for MPI, one message" one_error "ulimit -u"
    tap_fails "threads: too few" 3 unlucky 7 run.threads=8
    tap_ok "threads: too few, one message" one_error "lower run.threads"
else
    tap_result 0 "threads # SKIP not the superuser, or others may not see this tree"
fi

# ---- Open files: a corpus has more ----
mkdir many
for a in {a..z} {A..Z}; do
    for b in {a..x}; do echo "file $a$b has some words in it, and more of them" >"many/$a$b"; done
done
cd many || exit 1
files=$(printf '%s,' *)
cd ..
digest() { sed -n 's/^final loss .*digest \([0-9a-f]*\),.*/\1/p' out; }
in_many() { (cd many && timeout -k 2 60 "$@" >../out 2>../err </dev/null); }
# shellcheck disable=SC2086
in_many "$PENTA" train $base "data.path=${files%,}" run.dir=../run
reference=$(digest)
tap_ok "open files: 1,248 files" test -n "$reference"
rm -rf run
for limit in "-Sn 64" "-n 1024" "-n 64" "-n 40"; do
    # shellcheck disable=SC2086
    tap_ok "open files: ulimit $limit" within $limit in_many "$PENTA" train $base "data.path=${files%,}" run.dir=../run
    tap_ok "open files: ulimit $limit: the same run" test "$(digest)" = "$reference"
    rm -rf run
done
# shellcheck disable=SC2086
tap_ok "open files: 3 ranks" within -n 64 in_many "$MPIEXEC" -n 3 "$PENTA" train $base "data.path=${files%,}" run.dir=../run
rm -rf run

# ---- Stack ----
# shellcheck disable=SC2086
tap_ok "stack: 64 KiB" within -s 64 penta train $base
rm -rf run
tap_ok "stack: unlimited" within -s unlimited train 2
rm -rf run
# shellcheck disable=SC2086
tap_ok "stack: 64 KiB, threads" within -s 64 penta train $base run.threads=2
rm -rf run
# shellcheck disable=SC2086
tap_ok "stack: raised, where that is allowed" within -Ss 24 penta train $base
rm -rf run
for value in 24 32 48; do
    # shellcheck disable=SC2086
    tap_fails "stack: $value KiB is refused" 2 within -s $value penta train $base
    tap_ok "stack: $value KiB, one message" one_error "ulimit -s"
done

# ---- Too little for MPI, which would crash ----
refused() { # LIMIT VALUE RANKS
    rm -rf run
    tap_fails "ulimit $1 $2, $3 rank(s): refused" 2 within "$1" "$2" train "$3"
    tap_ok "ulimit $1 $2, $3 rank(s): one message" one_error "ulimit $1"
    tap_ok "ulimit $1 $2, $3 rank(s): nothing begun" test ! -e run
}
alone() { # LIMIT VALUE
    # shellcheck disable=SC2086
    tap_fails "ulimit $1 $2: refused" 2 within "$1" "$2" penta train $base
    tap_ok "ulimit $1 $2: one message" one_error "ulimit $1"
}
for value in 5 12 16 31; do alone -n $value; done
refused -n 28 2
for value in 1 4000; do alone -f $value; done
refused -f 4000 2
tap_done
