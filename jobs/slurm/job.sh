# Sourced by the batch scripts of this folder, which say what to ask Slurm for; this says what to do
# with it: run `penta train CONF [section.key=value ...]` and then decide, by status.json and by what
# the launcher said, whether the job goes back into the queue. jobs/README.md has the table.
# Variables:
#   PENTA     the program; default: penta of build/ or of PATH
#   RUNS      folder of run directories; default: runs. A run.dir of the arguments, of PENTA_RUN_DIR
#             or of CONF is taken as it is; else it is RUNS/JOBNAME, in an array RUNS/JOBNAME_TASK
#   LAUNCH    srun (default), or the mpiexec of the site's MPI; LAUNCH_OPTIONS: words for either
#   PAUSE     seconds before Slurm is asked again, when it does not answer; default 5. Three times as long
#             after Slurm's signal the run is signalled again, if it is still at work
#   BACKOFF   seconds before the first retry of a lost run, twice as many before the second; default 20
#   LEAD      seconds between Slurm's signal and the end of the job; default: that of the script
# bash 4.2 is enough.
# shellcheck disable=SC2034 # variables that ask.sh and lost.sh read
# SPDX-License-Identifier: Apache-2.0
set -u

# Slurm signals the batch shell alone (--signal=B:USR1@...), at any moment: nothing below may end by
# it. TERM comes when Slurm ends the job: then it must not come back. CONT is not trapped, as bash
# may lose one of two signals that come at once.
pid='' usr1=${usr1-} term='' repeater=''
on_signal() { # USR1 or TERM: the run is asked to save and stop
    [ -n "$pid" ] || return
    kill -USR1 "$pid" 2>/dev/null
    if [ -z "$repeater" ]; then repeat_signal & repeater=$!; fi
}
# A launcher that is just starting its ranks may lose a signal.
repeat_signal() {
    local every=$((3 * ${PAUSE:-5})) last=$SECONDS
    trap - USR1 TERM
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.5
        if [ $((SECONDS - last)) -ge $every ]; then last=$SECONDS; kill -USR1 "$pid" 2>/dev/null; fi
    done
}
trap 'usr1=${usr1:-$SECONDS}; on_signal' USR1
trap 'term=1; on_signal' TERM

jobs_dir=${BASH_SOURCE[0]%/*}
. "$jobs_dir/ask.sh"
. "$jobs_dir/lost.sh"

say() { echo "job: $*"; }

# ---- Before the run ----

find_penta() {
    local place
    penta=${PENTA-}
    for place in build "${PENTA_HOME:-.}/build" "${SLURM_SUBMIT_DIR:-.}/build"; do
        if [ -z "$penta" ] && [ -x "$place/penta" ]; then penta=$(cd "$place" && pwd)/penta; fi
    done
    if [ -z "$penta" ]; then penta=$(command -v penta); fi
    if ! command -v "$penta" >/dev/null; then
        say "no program ${penta:-penta}: set PENTA to it" >&2
        exit 2
    fi
}

# Sets run_dir, and run_dir_argument where penta does not know it by itself.
find_run_dir() { # ARGUMENT...
    local name=${SLURM_JOB_NAME:-penta} status word
    run_dir_argument=''
    run_dir=$(option run.dir "$@")
    status=$?
    if [ $status -eq 2 ]; then
        say "cannot read run.dir in $1: give run.dir=DIR as an argument" >&2
        exit 2
    fi
    if [ $status -eq 1 ]; then
        name=${name//\//_}
        case $name in . | ..) name=_$name ;; esac
        run_dir=${RUNS:-runs}/$name${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
        run_dir_argument=run.dir=$run_dir
    elif [ -z "$run_dir" ]; then
        say "run.dir is empty: a run needs a directory" >&2
        exit 2
    fi
    # shellcheck disable=SC2016 # the words themselves
    for word in '$HOME' '${HOME}'; do # as penta reads it
        case $run_dir in "$word" | "$word"/*) run_dir=${HOME-}${run_dir#"$word"} ;; esac
    done
    if [ "${run_dir%%/*}" = '~' ]; then run_dir=${HOME-}${run_dir#'~'}; fi # as penta does
}

# A link of a chain goes on only where the one before has stopped early by itself.
look_at_link_before() {
    local before=${CHAIN_AFTER-} code
    is_number "${CHAIN-}" && [ "$CHAIN" -gt 1 ] || return
    code=$(field code)
    if [ -n "$before" ]; then
        if [ "$(noted job)" = "$before" ] && [ "$(noted verdict)" = end ]; then
            code=$(noted exit)
            say "the link before, job $before: $(noted why); the chain ends here"
            case $code in 75 | 143) exit 0 ;; *) exit "$code" ;; esac
        fi
        case $(state_of_ended "$before") in
        CANCELLED*)
            say "the link before, job $before, was cancelled: the chain ends here"
            exit 0
            ;;
        '') say "Slurm does not say how the link before, job $before, ended: going on" ;;
        esac
        if [ "$(noted job)" = "$before" ]; then return; fi # its verdict was to go on
    fi
    if is_number "$code" && [ "$code" -ne 75 ]; then
        say "the link before ended with code $code: nothing to go on with"
        exit "$code"
    fi
}

# What run.lock and status.json were: a run that another one keeps out leaves them alone.
remember_before() {
    cp "$run_dir/run.lock" "$scratch/lock" 2>/dev/null
    checkpoint_before=$(newest_checkpoint)
    if [ -e "$run_dir/status.json" ] && ! [ -e "$run_dir/run.lock" ]; then
        mv "$run_dir/status.json" "$run_dir/status.before.json"
    fi
    cp "$run_dir/status.json" "$scratch/status" 2>/dev/null
}

# ---- The run ----

# Leaves the launcher's code in launcher_code, what it and the ranks wrote to stderr in $scratch/said.
launch() { # COMMAND...
    local tee_pid code
    mkfifo "$scratch/pipe" || exit 1
    { trap '' TERM USR1; exec tee "$scratch/said" <"$scratch/pipe" >&2; } &
    tee_pid=$!
    "$@" 2>"$scratch/pipe" &
    pid=$!
    if [ -n "$usr1$term" ]; then on_signal; fi # it came since job() looked
    while :; do
        wait "$pid"
        launcher_code=$?
        kill -0 "$pid" 2>/dev/null || break # a signal only interrupted the wait
    done
    wait "$pid" # once more, lest the code be that of a signal to us
    code=$?
    if [ $code -ne 127 ]; then launcher_code=$code; fi
    pid=''
    if [ -n "$repeater" ]; then kill "$repeater" 2>/dev/null; fi
    await_end $tee_pid
}

# What the run gets beside its arguments: nothing that these, the environment or CONF say already.
start() { # ARGUMENT...
    local given
    threads=$(option run.threads "$@")
    given=$?
    if [ $given -eq 1 ]; then threads=${SLURM_CPUS_PER_TASK:-1}; set -- "$@" "run.threads=$threads"; fi
    if given=$(option run.time_limit "$@"); then
        say "run.time_limit=$given is taken as given"
    elif [ -n "$time_limit" ]; then
        set -- "$@" "run.time_limit=$time_limit"
    fi
    if [ -n "$run_dir_argument" ]; then set -- "$@" "$run_dir_argument"; fi
    is_number "$threads" || threads=${SLURM_CPUS_PER_TASK:-1}
    export OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
    forget_outer_job
    start_with "${LAUNCH:-srun}" "$penta" train "$@"
}

# Variables of the shell that called sbatch, if that ran under another launcher: what pins to CPUs there, and
# what tells MPI of ranks. And that of sbatch --export, by which srun would hand the ranks nothing of ours.
forget_outer_job() {
    local name
    unset SLURM_EXPORT_ENV SLURM_PTY_PORT
    for name in $(compgen -e); do
        case $name in
        SLURM_CPU_BIND* | SLURM_MEM_BIND*) case ${!name} in *mask_* | *map_* | 0x*) unset "$name" ;; esac ;;
        PMI_* | PMIX_* | OMPI_COMM_WORLD_*) unset "$name" ;;
        esac
    done
}

start_with() { # LAUNCHER COMMAND...
    local launcher=$1
    shift
    case ${launcher##*/} in
    srun*)
        if is_number "${SLURM_HET_SIZE-}"; then set -- "--het-group=0-$((SLURM_HET_SIZE - 1))" "$@"; fi
        if [ -n "${SLURM_CPUS_PER_TASK-}" ]; then set -- --cpus-per-task="$SLURM_CPUS_PER_TASK" "$@"; fi
        launch "$launcher" --kill-on-bad-exit=1 ${LAUNCH_OPTIONS-} "$@"
        ;;
    *)
        if is_number "$ranks"; then set -- -n "$ranks" "$@"; fi
        launch "$launcher" ${LAUNCH_OPTIONS-} "$@"
        ;;
    esac
}

# ---- After it ----

# Notes the verdict for the next start, and for the next link of a chain. Then ends with this code.
end() { # CODE WHY
    say "$2"
    if ! { [ "$1" = 2 ] && [ -e "$run_dir/run.lock" ]; }; then note end "$1" "$2"; fi # the directory is another run's
    exit "$1"
}

# Back into the queue, or on to the next link.
again() { # CODE WHY
    local wait=$((tries * ${BACKOFF:-20}))
    note again "$1" "$2"
    if [ -n "${CHAIN-}" ]; then
        say "$2: the next link of the chain goes on"
    elif [ -z "$job_id" ]; then
        say "$2; without SLURM_JOB_ID it cannot go back into the queue: submit it again"
    else
        say "$2: back into the queue$([ $wait -eq 0 ] || echo " in $wait s")"
        pause $wait
        go_back
    fi
    exit "$1"
}

go_back() {
    local state
    state=$(ask squeue -h -j "$job_id" -o %T) ||
        say "squeue does not answer ($(head -n 1 "$scratch/refusal")); trying to go back into the queue all the same"
    state=$(head -n 1 <<<"$state")
    if [ -n "$term" ] || [ "${state:-RUNNING}" != RUNNING ]; then
        say "not put back into the queue: Slurm is ending this job (${state:-signal TERM})"
    elif requeue; then
        exclude_nodes
        sleep 60 # Slurm ends this script
    else
        say "not put back into the queue (scontrol: $(head -n 1 "$scratch/refusal")): submit it again, and it goes on"
    fi
}

# Slurm's signal came when the job had hardly begun: the next start would fare no better.
is_signal_early() {
    [ -n "$usr1" ] || return 1
    if [ -z "$time_total" ]; then [ "$usr1" -lt 60 ]; else [ "$time_total" -le $((lead + 60)) ]; fi
}

too_short() {
    end 1 "Slurm's signal came $usr1 s after the start of the job${time_total:+, whose time is $time_total s}, and $1: a longer --time is needed, or a later signal (--signal=B:USR1@SECONDS, now $lead)"
}

after_stop() { # code 75: saved and stopped
    local reason step
    reason=$(field reason) step=$(field step)
    case $reason in
    stop_file | stop_step) end 75 "stopped after step $step as asked ($reason): not put back into the queue" ;;
    esac
    if [ "$reason" = signal ]; then usr1=${usr1:-$SECONDS}; fi # --signal without B: goes to the ranks
    if is_signal_early; then early=$((early_before + 1)); fi
    if [ "$checkpoint" != "$checkpoint_before" ]; then
        tries=0
        [ $early -le 3 ] || too_short "this $early times in a row"
        again 75 "stopped after step $step"
    fi
    if [ $early -gt 0 ] && [ "${time_total:-0}" -gt 0 ] && [ "$time_total" -le "$lead" ]; then
        too_short "no step was done"
    fi
    try_again 75 "stopped after step $step, without a new checkpoint"
}

try_again() { # CODE WHY: three times without a checkpoint between
    if [ "$tries" -ge 3 ]; then
        if [ -n "$usr1" ]; then too_short "$tries retries brought no new checkpoint"; fi
        end "$(($1 == 75 ? 1 : $1))" "$2; $tries retries brought no new checkpoint: giving up$([ "$1" != 75 ] || echo ", a longer --time is needed")"
    fi
    tries=$((tries + 1))
    again "$1" "$2; retry $tries of 3 from ${checkpoint:-the beginning}${loss_host:+, without $loss_host}"
}

# No verdict of the run itself: was it refused, did it never begin, or was a rank or node lost?
after_loss() {
    local code=$launcher_code
    find_loss
    case $code in 0 | 1) [ "$loss_code" = 0 ] || code=$loss_code ;; esac
    case $loss_code in 2 | 3 | 5) code=$loss_code ;; esac
    case $code in
    2 | 3 | 5) end "$code" "the run ended with code $code before it could say why in $run_dir/status.json" ;;
    esac
    if [ -n "$usr1" ] && { [ "$loss" = usr1 ] || [ $began = 0 ]; }; then
        early=$early_before
        if [ "${time_total:-0}" -gt 0 ] && [ "$time_total" -le "$lead" ]; then too_short "the run had not begun"; fi
        try_again 75 "Slurm's signal came before the run had begun"
    fi
    if [ -z "$loss" ] || { [ "$loss" = exit ] && [ $began = 0 ]; }; then
        [ "$code" -gt 0 ] || code=1
        end "$code" "no status.json of this start in $run_dir: ${LAUNCH:-srun} ended with code $launcher_code before the run could say why"
    fi
    [ "$code" -gt 0 ] || code=1
    if [ "$loss" = oom ] && [ "$cause_before" = oom ]; then
        end 3 "$loss_text, as at the start before, from the same checkpoint: it needs more memory on a host (--mem, fewer ranks on a node, a smaller train.micro_batch; penta plan says what a rank needs)"
    fi
    if [ "$tries" -lt 3 ]; then choose_excluded; fi
    try_again "$code" "$loss_text"
}

# TERM came. Cancelled by somebody, unless the launcher was told another reason.
after_term() { # CODE
    local code=${1:-143}
    if grep 'CANCELLED AT' "$scratch/said" | grep -qv 'DUE TO'; then
        end "$code" "the job was cancelled: it does not come back"
    fi
    note again "$code" "Slurm ended the job"
    say "Slurm ends this job (signal TERM): not put back into the queue"
    exit "$code"
}

# What earlier starts of this job, or links of this chain, have come to. Who submits it anew begins to count anew.
read_notes() {
    tries=0 early_before=0 cause_before='' excluded=''
    if [ "$(noted job)" != "${SLURM_JOB_ID-}" ]; then
        is_number "${CHAIN-}" && [ "$CHAIN" -gt 1 ] || return
    else
        excluded=$(noted exclude)
    fi
    early_before=$(noted early)
    is_number "$early_before" || early_before=0
    [ "$checkpoint" = "$(noted checkpoint)" ] || return
    cause_before=$(noted cause) tries=$(noted tries)
    is_number "$tries" || tries=0
}

decide() {
    local code
    code=$(field code)
    checkpoint=$(newest_checkpoint)
    loss='' loss_host='' early=0 began=1
    read_notes
    if ! has_begun; then began=0 code=''; fi
    if [ "$code" = 0 ]; then end 0 "finished"; fi
    if [ -n "$term" ]; then after_term "$code"; fi
    if [ "$code" = 75 ]; then after_stop; fi
    if is_number "$code" && ! is_taken_by_loss "$code"; then
        end "$code" "the run ended with code $code ($(field sentence)); only lost ranks and nodes are tried again"
    fi
    after_loss
}

job() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/penta-job.XXXXXX" 2>/dev/null || mktemp -d /tmp/penta-job.XXXXXX) || exit 1
    trap 'rm -rf "$scratch"' EXIT
    : >"$scratch/said"
    launcher_code=0 lead=$(signal_lead)
    find_job
    find_penta
    find_run_dir "$@"
    look_at_link_before
    mkdir -p "$run_dir" 2>/dev/null
    remember_before
    say "${job_id:-no SLURM_JOB_ID}, start $((restarts + 1)), ${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-?}} nodes, $ranks ranks, run directory $run_dir"
    find_time_limit
    if [ -z "$usr1$term" ]; then start "$@"; fi
    decide
}

job "$@"
