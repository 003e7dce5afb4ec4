#!/usr/bin/env bash
# usage: jobs/quickstart.sh [--help]
# From a bare Debian or Ubuntu machine to a trained model, in about five minutes on two cores:
# installs packages, builds in build/, trains a small model on English text on several ranks, stops
# it by a signal, resumes it from its HDF5 checkpoint on another number of ranks, samples text.
# Variables:
#   RANKS=4       ranks at first; half as many after the stop
#   STOP=400      step after which it is stopped
#   TEXT=FILE     train on this text instead (plain text, 200 kB or more)
# All it makes is in build/ of the source tree; a build that is there is used again.
set -euo pipefail
# SPDX-License-Identifier: Apache-2.0
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case ${1-} in
'') ;;
--help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; exit 0 ;;
*) echo "quickstart: there are no arguments; jobs/quickstart.sh --help says more" >&2; exit 2 ;;
esac

ranks=${RANKS-4} stop=${STOP-400}
build=$top/build work=$top/build/quickstart
run=$work/run text=$work/text
conf=$top/jobs/conf/quickstart.ini
penta=$build/penta
job=

say() { printf '\n==> %s\n' "$*"; }
show() { printf '    $ %s\n' "$*"; }
fail() { printf '\nquickstart: %s\n' "$*" >&2; exit 1; }
clean_up() { if [ -n "$job" ]; then kill -TERM "$job" 2>/dev/null || true; fi; }
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[[ $ranks =~ ^[1-9][0-9]?$ ]] || fail "RANKS=$ranks: a number from 1 to 99"
fewer=$(((ranks + 1) / 2))
[[ $stop =~ ^[1-9][0-9]*$ ]] || fail "STOP=$stop: a step, such as 400"
if [ -n "${TEXT-}" ]; then
    [ -r "$TEXT" ] || fail "TEXT=$TEXT: cannot be read"
    TEXT=$(realpath "$TEXT")
fi
cd "$top"

# ---- packages and build ---------------------------------------------------------------------

set_up() {
    say "1/6 packages"
    local sections=(build)
    if [ -z "${TEXT-}" ]; then sections+=(quickstart); fi
    jobs/setup.sh "${sections[@]}" ||
        fail "packages could not be installed: see above; packages.txt lists what is needed"
    echo "    all there"
}

compile() {
    say "2/6 build in $build"
    mkdir -p "$work"
    local log=$work/build.log
    {
        if [ ! -x configure ]; then ./bootstrap; fi
        cd "$build"
        if [ ! -e Makefile ]; then "$top/configure"; fi
        make -j"$(nproc)"
    } >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "the build failed: all of it is in $log"; }
    cd "$top"
    . "$top/jobs/mpiexec-env.sh"
    mpiexec=$(sed -n "s/^MPIEXEC='\(.*\)'$/\1/p" "$build/regression/env.sh")
    echo "    $("$penta" --version)"
}

# ---- text -----------------------------------------------------------------------------------

# Minimal systems leave /usr/share/doc out when they install; the archive has it all the same.
jargon() {
    local file=usr/share/doc/jargon-text/jargon.txt.gz
    if [ -r /$file ]; then
        zcat /$file
    else
        (cd "$work" && apt-get download -qq jargon-text >&2) || return 1
        dpkg-deb --fsys-tarfile "$work"/jargon-text_*.deb | tar -xO ./$file | zcat
    fi
}

# ASCII, one paragraph a line, headings left out.
paragraphs() {
    iconv -f UTF-8 -t ASCII//TRANSLIT |
        awk -v RS= 'length > 80 { gsub(/[ \n]+/, " "); sub(/^ /, ""); print }'
}

get_text() {
    say "3/6 text"
    if [ -n "${TEXT-}" ]; then
        cp "$TEXT" "$text"
        echo "    $TEXT"
    else
        jargon | paragraphs >"$text" ||
            fail "no text: install the Debian package jargon-text, or give your own by TEXT=FILE"
        echo "    the Jargon File, a dictionary of hacker slang (public domain; package jargon-text)"
    fi
    [ "$(wc -c <"$text")" -ge 200000 ] || fail "$text: less than 200 kB of text; give another by TEXT=FILE"
    echo "    $(wc -c <"$text") bytes in $text"
}

# ---- training -------------------------------------------------------------------------------

steps_done() { if [ -e "$run/metrics.jsonl" ]; then grep -c '"loss"' "$run/metrics.jsonl" || true; else echo 0; fi; }

train() { # RANKS, in the background: sets job
    show "mpiexec -n $1 build/penta train jobs/conf/quickstart.ini data.path=... run.dir=..."
    "$mpiexec" -n "$1" "$penta" train "$conf" "data.path=$text" "run.dir=$run" &
    job=$!
}

# The run's own code: mpiexec may answer 0 for a run that it passed a signal on to.
finish() { # -> code in status.json; that of mpiexec where there is none
    local code=0 told
    wait "$job" || code=$?
    job=
    told=$(sed -n 's/^ *"code": \([0-9]*\),$/\1/p' "$run/status.json" 2>/dev/null)
    return "${told:-$code}"
}

train_and_stop() {
    say "4/6 train on $ranks ranks, and stop after step $stop by SIGUSR1, as a batch system would"
    rm -rf "$run"
    train "$ranks"
    local code=0
    while kill -0 "$job" 2>/dev/null && [ "$(steps_done)" -lt "$stop" ]; do sleep 0.2; done
    if kill -USR1 "$job" 2>/dev/null; then echo "    (SIGUSR1 sent)"; fi
    finish || code=$?
    echo "    code $code, in $run/status.json:"
    sed 's/^/    /' "$run/status.json" || fail "training did not begin: see above"
    echo
    case $code in
    75) ;;
    0) fail "it finished before step $stop: take a smaller STOP=$stop" ;;
    *) fail "training failed with code $code: see above; the codes: build/penta --help" ;;
    esac
}

resume() {
    local code=0
    say "5/6 resume on $fewer ranks: the same command finds the newest checkpoint"
    train "$fewer"
    finish || code=$?
    [ $code -eq 0 ] || fail "the resumed run ended with code $code: see above"
}

use() {
    say "6/6 use it"
    newest=$(printf '%s\n' "$run"/checkpoints/step_*.h5 | tail -n 1)
    show "build/penta inspect --verify ${newest#"$top/"}"
    "$penta" inspect "$newest" --verify | sed 's/^/    /' || fail "the checkpoint is not as written"
    local seed=0
    for prompt in "A hacker is " "The computer "; do
        seed=$((seed + 1))
        show "build/penta sample jobs/conf/quickstart.ini run.dir=${run#"$top/"} sample.prompt=\"$prompt\" sample.seed=$seed"
        "$penta" sample "$conf" "run.dir=$run" "sample.prompt=$prompt" "sample.seed=$seed" run.log_level=warn |
            fold -s -w 90 | sed 's/^/    | /'
        echo
    done
}

sum_up() {
    say "done in $SECONDS seconds"
    cat <<END
A model of 1.9 million parameters read $(wc -c <"$text") bytes of text about once: on $ranks ranks, then
on $fewer, with nothing lost in between. It spells; sense takes more text and more time.

    the program          $penta
    what was trained     $conf
    the run directory    $run
    the checkpoint       $newest

Next: build/penta train --help      jobs/README.md (Slurm)      doc/
END
}

set_up
compile
get_text
train_and_stop
resume
use
sum_up
