# TEST timeout=560
# Wrong input of every kind: the run is refused with one message that names the mistake, the right
# exit code, on one rank and on three, in little time, and leaves nothing behind. The cases are
# in bad_input.txt; to run some of them: FILTER=regex.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

table=$PENTA_SRCDIR/regression/fault/bad_input.txt
work=$PWD
ulimit -c 0

base="train.steps=2 train.global_batch=3 train.micro_batch=1 train.sequence=32 model.layers=2
model.hidden=32 model.ffn=64 model.heads=4 model.kv_heads=2 model.head_dim=8 data.path=corpus.txt
run.dir=run"

penta_on() { # RANKS ARGUMENT...
    local ranks=$1
    shift
    timeout -k 2 20 "$MPIEXEC" -n "$ranks" "$PENTA" "$@"
}

flip() { # FILE OFFSET: the byte there becomes another one
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %03o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

offset_of() { # FILE TEXT: where the text stands first
    LC_ALL=C grep -abo -m 1 -- "$2" "$1" | head -n 1 | cut -d: -f1
}

# ---- Set-ups: files in the case's folder; "good" is one finished run with a checkpoint ----

none() { :; }
conf() { printf '%b' "$1" >bad.ini; }
json() { printf '%b' "$1" >config.json; }
saved() { cp -r "$work/good" run && newest=run/checkpoints/step_00000002.h5; }
shorten() { saved && truncate -s "$1" $newest; }
shorten_by() { saved && truncate -s "-$1" $newest; }
damage() { saved && flip $newest "$1"; }
damage_text() { saved && flip $newest "$(offset_of $newest "$1")"; }
damage_second() { saved && flip $newest "$(LC_ALL=C grep -abo -- "$1" $newest | sed -n '2s/:.*//p')"; }
damage_end() { saved && flip $newest $(($(stat -c %s $newest) - $1)); }
replaced() { saved && printf '%b' "$1" >$newest; }
emptied() { saved && : >$newest; }
as_directory() { saved && rm $newest && mkdir $newest; }
older_too() { saved && cp $newest run/checkpoints/step_00000001.h5 && for f in run/checkpoints/*.h5; do flip "$f" 9000; done; }
edited() { saved && "$work/edit" $newest "$1" "$2"; }
locked() {
    mkdir run
    exec 9>run/run.lock
    echo "$(hostname) $$" >&9
    flock -n 9
}
in_the_way() { mkdir -p "$(dirname "$1")" && echo text >"$1"; }
folder() { mkdir -p "$1"; }
file() { printf '%b' "$2" >"$1"; }
loop_link() { ln -s "$1" "$1"; }
pipe() { mkfifo "$1"; }
variable() { export "${1?}"; }
foreign() { mkdir -p run/checkpoints && "$work/edit" run/checkpoints/step_00000002.h5 make x; }
# So that a regression of the memory check costs the process, not the machine.
capped() { ulimit -d $((4 * 1024 * 1024)); }
tight() { ulimit -d $((512 * 1024)); }

# ---- One case ----

problems() { # CODE STATUS MESSAGES: what is wrong with the outcome, in words
    local code=$1 status=$2 messages=$3 count part parts
    [ "$status" -eq "$code" ] || echo "exit code $status, wanted $code"
    count=$(grep -c ' error: ' err)
    [ "$count" -eq 1 ] || echo "$count error messages, wanted 1"
    IFS=';' read -ra parts <<<"$messages"
    for part in "${parts[@]}"; do
        sed -n '/ error: /,$p' err | grep -qF -- "$part" || echo "the message lacks: $part"
    done
    grep -qE 'Training finished|: finished$' out && echo "stdout looks like success"
    [ -z "$(find . -name 'core*' -type f)" ] || echo "a core file"
    [ -z "$(find . -name '*.partial')" ] || echo "a partial file"
    if [ -f run/status.json ] && ! grep -q "\"code\": $code," run/status.json; then
        echo "status.json says $(grep '"code"' run/status.json)"
    fi
    grep -qE 'Sanitizer|runtime error' err && echo "a sanitizer's report"
}

run_case() { # NAME RANKS ARGUMENTS SETUP CODE MESSAGES
    local name=$1 ranks=$2 status wrong arguments
    rm -rf "$work/case" && mkdir "$work/case" && cd "$work/case" || exit 1
    (
        ln -s "$work/corpus.txt" corpus.txt
        eval "$4" || echo "set-up failed" >broken
        eval "arguments=($(echo "$3" | sed "s|@|train $(echo $base)|"))"
        penta_on "$ranks" "${arguments[@]}" </dev/null >out 2>err 9>&-
        status=$?
        wrong=$(problems "$5" $status "$6"; cat broken 2>/dev/null)
        sleep 0.1
        [ -z "$(tap_ranks_alive)" ] || wrong="$wrong; processes left"
        if [ -n "$wrong" ]; then
            echo "$wrong" | sed 's/^/# /'
            grep -v '^=\|^$' err | head -n 6 | cut -c1-400 | sed 's/^/#   /'
        fi
        [ -z "$wrong" ]
    )
    tap_result $? "$name, $ranks ranks"
    cd "$work" || exit 1
}

seq -f 'line %g of the corpus, with some words in it' 1 4000 >corpus.txt
# shellcheck disable=SC2086 # words
"$MPIEXEC" -n 1 "$PENTA" train $base run.dir=good >good.log 2>&1 || { cat good.log; exit 1; }
cat >edit.c <<'C'
/* edit FILE make|format|drop|lose|nan NAME: what no run would write. */
#include <hdf5.h>
#include <math.h>
#include <string.h>
int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[2], "make") == 0)
        return H5Fclose(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) < 0;
    hid_t file = argc == 4 ? H5Fopen(argv[1], H5F_ACC_RDWR, H5P_DEFAULT) : -1;
    if (file < 0)
        return 1;
    if (strcmp(argv[2], "format") == 0) {
        long long value = 99;
        hid_t id = H5Aopen(file, argv[3], H5P_DEFAULT);
        return H5Awrite(id, H5T_NATIVE_LLONG, &value) < 0 || H5Fclose(file) < 0;
    }
    if (strcmp(argv[2], "drop") == 0)
        return H5Ldelete(file, argv[3], H5P_DEFAULT) < 0 || H5Fclose(file) < 0;
    if (strcmp(argv[2], "lose") == 0)
        return H5Adelete(file, argv[3]) < 0 || H5Fclose(file) < 0;
    float values[8] = {NAN};
    hsize_t start[2] = {0, 0}, count[2] = {1, 8};
    hid_t set = H5Dopen2(file, argv[3], H5P_DEFAULT), space = H5Dget_space(set);
    hid_t memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    return H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values) < 0 ||
           H5Fclose(file) < 0;
}
C
libs=$(sed -n 's/^HDF5_LIBS = //p' "$PENTA_BUILDDIR/Makefile")
# shellcheck disable=SC2086 # words
$CC $PENTA_TEST_CPPFLAGS -o edit edit.c $libs -lm 2>edit.log ||
    { cat edit.log; exit 1; }

while IFS='|' read -r name ranks arguments setup code messages; do
    name=$(echo "$name" | sed 's/ *$//')
    case $name in '' | '#'*) continue ;; esac
    [[ $name =~ ${FILTER-} ]] || continue
    messages=$(echo "$messages" | sed 's/^ *//; s/ *$//; s/ *; */;/g')
    for r in ${ranks//,/ }; do
        run_case "$name" "$r" "$arguments" "$setup" "${code// /}" "$messages"
    done
done <"$table"
tap_done
