# TEST timeout=60
# Ranks whose library multiplies otherwise, as on hosts of two kinds, are a warning; equal ones are none.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'number %g' 1 400 >text
two_ranks() { # CORE CORE: processors OpenBLAS is told of; "": what it finds
    local arguments=(train data.path=text run.dir=run model.layers=1 model.hidden=32 model.ffn=32 model.heads=2
        model.kv_heads=2 model.head_dim=16 train.sequence=16 train.global_batch=2 train.micro_batch=1 train.steps=1)
    rm -rf run
    "$MPIEXEC" -n 1 env ${1:+OPENBLAS_CORETYPE=$1} "$PENTA" "${arguments[@]}" : \
        -n 1 env ${2:+OPENBLAS_CORETYPE=$2} "$PENTA" "${arguments[@]}" >out 2>err
}
warnings() { grep -c 'warning: ranks compute with different .*libraries' err; }

tap_ok "two ranks of one kind" two_ranks "" ""
tap_ok "... no warning" test "$(warnings)" -eq 0
if grep -q '"build": .*OpenBLAS.* DYNAMIC_ARCH' run/summary.json && [ "$(uname -m)" = x86_64 ]; then
    tap_ok "two ranks of two kinds" two_ranks Prescott Nehalem
    tap_ok "... one warning" test "$(warnings)" -eq 1
else
    tap_result 0 "two kinds # SKIP a BLAS that cannot be told"
fi
tap_done
