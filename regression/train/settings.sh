# TEST level=long timeout=21600
# What a CPU can round otherwise is varied, one setting at a time: the kernels of oneDNN, those of Penta, those
# of OpenBLAS, and a core that is busy. Tests with numeric bounds, or with bounds of time, pass under each.
# Tried are the settings this CPU has; the others are listed as not tried. To take a part:
#   SETTINGS=REGEX TESTS=REGEX regression/driver.sh regression/train/settings.sh
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

numeric="ops/test_ops ops/test_dispatch golden/test_golden golden/test_narrow
train/test_model train/test_linear train/test_many_runs train/test_decode train/test_finite train/test_init_from
train/test_initial train/test_layouts train/test_learns train/test_masked train/test_optimizer
train/test_plan train/test_repeat train/test_replicas train/test_samples train/test_skip"
timed="mpi/test_wait fault/disk.sh perf/speed.sh cli/driver.sh"

has() { # FLAG...: of /proc/cpuinfo
    local flag
    for flag in "$@"; do
        grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$flag" || return 1
    done
}

try() { # NAME TESTS: under what the caller exported
    local test
    [[ $1 =~ ${SETTINGS-} ]] || return 0
    for test in $2; do
        [[ $test =~ ${TESTS-} ]] || continue
        (cd "$PENTA_BUILDDIR" && PENTA_TEST_LEVEL=full PENTA_TEST_TIMEOUT_SCALE=3 \
            bash "$PENTA_SRCDIR/regression/driver.sh" "regression/$test") >out 2>&1
        tap_result $? "$1: $test"
        grep -E '^ *#? *not ok|failed|exit status' out | head -n 20 | sed 's/^/# /'
    done
}
not_tried() { echo "ok $((tap_count += 1)) - $1 # SKIP not tried: this CPU lacks it"; }

level() { # NAME FLAG...
    local name=$1
    shift
    if has "$@"; then
        DNNL_MAX_CPU_ISA=$name try "DNNL_MAX_CPU_ISA=$name" "$numeric"
    else
        not_tried "DNNL_MAX_CPU_ISA=$name"
    fi
}
level AVX2 avx2
level AVX512_CORE avx512bw avx512vl avx512dq
level AVX512_CORE_BF16 avx512_bf16
level AVX512_CORE_AMX amx_bf16 amx_tile

PENTA_TEST_ISA=base try "run.isa=base" "$numeric"
if has avx2 fma bmi2; then PENTA_TEST_ISA=v3 try "run.isa=v3" "$numeric"; else not_tried "run.isa=v3"; fi
if has avx512f avx512bw avx512cd avx512dq avx512vl; then
    PENTA_TEST_ISA=v4 try "run.isa=v4" "$numeric"
else
    not_tried "run.isa=v4"
fi

OPENBLAS_CORETYPE=Nehalem try "OPENBLAS_CORETYPE=Nehalem" "$numeric"
if has avx2 fma; then
    OPENBLAS_CORETYPE=Haswell try "OPENBLAS_CORETYPE=Haswell" "$numeric"
else
    not_tried "OPENBLAS_CORETYPE=Haswell"
fi
if has avx512bw avx512vl avx512dq; then
    OPENBLAS_CORETYPE=SkylakeX try "OPENBLAS_CORETYPE=SkylakeX" "$numeric"
else
    not_tried "OPENBLAS_CORETYPE=SkylakeX"
fi

(while :; do :; done) &
busy=$!
trap 'kill $busy' EXIT
try "beside a busy core" "$numeric $timed"
kill $busy
trap - EXIT
tap_done
