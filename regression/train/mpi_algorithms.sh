# TEST backend=cpu,shadow timeout=120
# R1: no algorithm of the MPI library, for any collective that a step uses, and no picture it has
# of the hosts, changes a bit of losses, gradient norms and weights. Settings are MPICH's.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

ranks=4
types=train.precision=fp32

train() { # DIRECTORY [VARIABLE=VALUE...]
    local directory=$1
    shift
    env "$@" "$MPIEXEC" -n $ranks "$PENTA" train run.dir="$directory" \
        run.device="$PENTA_TEST_BACKEND" data.path=corpus.txt model.layers=2 model.hidden=32 \
        model.ffn=64 model.heads=4 model.head_dim=8 train.sequence=16 train.global_batch=7 \
        train.micro_batch=1 train.steps=4 train.warmup=1 $types run.log_level=error >"$directory.out" 2>&1
}

# Losses and norms of all steps and the digest of the weights.
figures() { # DIRECTORY
    grep -o '"loss": *[^,]*\|"grad_norm": *[^,]*' "$1/metrics.jsonl"
    grep -o '"digest": *"[0-9a-f]*"' "$1/summary.json"
}

seq 1 3000 >corpus.txt
train base
figures base >base.figures
tap_ok "a run with the library's own choice" test "$(wc -l <base.figures)" -eq 9

train control MPIR_CVAR_IALLTOALL_INTRA_ALGORITHM=nonsense
if [ -e control/summary.json ]; then
    tap_skip_all "this MPI library does not read MPICH's variables"
fi

same() { # VARIABLE=VALUE...
    local directory
    directory=$(echo "$*" | tr -c 'A-Za-z0-9\n' _)
    train "$directory" "$@" || return 1
    figures "$directory" | cmp - base.figures
}

for setting in \
    IALLTOALL_INTRA_ALGORITHM={sched_brucks,sched_pairwise,sched_permuted_sendrecv} \
    IALLTOALL_INTRA_ALGORITHM={tsp_ring,tsp_brucks,tsp_scattered} \
    IALLGATHER_INTRA_ALGORITHM={sched_ring,sched_brucks,sched_recursive_doubling} \
    IALLGATHER_INTRA_ALGORITHM={tsp_ring,tsp_brucks,tsp_recexch_doubling} \
    IALLREDUCE_INTRA_ALGORITHM={sched_naive,sched_smp,sched_recursive_doubling} \
    IALLREDUCE_INTRA_ALGORITHM={sched_reduce_scatter_allgather,tsp_recexch_single_buffer} \
    IALLREDUCE_INTRA_ALGORITHM={tsp_tree,tsp_ring} \
    IBCAST_INTRA_ALGORITHM={sched_binomial,tsp_ring} \
    NOLOCAL=1 ODD_EVEN_CLIQUES=1; do
    tap_ok "$setting" same "MPIR_CVAR_$setting"
done
others=(MPIR_CVAR_IALLTOALL_INTRA_ALGORITHM=tsp_scattered
    MPIR_CVAR_IALLGATHER_INTRA_ALGORITHM=tsp_recexch_halving
    MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM=tsp_recexch_multiple_buffer
    MPIR_CVAR_IBCAST_INTRA_ALGORITHM=tsp_tree MPIR_CVAR_ODD_EVEN_CLIQUES=1)
tap_ok "all at once" same "${others[@]}"
tap_ok "messages through the kernel's copy" same UCX_TLS=self,posix,cma

for types in train.precision=bf16 "train.precision=bf16 parallel.reduce_dtype=bf16" train.precision=fp16; do
    train "base ${types// /_}"
    figures "base ${types// /_}" >narrow.figures
    tap_fails "$types: other numbers than fp32" 1 cmp -s narrow.figures base.figures
    train narrow "${others[@]}"
    tap_ok "... which do not depend on the algorithms either" test "$(figures narrow)" = "$(cat narrow.figures)"
    rm -rf narrow
done

types=train.precision=fp32
ranks=3
train three
tap_ok "another number of ranks is seen" test "$(figures three | cmp - base.figures 2>&1)"
tap_done
