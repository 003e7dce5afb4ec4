# A run that could not speak for itself: what the launcher said of it, and nodes to avoid. Sourced by job.sh.
# shellcheck disable=SC2034 # variables that job.sh reads
# SPDX-License-Identifier: Apache-2.0

# Sets loss (of lost.awk; nothing: not known), loss_code (of exit), loss_text (in words, with rank and
# host as far as they are told) and loss_host (a node that had better not be used again).
find_loss() {
    local ranks how
    loss='' loss_code=0 loss_host='' ranks='' how=''
    IFS='|' read -r loss ranks loss_host how <<<"$(LC_ALL=C awk -f "$jobs_dir/lost.awk" "$scratch/said" 2>/dev/null)"
    if [ "$loss" = exit ]; then loss_code=$how; fi
    # A silent launcher: codes above 128 are signals; a heartbeat that nobody ended is a death, too.
    if [ -z "$loss" ] && [ "$launcher_code" -gt 128 ]; then
        loss=killed how="signal $((launcher_code - 128))"
        if [ "$launcher_code" -eq 138 ]; then loss=usr1; fi
    elif [ -z "$loss" ] && [ "$began" = 1 ] && [ -e "$run_dir/status.json" ]; then
        loss=killed how="status.json says RUNNING, but the run has ended"
    fi
    case $ranks in
    '') loss_text="a rank" ;;
    *[-,]*) loss_text="ranks $ranks" ;;
    *) loss_text="rank $ranks" ;;
    esac
    case $loss in
    node) loss_text="node ${loss_host:-(not named)} failed" ;;
    oom) loss_text="$loss_text${loss_host:+ on $loss_host} ran out of memory" ;;
    launch) loss_text="the launch${loss_host:+ on $loss_host} failed" ;;
    *) loss_text="$loss_text${loss_host:+ on $loss_host} was lost ($how)" ;;
    esac
    # A node is not to blame for memory that does not suffice, nor for a defect of the program.
    case $loss:$how in
    node:* | launch:* | killed:Killed* | killed:Bus* | killed:'signal 9' | killed:'signal 7') ;;
    *) loss_host='' ;;
    esac
    case $loss_host in *[!-A-Za-z0-9._]*) loss_host='' ;; esac
}

# Does what the launcher said outweigh the run's own verdict? A rank whose peer is gone may see an error of
# MPI, or wait, and say so before it is ended.
is_taken_by_loss() { # CODE
    case $1 in 1 | 6) ;; *) return 1 ;; esac
    find_loss
    case $loss:$(field message) in
    node:* | oom:* | killed:MPI_*) ;;
    *) return 1 ;;
    esac
}

# Are there nodes enough without these? Where sinfo does not answer: yes.
is_enough_without() { # NODES, with commas
    local nodes
    nodes=$(ask sinfo -h -N -p "${SLURM_JOB_PARTITION-}" -o '%N %T') || return 0
    nodes=$(awk -v without=",$1," '
        $2 !~ /down|drain|fail|maint|unk|[*]$/ && !index(without, "," $1 ",") && !seen[$1]++ { n++ }
        END { print n + 0 }' <<<"$nodes")
    [ "$nodes" -ge "${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}" ]
}

# Adds loss_host to excluded, or forgets it.
choose_excluded() {
    local all
    [ -n "$loss_host" ] || return
    case ,$excluded, in *",$loss_host,"*) return ;; esac
    all=${excluded:+$excluded,}$loss_host
    if is_enough_without "$all"; then
        excluded=$all
    else
        say "$loss_host cannot be excluded: too few nodes would be left"
        loss_host=''
    fi
}

# Of the job that is pending again; Slurm changes this of no running one. sbatch --exclude stays.
exclude_nodes() {
    local theirs
    [ -n "$loss_host" ] || return
    theirs=$(scontrol show job "$job_id" 2>/dev/null | sed -n 's/.*ExcNodeList=\([^ ]*\).*/\1/p' | head -n 1)
    case $theirs in '(null)') theirs='' ;; esac
    scontrol update JobId="$job_id" ExcNodeList="${theirs:+$theirs,}$excluded" >"$scratch/refusal" 2>&1 ||
        say "$loss_host is not excluded (scontrol: $(head -n 1 "$scratch/refusal"))"
}
