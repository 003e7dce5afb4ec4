# What job.sh asks: Slurm, status.json, its own notes, the options. Sourced by it.
# shellcheck disable=SC2034 # variables that job.sh reads
# SPDX-License-Identifier: Apache-2.0

is_number() { # TEXT
    case $1 in '' | *[!0-9]*) return 1 ;; esac
}

# Signals end a pause early.
pause() { # SECONDS
    [ "$1" != 0 ] || return 0
    sleep "$1" &
    wait $!
}

await_end() { # PID: five seconds at most
    local i
    for ((i = 0; i < 50; i++)); do
        kill -0 "$1" 2>/dev/null || return
        sleep 0.1
    done
}

# ---- Slurm, which may be too busy to answer ----

# A command whose answer may be missing: tried four times. Its complaint is in $scratch/refusal.
ask() { # COMMAND...
    local try answer
    for try in 1 2 3 4; do
        answer=$("$@" 2>"$scratch/refusal") && [ -n "$answer" ] && { printf '%s\n' "$answer"; return 0; }
        if [ $try -lt 4 ]; then pause $((try * ${PAUSE:-5})); fi
    done
    return 1
}

# Sets job_id (as squeue and scontrol want it: of one task of an array), ranks, restarts.
find_job() {
    job_id=${SLURM_JOB_ID:-${SLURM_JOBID-}}
    if [ -n "${SLURM_ARRAY_JOB_ID-}" ] && [ -n "${SLURM_ARRAY_TASK_ID-}" ]; then
        job_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    fi
    ranks=${SLURM_NTASKS:-${SLURM_NPROCS-}}
    if [ -z "$ranks" ] && is_number "${SLURM_NTASKS_PER_NODE-}" &&
        is_number "${SLURM_JOB_NUM_NODES:-${SLURM_NNODES-}}"; then
        ranks=$((SLURM_NTASKS_PER_NODE * ${SLURM_JOB_NUM_NODES:-$SLURM_NNODES}))
    fi
    ranks=${ranks:-?}
    restarts=${SLURM_RESTART_COUNT:-0}
    is_number "$restarts" || restarts=0
}

# The seconds that are left of the job; nothing: no limit, or not known.
time_left() {
    local left
    if is_number "${SLURM_JOB_END_TIME-}"; then
        left=$((SLURM_JOB_END_TIME - $(date +%s)))
        if [ $left -gt 0 ]; then echo $left; return; fi
    fi
    [ -n "$job_id" ] || return
    left=$(ask squeue -h -j "$job_id" -o %L) || {
        echo "job: squeue does not answer ($(head -n 1 "$scratch/refusal")): the run gets no run.time_limit, Slurm's signal alone will stop it" >&2
        return
    }
    # [D-][[HH:]MM:]SS, or UNLIMITED, INVALID, NOT_SET. Parts of one job have a line each.
    awk -F '[-:]' '
        !/^[0-9]+(-[0-9]+)?(:[0-9]+)*$/ { next }
        {
            days = /-/ ? $1 : 0
            seconds = 0
            for (i = /-/ ? 2 : 1; i <= NF; i++) seconds = seconds * 60 + $i
            if (/-/ && NF == 2) seconds *= 3600
            if (/-/ && NF == 3) seconds *= 60
            seconds += days * 86400
            if (least == "" || seconds < least) least = seconds
        }
        END { if (least != "") print least }' <<<"$left"
}

# run.time_limit: what is left, less a minute for the launch (of little, half). Sets time_total.
find_time_limit() {
    local left
    time_limit='' time_total=''
    left=$(time_left)
    [ -n "$left" ] || return
    time_total=$((left + SECONDS))
    if [ "$left" -ge 120 ]; then left=$((left - 60)); else left=$((left / 2 + 1)); fi
    time_limit=$(printf '%02d:%02d:%02d' $((left / 3600)) $((left % 3600 / 60)) $((left % 60)))
}

signal_lead() {
    local lead=${LEAD-}
    [ -n "$lead" ] || lead=$(sed -n 's/^#SBATCH.*--signal=[^@]*@\([0-9]*\).*/\1/p' "$0" 2>/dev/null | tail -n 1)
    if is_number "$lead"; then echo "$lead"; else echo 120; fi
}

# Of a job that is no longer there but in Slurm's memory or its accounts; nothing: not known.
state_of_ended() { # JOB
    local state
    state=$(scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1)
    [ -n "$state" ] || state=$(sacct -n -X -P -j "$1" -o State 2>/dev/null | head -n 1)
    printf '%s\n' "$state"
}

# Slurm refuses for good (--no-requeue), or does not answer now.
requeue() {
    local try
    for try in 1 2 3 4; do
        scontrol requeue "$job_id" >"$scratch/refusal" 2>&1 && return 0
        grep -qiE 'timed out|unable to contact|connection|zero bytes|try again|communication' "$scratch/refusal" || return 1
        if [ $try -lt 4 ]; then pause $((try * ${PAUSE:-5})); fi
    done
    return 1
}

# ---- status.json and our notes ----

field() { # KEY -> its value in status.json; nothing if there is none, or null
    sed -n -e "s/^ *\"$1\": *\"\(.*\)\",\{0,1\}\$/\1/p" -e "s/^ *\"$1\": *\(-\{0,1\}[0-9][0-9]*\),\{0,1\}\$/\1/p" \
        "$run_dir/status.json" 2>/dev/null | head -n 1
}

# Has this start written status.json? One that another run keeps out of the directory has not.
has_begun() {
    [ -e "$run_dir/status.json" ] || return 1
    if [ -e "$scratch/lock" ] && cmp -s "$scratch/lock" "$run_dir/run.lock"; then return 1; fi
    ! cmp -s "$scratch/status" "$run_dir/status.json"
}

newest_checkpoint() { # by its number; nothing: none
    local file best='' number most=-1
    for file in "$run_dir"/checkpoints/step_*.h5; do
        number=${file##*/step_}
        number=${number%.h5}
        is_number "$number" && [ -e "$file" ] || continue
        if [ $((10#$number)) -gt $most ]; then most=$((10#$number)) best=${file##*/}; fi
    done
    printf '%s\n' "$best"
}

noted() { # KEY -> its value in job.state
    sed -n "s/^$1=//p" "$run_dir/job.state" 2>/dev/null | head -n 1
}

note() { # VERDICT CODE WHY
    printf '%s\n' "job=${SLURM_JOB_ID-}" "verdict=$1" "exit=$2" "why=$3" "checkpoint=$checkpoint" "tries=$tries" \
        "cause=$loss" "early=$early" "exclude=$excluded" 2>/dev/null >"$run_dir/job.state.$$" &&
        mv -f "$run_dir/job.state.$$" "$run_dir/job.state"
}

# ---- Options ----

# The value that penta would take from arguments, environment or file, in this order. 1: none gives it;
# 2: the file has it in a way that only penta can read.
option() { # SECTION.KEY ARGUMENT...
    local key=$1 word value found=1 variable
    shift
    for word in "$@"; do
        case $word in "$key"=*) value=${word#*=} found=0 ;; esac
    done
    if [ $found = 1 ]; then
        variable=$(printf 'PENTA_%s' "$key" | tr 'a-z.' 'A-Z_')
        value=$(printenv "$variable") && found=0
    fi
    case ${1-=} in
    *=*) ;;
    *)
        if [ $found = 1 ] && [ -r "$1" ]; then
            value=$(option_in_file "$key" "$1")
            found=$?
        fi
        ;;
    esac
    if [ $found = 0 ]; then printf '%s\n' "$value"; fi
    return $found
}

option_in_file() { # SECTION.KEY FILE
    awk -v section="${1%%.*}" -v key="${1#*.}" '
        function trim(s) { gsub(/^[ \t\r]+|[ \t\r]+$/, "", s); return s }
        { sub(/^\357\273\277/, "") }
        /^[ \t\r]*([;#]|$)/ { next }
        open && /^[ \t]/ { hard = 1; next }
        { open = 0; line = trim($0) }
        line ~ /^\[/ { now = trim(substr(line, 2, index(line, "]") - 2)); next }
        {
            at = match(line, /[=:]/)
            if (!at || now != section || trim(substr(line, 1, at - 1)) != key) next
            value = substr(line, at + 1)
            sub(/[ \t];.*/, "", value)
            value = trim(value)
            if (value ~ /^".*"$/) value = substr(value, 2, length(value) - 2)
            if (value ~ /["\\]/) hard = 1
            open = found = 1
        }
        END {
            if (hard) exit 2
            if (!found) exit 1
            print value
        }' "$2"
}
