# TEST level=full timeout=560,7200
# usage: regression/fuzz/fuzz.sh [NAME [SECONDS]]
#        PENTA_TEST_LEVEL=long regression/fuzz/fuzz.sh [NAME]
#
# Fuzzes the parsers of files: regression/fuzz/fuzz_NAME.c. Builds them with clang, in the build folder
# if that is instrumented for it, else in build-fuzz below it; replays the inputs kept in found/NAME,
# then makes new ones, as many parsers at a time as there are cores: as a test 100,000 for each,
# always the same; a million others at level long; by hand for SECONDS (60), of NAME or of all.
# What it finds stays in the build folder, as does what it learns about the code; a finding is mended
# and copied to found/NAME.
# SPDX-License-Identifier: Apache-2.0
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$top/regression/tap.sh"
here=$top/regression/fuzz
names=${1-$(sed -n 's|^PT_FUZZERS += regression/fuzz/fuzz_||p' "$top/regression/Makefile.am")}
sanitize=address,undefined,fuzzer-no-link
build=${PENTA_BUILDDIR-$top}
grep -qse "--enable-sanitize=$sanitize" "$build/config.status" || build=$build/build-fuzz
cores=$(env -u OMP_NUM_THREADS nproc) # nproc says no more than OMP_NUM_THREADS
case ${PENTA_TEST_LEVEL-hand} in
hand) limit=("-max_total_time=${2-60}") ;;
long) limit=(-runs=1000000) ;;
*) limit=(-seed=1 -runs=100000) ;;
esac

command -v clang >/dev/null || tap_skip_all "no clang"
mkdir -p "$build" || exit 1
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return n < 0 ? *d : 0; }' |
    clang -fsanitize=fuzzer -x c - -o "$build/probe" 2>/dev/null ||
    tap_skip_all "clang lacks its libFuzzer (package libclang-rt-14-dev)"

make_fuzzers() (
    cd "$build" || exit 1
    exec 9>fuzz.lock && flock 9 # two calls by hand share the folder
    if [ ! -e Makefile ] || [ "$top/configure" -nt config.status ]; then
        [ -x "$top/configure" ] || (cd "$top" && ./bootstrap) || exit 1
        "$top/configure" CC=clang --enable-sanitize=$sanitize || exit 1
    fi
    make Makefile || exit 1 # configures again if it must, which fails with the flag below
    make -j"$cores" LDFLAGS=-fsanitize=fuzzer fuzzers
)

# The words of the languages, from the sources that know them.
dictionary() { # NAME
    case $1 in
    config | archive)
        sed -nE 's/^PT_SECTION *\(([a-z]+),.*/"[\1]\\x0a"/p
                 s/^PT_[A-Z]+ *\(([a-z]+), ([a-z0-9_]+),.*/"\2 = "\n"\1.\2 = "/p' \
            "$top/include/penta/config/options.def"
        printf '"\\x01%s\\x0a"\n' "home /h" "file a" environment "command line" json
        # shellcheck disable=SC2016,SC2088 # the words themselves
        printf '"%s"\n' '~/' '$HOME' '\\,' '\\x24' '\\x7e'
        ;;
    json)
        grep -ohE '"[A-Za-z0-9_]{2,40}"' "$top/src/config/hf.c" "$top/src/config/hf_rope.c" | sed 's/^"\(.*\)"$/"\\"\1\\""/'
        sed -nE 's/^PT_HF_[A-Z]+\(([a-z0-9_]+),.*/"\\"\1\\""/p' "$top/src/config/hf_keys.def"
        ;;
    fault) grep -ohE '"[a-z.]{2,20}"' "$top/src/base/fault.c" "$top/src/base/fault.def" ;;
    corpus) printf '"%s"\n' '\\n' '\\t' '\\x00' '\\\\' ;;
    metrics) printf '"%s"\n' '{\"step\":' '\x0a' '\x00' '1e400' '-1' ;;
    status) grep -ohE '"[A-Za-z0-9_]{2,40}"' "$top/src/cmd/status.c" | sed 's/^"\(.*\)"$/"\\"\1\\""/' ;;
    lock) printf '"%s"\n' "$(hostname)" ' 1\x0a' 4294967296 ;;
    esac | sort -u
}

longest() { # NAME: bytes of an input
    case $1 in
    checkpoint) echo 32768 ;;
    lock | corpus) echo 1024 ;;
    *) echo 4096 ;;
    esac
}

fuzz() { # NAME ARGUMENT...
    local name=$1 leaks=1
    shift
    # HDF5 loses memory over damaged files (regression/lsan.supp); our leaks are counted.
    if [ "$name" = checkpoint ]; then leaks=0; fi
    TMPDIR=$scratch/$name ASAN_OPTIONS=detect_leaks=$leaks:allocator_may_return_null=1:quarantine_size_mb=8:allocator_release_to_os_interval_ms=-1 OMP_NUM_THREADS=1 \
        "$build/regression/fuzz/fuzz_$name" -timeout=25 -rss_limit_mb=2048 \
        -malloc_limit_mb=512 -artifact_prefix="$build/found/$name/" -print_final_stats=1 \
        "$@" </dev/null >"$scratch/$name/log" 2>&1
}

replay() { # NAME
    local kept=("$here/found/$1"/*)
    [ -e "${kept[0]}" ] || return 0
    fuzz "$1" "${kept[@]}" && return
    grep -aE '^fuzz: |ERROR|runtime error|^ *#[0-9] |Running' "$scratch/$1/log" | tail -n 20 | sed 's/^/# /'
    return 1
}

seek() { # NAME
    local seeds arguments=() folder inputs status began=$SECONDS learnt=$build/corpus/$1
    # What is always the same begins with nothing learnt.
    case ${limit[0]} in -seed=*) learnt=$scratch/$1/corpus ;; esac
    mkdir -p "$learnt"
    seeds=("$learnt" "$here/found/$1" "$here/seeds/$1")
    [ "$1" != config ] || seeds+=("$top/jobs/conf")
    for folder in "${seeds[@]}"; do [ ! -d "$folder" ] || arguments+=("$folder"); done
    dictionary "$1" >"$scratch/$1/words"
    [ ! -s "$scratch/$1/words" ] || arguments+=(-dict="$scratch/$1/words")
    fuzz "$1" "${limit[@]}" -max_len="$(longest "$1")" "${arguments[@]}"
    status=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/$1/log")
    echo "# $1: ${inputs-0} inputs in $((SECONDS - began)) s"
    [ $status -ne 0 ] || return 0
    grep -av '^#\|^stat' "$scratch/$1/log" | tail -n 60 | cut -c1-300 | sed 's/^/# /'
    return 1
}

both() { # NAME: outcomes and output into files, for several run at a time
    mkdir -p "$scratch/$1" "$build/found/$1"
    replay "$1" >"$scratch/$1/kept"
    echo $? >"$scratch/$1/kept.status"
    seek "$1" >"$scratch/$1/new"
    echo $? >"$scratch/$1/new.status"
}

scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
cd "$scratch" || exit 1
make_fuzzers >"$scratch/make.log" 2>&1 || {
    tail -n 40 "$scratch/make.log" | sed 's/^/# /'
    tap_result 1 "the fuzzers are built"
    tap_done
}
mapfile -t uncovered < <(sed -n 's/^fun://p' "$here/uncovered")
for name in "${uncovered[@]}"; do
    grep -rqE "^[^ ].*[ *]$name\\(" "$top/src" || tap_result 1 "$name, named in uncovered, exists"
done
for name in $names; do
    while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do sleep 0.2; done
    both "$name" &
done
wait
for name in $names; do
    cat "$scratch/$name/kept"
    tap_result "$(cat "$scratch/$name/kept.status")" "$name: kept inputs"
    cat "$scratch/$name/new"
    tap_result "$(cat "$scratch/$name/new.status")" "$name: new inputs"
done
tap_done
