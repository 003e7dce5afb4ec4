# Sourced by the batch scripts of this folder, which say what to ask Slurm for; this says what to do
# with it: run `penta train CONF [section.key=value ...]`, and afterwards decide by status.json.
#   code 75, a step further than before: the job goes back into the queue
#   anything else: the job ends with that code
# Variables: PENTA (the program; default: penta of build/ or of PATH), RUNS (folder of run
# directories; default: runs). Without run.dir=DIR among the arguments it is RUNS/NAME-OF-THE-JOB.
set -u

penta=${PENTA-}
if [ -z "$penta" ] && [ -x build/penta ]; then penta=$PWD/build/penta; fi
if [ -z "$penta" ]; then penta=$(command -v penta) || { echo "job: no penta: set PENTA" >&2; exit 2; }; fi

run_dir=${RUNS-runs}/$SLURM_JOB_NAME
for word in "$@"; do
    case $word in run.dir=*) run_dir=${word#run.dir=} ;; esac
done

field() { # NAME -> its number in status.json, nothing if there is none
    sed -n "s/^.*\"$1\": *\(-\{0,1\}[0-9]*\).*/\1/p" "$run_dir/status.json" 2>/dev/null | head -n 1
}

# What is left of the job's time as [HH:]MM:SS, less a minute for the launch; nothing: no limit.
time_limit() {
    squeue -h -j "$SLURM_JOB_ID" -o %L | awk -F '[-:]' '
        !/^[0-9]/ { next }
        { days = 0; first = 1 }
        /-/ { days = $1; first = 2 }
        {
            seconds = 0
            for (i = first; i <= NF; i++) seconds = seconds * 60 + $i
            seconds += days * 86400 - 60
            if (seconds < 60) next
            printf "%02d:%02d:%02d", seconds / 3600, seconds % 3600 / 60, seconds % 60
        }'
}

# Slurm signals the batch shell alone (--signal=B:USR1@...); srun hands USR1 to all ranks. Nothing
# else is trapped: scancel's TERM must end this script, so that a cancelled job does not come back.
launch() {
    local code=0 limit
    limit=$(time_limit)
    export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK-1} OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
    srun --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK-1}" \
        "$penta" train "$@" "run.dir=$run_dir" "run.threads=${SLURM_CPUS_PER_TASK-1}" \
        ${limit:+"run.time_limit=$limit"} &
    pid=$!
    trap 'kill -USR1 $pid' USR1
    while :; do
        wait $pid
        code=$?
        kill -0 $pid 2>/dev/null || break # a signal only interrupted the wait
    done
    trap - USR1
    return $code
}

requeue() {
    # A chain has its successor in the queue; a job being cancelled stays cancelled.
    if [ -n "${CHAIN-}" ] || [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" != RUNNING ]; then return; fi
    echo "job: stopped after step $(field step): back into the queue"
    scontrol requeue "$SLURM_JOB_ID" && sleep 60 # Slurm ends this script
}

job() {
    local srun_code=0 code before
    before=$(field step)
    code=$(field code)
    if [ "${CHAIN-1}" -gt 1 ] && [ "${code:-75}" != 75 ]; then
        echo "job: the link before ended with code $code: nothing to go on with"
        exit "$code"
    fi
    mkdir -p "$run_dir"
    if [ -e "$run_dir/status.json" ]; then mv "$run_dir/status.json" "$run_dir/status.before.json"; fi
    echo "job: $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT-0} + 1)), $SLURM_JOB_NUM_NODES nodes, $SLURM_NTASKS ranks"
    launch "$@" || srun_code=$?
    code=$(field code)
    if [ -z "$code" ]; then
        echo "job: no status.json in $run_dir: srun ended with code $srun_code before the run could say why"
        exit $((srun_code ? srun_code : 1))
    fi
    if [ "$code" = 75 ] && [ "$(field step)" = "$before" ]; then
        echo "job: no step further than last time: a longer --time is needed" >&2
        exit 1
    fi
    if [ "$code" = 75 ]; then requeue; fi
    exit "$code"
}

job "$@"
