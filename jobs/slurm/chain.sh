#!/usr/bin/env bash
# usage: jobs/slurm/chain.sh COUNT --job-name=NAME [sbatch option ...] SCRIPT CONF [section.key=value ...]
# For sites that do not allow requeueing: submits COUNT jobs, each of which begins when the one
# before has stopped early (code 75). When the run is finished, or fails, those left end at once.
set -euo pipefail
[[ ${1-} =~ ^[1-9][0-9]*$ ]] && [ $# -ge 3 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
count=$1
shift
after=()
for ((i = 1; i <= count; i++)); do
    id=$(CHAIN=$i sbatch --parsable --no-requeue --kill-on-invalid-dep=yes "${after[@]}" "$@")
    id=${id%%;*}
    echo "job $i of $count: $id"
    after=("--dependency=afternotok:$id")
done
