#!/usr/bin/env bash
# usage: jobs/slurm/chain.sh COUNT --job-name=NAME [sbatch option ...] SCRIPT CONF [section.key=value ...]
# For sites that do not allow requeueing: submits COUNT jobs, each of which begins when the one
# before has not finished. It goes on where that one stopped early or lost a rank or node; when the run is
# finished, fails or is cancelled, those left end at once.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
[[ ${1-} =~ ^[1-9][0-9]*$ ]] && [ $# -ge 3 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
count=$1
shift
refuse() { echo "chain: $*; nothing was submitted" >&2; exit 2; }
for word in "$@" ${SBATCH_EXPORT:+"--export=$SBATCH_EXPORT"}; do
    case $word in
    -d | -d?* | --dep*) refuse "$word: the dependencies are the chain's own" ;;
    -a | --arr*) refuse "$word: a chain cannot be an array; submit a chain for each task" ;;
    --export=*ALL*) ;;
    --export=*) refuse "$word: the links would not know of each other; add ALL" ;;
    *.sbatch | *=*.*=*) break ;;
    esac
done
id=''
for ((i = 1; i <= count; i++)); do
    after=${id:+--dependency=afternotok:$id}
    if ! answer=$(CHAIN=$i CHAIN_AFTER=$id sbatch --parsable --no-requeue --kill-on-invalid-dep=yes ${after:+"$after"} "$@"); then
        echo "chain: sbatch refused job $i of $count${id:+; the ones above stay submitted}" >&2
        exit 1
    fi
    id=${answer##*$'\n'}
    id=${id%%;*}
    echo "job $i of $count: $id"
done
