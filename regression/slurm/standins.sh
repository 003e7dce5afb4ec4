# TEST timeout=120
# The batch scripts with stand-ins for Slurm, the launchers and the program: what they decide, also after
# answers that Slurm gives seldom. A scene is what happens while the launcher runs. OLD_BASH=FILE runs the scripts
# with that bash: 4.2 and 4.3 have been tried.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

work=$PWD
home=$PENTA_SRCDIR
real=$PENTA
mkdir bin
PATH=$work/bin:$PATH
export PENTA=$work/bin/penta PENTA_HOME=$home SLURM_SUBMIT_DIR=$work PAUSE=0 BACKOFF=0 work
cat >bin/penta <<'S'
#!/bin/bash
exit 99
S
# The launcher: its own options away, the rest goes to the file command; then the scene.
cat >bin/srun <<'S'
#!/bin/bash
echo "${0##*/} $*" >>"$work/launches"
dir=$(sed -n 's/^run_dir=//p' "$work/scene")
for word in "$@"; do case $word in run.dir=*) dir=${word#run.dir=} ;; esac done
status() { # CODE REASON STEP
    mkdir -p "$dir/checkpoints"
    printf '{\n  "code": %s,\n  "name": "X",\n  "sentence": "so it ended",\n  "message": "%s",\n  "reason": %s,\n  "rank": 0,\n  "step": %s\n}\n' \
        "$1" "${message-a \\\"b\\\"}" "${2:-null}" "${3:-0}" >"$dir/status.json"
}
checkpoint() { mkdir -p "$dir/checkpoints"; : >"$dir/checkpoints/step_$(printf %08d "$1").h5"; }
usr1() { kill -USR1 $PPID; }
trap '' USR1 # handed on by the script
. "$work/scene"
S
cp bin/srun bin/mpiexec
cat >bin/scontrol <<'S'
#!/bin/bash
[ "$1" = show ] || echo "scontrol $*" >>"$work/calls"
[ ! -e "$work/refuse" ] || { . "$work/refuse"; }
[ "$1" != show ] || cat "$work/show" 2>/dev/null
S
cat >bin/squeue <<'S'
#!/bin/bash
while [ $# -gt 0 ]; do
    case $1 in -o) what=$2 ;; -j) echo "$2" >>"$work/asked" ;; esac
    shift
done
[ ! -e "$work/busy" ] || . "$work/busy"
case $what in %L) echo "${LEFT-59:00}" ;; %T) echo RUNNING ;; esac
S
cat >bin/sinfo <<'S'
#!/bin/bash
printf '%s\n' ${NODES-node1:idle node2:mixed node3:idle} | tr : ' '
S
cat >bin/sacct <<'S'
#!/bin/bash
cat "$work/account" 2>/dev/null
S
cat >bin/sleep <<'S'
#!/bin/bash
exec /bin/sleep 0.01
S
chmod +x bin/*
slurm_variables="SLURM_JOB_ID=41 SLURM_JOB_NAME=a SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=4 SLURM_CPUS_PER_TASK=1 SLURM_JOB_PARTITION=p"

fresh() { cd "$work" && rm -rf runs calls asked launches scene refuse busy show account my.ini r out err; }
# What the launcher does next.
scene() { cat >"$work/scene"; }
# A start of the job; sets status. Leading NAME=VALUE are its environment.
begin() { # [NAME=VALUE]... [SCRIPT] ARGUMENT...
    local variables=() script=one-node.sbatch
    while [[ ${1-} =~ ^[A-Z_0-9]+= ]]; do variables+=("$1"); shift; done
    case ${1-} in *.sbatch) script=$1; shift ;; esac
    rm -f "$work/calls" "$work/launches" "$work/asked"
    # shellcheck disable=SC2086 # words
    timeout 30 env $slurm_variables ${variables[@]+"${variables[@]}"} "${OLD_BASH:-bash}" "$home/jobs/slurm/$script" "$@" >out 2>err
    status=$?
}
said() { cat out err 2>/dev/null | grep -q -- "$1" && return; sed 's/^/# /' out err; return 1; }
called() { grep -qxF -- "scontrol $1" calls 2>/dev/null && return; sed 's/^/# /' out err calls 2>/dev/null; return 1; }
not_called() { # no requeue
    [ ! -e calls ] || ! grep -q requeue calls
}
launched() { grep -qF -- "$1" launches 2>/dev/null && return; sed 's/^/# /' launches out err 2>/dev/null; return 1; }
not_launched() { [ ! -e launches ]; }
requeues() { tap_ok "$1: back into the queue" called "requeue ${2-41}"; }
stays() { # NAME CODE WORDS
    tap_ok "$1: code $2" test $status -eq "$2"
    tap_ok "$1: not back into the queue" not_called
    tap_ok "$1: says '$3'" said "$3"
}

# ---- Ends ----
fresh
scene <<<'status 0; checkpoint 9'
begin
stays finished 0 "^job: finished"
for code in 1 2 3 4 5 6 130; do
    fresh
    scene <<<"status $code; exit 143"
    begin
    stays "code $code" $code "code $code (so it ended)"
done
for reason in stop_file stop_step; do
    fresh
    scene <<<"checkpoint 5; status 75 '\"$reason\"' 5; exit 75"
    begin
    stays $reason 75 "as asked ($reason)"
done

# ---- Stops that go on ----
for reason in signal time_limit; do
    fresh
    scene <<<"checkpoint 5; status 75 '\"$reason\"' 5; exit 0"
    begin
    requeues $reason
    tap_ok "$reason: code 75" test $status -eq 75
done
fresh
scene <<<'checkpoint 5; status 75 "" 5; exit 75'
begin
requeues "no reason told"

# ---- Slurm does not answer, or refuses ----
stop='usr1; checkpoint 5; status 75 "\"signal\"" 5; exit 75'
fresh
scene <<<"$stop"
echo '[ -e "$work/once" ] || { touch "$work/once"; echo "Socket timed out" >&2; exit 1; }' >busy
begin
rm -f once
requeues "squeue fails once"
tap_ok "squeue fails once: there is a time limit" launched "run.time_limit=00:58:00"
fresh
scene <<<"$stop"
echo 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1' >busy
begin
requeues "squeue never answers"
tap_ok "squeue never answers: says so" said "squeue does not answer (slurm_load_jobs error: Unable"
fresh
scene <<<"$stop"
echo 'echo "Requested operation is presently disabled for job 41"; exit 1' >refuse
begin
tap_ok "scontrol refuses: code 75" test $status -eq 75
tap_ok "scontrol refuses: says so" said "not put back into the queue (scontrol: Requested operation is"
tap_ok "scontrol refuses: asked once" test "$(grep -c requeue calls)" -eq 1
fresh
scene <<<"$stop"
echo '[ -e "$work/once" ] || { touch "$work/once"; echo "Socket timed out on send/recv operation"; exit 1; }' >refuse
begin
rm -f once
tap_ok "scontrol does not answer at first: asked again" test "$(grep -c requeue calls)" -eq 2
fresh
scene <<<"$stop"
echo 'case $what in %T) echo COMPLETING; exit ;; esac' >busy
begin
stays "Slurm ends the job" 75 "Slurm is ending this job (COMPLETING)"

# ---- Variables that are not set ----
fresh
scene <<<'status 0'
begin SLURM_NTASKS= SLURM_JOB_NUM_NODES= SLURM_CPUS_PER_TASK= SLURM_JOB_PARTITION= SLURM_RESTART_COUNT=x
stays "few variables" 0 "? nodes, ? ranks"
fresh
scene <<<"$stop"
begin SLURM_JOB_ID= SLURM_JOB_NAME=
stays "no job id" 75 "without SLURM_JOB_ID it cannot go back"
tap_ok "no job name: a directory all the same" test -e runs/penta/status.json
fresh
scene <<<"$stop"
begin SLURM_EXPORT_ENV=NONE 'SLURM_JOB_NAME=a/../b c' 'RUNS=my runs'
requeues "a name with / and blanks"
tap_ok "a name with / and blanks: the directory" test -e "my runs/a_.._b c/status.json"
rm -rf "my runs"
fresh
tap_ok "no PENTA_HOME, no SLURM_SUBMIT_DIR: code 2" test "$(env -u SLURM_SUBMIT_DIR -u PENTA_HOME bash "$home/jobs/slurm/one-node.sbatch" >out 2>&1; echo $?)" = 2
tap_ok "... and says so" said "set PENTA_HOME"
fresh
scene <<<'status 0'
begin TMPDIR=/no/such/folder
stays "no TMPDIR" 0 "^job: finished"
begin run.dir=
stays "an empty run.dir" 2 "run.dir is empty"
begin PENTA=/no/such/penta
stays "no program" 2 "set PENTA to it"

fresh
scene <<<'env >environment; status 0'
begin SLURM_CPU_BIND=quiet,mask_cpu:0x1 SLURM_CPU_BIND_LIST=0x1 SLURM_CPU_BIND_TYPE=mask_cpu: PMI_SIZE=4 PMI_RANK=1 OMPI_COMM_WORLD_SIZE=9 \
    SLURM_MEM_BIND=quiet
tap_ok "nothing is left of the job that sbatch was called in" test "$(grep -cE '^(SLURM_CPU_BIND|PMI_|OMPI_COMM)' environment)" = 0
tap_ok "... but what was asked for" grep -q SLURM_MEM_BIND=quiet environment
rm -f environment

# ---- The time that is left ----
for case in 0:00=00:00:01 50=00:00:26 1:59=00:01:00 2:00=00:01:00 59:00=00:58:00 1:00:00=00:59:00 2-03:04:05=51:03:05 UNLIMITED= INVALID= NOT_SET= \
    'INVALID'$'\n''30:00'$'\n''20:00=00:19:00'; do
    fresh
    scene <<<'status 0'
    begin "LEFT=${case%=*}"
    name=${case%=*}
    name=${name//$'\n'/ }
    if [ -n "${case##*=}" ]; then
        tap_ok "%L of $name" launched "run.time_limit=${case##*=} "
    else
        tap_ok "%L of $name: no limit" test "$(grep -c time_limit launches)" = 0
    fi
done
fresh
scene <<<'status 0'
begin SLURM_JOB_END_TIME=$(($(date +%s) + 1000))
tap_ok "SLURM_JOB_END_TIME" grep -q 'run.time_limit=00:15:[34]' launches
begin SLURM_JOB_END_TIME=1000000000
tap_ok "a SLURM_JOB_END_TIME of long ago" launched "run.time_limit=00:58:00"

# ---- The run directory and other options of the user ----
for text in 'dir = r' 'dir=r ; why' 'dir : "r"' $'lr = 3\n\n  dir = r' $'dir = r\n[train]\ndir = q'; do
    fresh
    printf '# c\n[train]\ndir = other\n[run]\n%s\n' "$text" >my.ini
    printf 'run_dir=r\n%s\n' "$stop" >scene
    begin my.ini
    tap_ok "run.dir of the file (${text//$'\n'/ | })" said "run directory r\$"
    tap_ok "... is not overridden" test "$(grep -c run.dir= launches)" = 0
    requeues "... and read afterwards"
done
fresh
printf '[run]\ndir = "a\\"b"\n' >my.ini
scene <<<'status 0'
begin my.ini
stays "a run.dir that is hard to read" 2 "give run.dir=DIR"
begin my.ini run.dir=r
stays "... and given as an argument" 0 "run directory r\$"
scene <<<$'run_dir=r\nstatus 0'
begin PENTA_RUN_DIR=r my.ini
stays "... and in the environment" 0 "run directory r\$"
fresh
printf '[run]\nthreads = 3\ntime_limit = 10:00\n' >my.ini
scene <<<'echo "threads $OMP_NUM_THREADS"; status 0'
begin my.ini
tap_ok "run.threads and run.time_limit of the file stay" test "$(grep -cE 'run.threads|run.time_limit' launches)" = 0
tap_ok "... and the threads" said "^threads 3"
begin run.threads=2
tap_ok "run.threads as an argument stays" test "$(grep -o run.threads=. launches | tr '\n' ' ')" = "run.threads=2 "

# ---- Signals ----
fresh
scene <<<'echo stopped >stopped; trap "checkpoint 5; status 75 \"\\\"signal\\\"\" 5; exit 75" USR1; usr1; for i in 1 2 3 4 5 6 7 8 9; do /bin/sleep 0.2; done; exit 9'
begin
requeues "USR1 while the run is at work"
fresh
scene <<<'heard=0; trap "heard=\$((heard + 1))" USR1; usr1; for i in $(seq 100); do [ $heard -lt 3 ] || break; /bin/sleep 0.05; done; checkpoint 5; status 75 "\"signal\"" $heard; exit 75'
begin
tap_ok "USR1 that the launcher loses is sent again" said "stopped after step [3-9]"
fresh
scene <<<'exit 99'
cat >busy <<'S'
parent() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status"; }
shell=$PPID # the script itself, above its subshells
while tr '\0' ' ' <"/proc/$(parent $shell)/cmdline" | grep -q '^[^ ]*bash .*\.sbatch'; do shell=$(parent $shell); done
kill -USR1 $shell
S
begin
requeues "USR1 before the launch"
tap_ok "USR1 before the launch: no launch" not_launched
fresh
scene <<<'usr1; echo "srun: error: node1: tasks 0-3: User defined signal 1" >&2; exit 138'
begin
requeues "USR1 before the ranks can hear it"
fresh
scene <<<'status 0; (/bin/sleep 0.05; usr1) & exit 0'
begin
stays "USR1 at the end" 0 "^job: finished"
fresh
scene <<<'kill -TERM $PPID; echo "slurmstepd-node1: error: *** STEP 41.0 ON node1 CANCELLED AT 2031-01-01T00:00:00 ***" >&2; checkpoint 5; status 75 "\"signal\"" 5; exit 143'
begin
stays "cancelled" 75 "was cancelled"
fresh
scene <<<'kill -TERM $PPID; echo "slurmstepd: error: *** STEP 41.0 ON n CANCELLED AT 2031-01-01T00:00:00 DUE TO TIME LIMIT ***" >&2; checkpoint 5; status 75 "\"signal\"" 5; exit 143'
begin
stays "ended by Slurm" 75 "Slurm ends this job"

# ---- --time shorter than the signal's lead ----
fresh
scene <<<'usr1; status 75 "\"signal\"" 0; exit 75'
begin LEFT=0:50
stays "no step before the signal" 1 "a longer --time is needed"
fresh
turn=0
while [ $turn -lt 9 ]; do
    turn=$((turn + 1))
    scene <<<"usr1; checkpoint $turn; status 75 '\"signal\"' $turn; exit 75"
    begin LEFT=1:40
    not_called && break
done
tap_ok "a step before each signal: ends ($turn starts)" test $turn -eq 4
stays "a step before each signal" 1 "a longer --time is needed"
fresh
turn=0
while [ $turn -lt 9 ]; do
    turn=$((turn + 1))
    scene <<<"checkpoint $turn; status 75 '\"signal\"' $turn; exit 75"
    begin LEFT=1:40
    not_called && break
done
tap_ok "... and the signal goes to the ranks alone: ends ($turn starts)" test $turn -eq 4
fresh
for turn in 1 2 3 4 5 6; do
    scene <<<"usr1; checkpoint $turn; status 75 '\"signal\"' $turn; exit 75"
    begin
done
requeues "signalled by hand again and again"
fresh
turn=0
while [ $turn -lt 9 ]; do
    turn=$((turn + 1))
    scene <<<'status 75 "\"time_limit\"" 0; exit 75'
    begin
    not_called && break
done
tap_ok "no new checkpoint: ends ($turn starts)" test $turn -eq 4
stays "no new checkpoint" 1 "a longer --time is needed"

# ---- Ranks and nodes that are lost ----
lost='status null; echo "srun: error: node2: task 3: Killed" >&2; echo "srun: error: node1: tasks 0-1: Terminated" >&2; exit 143'
fresh
scene <<<"checkpoint 1; $lost"
begin
requeues "a rank is killed"
tap_ok "a rank is killed: names it" said "rank 3 on node2 was lost (Killed); retry 1 of 3 from step_00000001.h5, without node2"
tap_ok "a rank is killed: its node is excluded" called "update JobId=41 ExcNodeList=node2"
scene <<<"$lost"
begin
requeues "killed again"
begin
requeues "killed a third time"
scene <<<"checkpoint 2; $lost"
begin
requeues "killed after a new checkpoint"
tap_ok "killed after a new checkpoint: counts anew" said "retry 1 of 3 from step_00000002.h5"
scene <<<"$lost"
begin; begin
requeues "killed three times since"
begin
stays "killed four times since" 143 "3 retries brought no new checkpoint: giving up"
fresh
scene <<<"$lost"
begin NODES="node1:idle node2:mixed node3:down*"
requeues "too few nodes to exclude one"
tap_ok "too few nodes to exclude one: says so" said "node2 cannot be excluded"
tap_ok "too few nodes to exclude one: does not" test "$(grep -c update calls)" = 0
fresh
echo '   ReqNodeList=(null) ExcNodeList=node9' >show
scene <<<"$lost"
begin
tap_ok "sbatch --exclude stays" called "update JobId=41 ExcNodeList=node9,node2"
fresh
scene <<<'status null; echo "slurmstepd: error: Detected 1 oom_kill event in StepId=41.0" >&2; echo "srun: error: node2: task 3: Out Of Memory" >&2; exit 137'
begin
requeues "out of memory"
tap_ok "out of memory: is no fault of the node" test "$(grep -c update calls)" = 0
begin
stays "out of memory again" 3 "rank 3 on node2 ran out of memory, as at the start before"
fresh
scene <<<'message="MPI_Test failed: connection reset"; status 1; echo "srun: error: node2: task 3: Killed" >&2; exit 1'
begin
requeues "another rank noticed first"
fresh
scene <<<'status 1; echo "srun: error: node2: task 3: Killed" >&2; exit 1'
begin
stays "a defect that ended all ranks" 1 "code 1 (so it ended)"
fresh
for turn in 1 2 3 4; do
    scene <<<"$lost"
    begin
done
stays "killed four times" 143 "giving up"
begin SLURM_JOB_ID=42
requeues "killed, but submitted anew" 42
fresh
scene <<<'status 1; echo "srun: error: Node failure on node2" >&2; exit 1'
begin
requeues "a node fails"
tap_ok "a node fails: it is excluded" called "update JobId=41 ExcNodeList=node2"
for how in 'exit 137' 'status null; exit 143' 'status null; exit 0'; do
    fresh
    scene <<<"$how"
    begin
    requeues "without a word ($how)"
done
fresh
scene <<<'echo "srun: error: node1: task 0: Exited with exit code 2" >&2; echo "srun: error: node1: tasks 1-3: Killed" >&2; exit 143'
begin
stays "a configuration that is refused" 2 "code 2 before it could say why"
fresh
scene <<<'exit 7'
begin
stays "no status.json" 7 "srun ended with code 7"
fresh
scene <<<'exit 0'
begin
stays "no status.json, code 0" 1 "srun ended with code 0"
fresh
scene <<<'echo "srun: error: Task launch for StepId=41.0 failed on node node3: Communication connection failure" >&2; exit 1'
begin
requeues "the launch fails"

# ---- Arrays ----
fresh
scene <<<"$stop"
begin SLURM_ARRAY_JOB_ID=40 SLURM_ARRAY_TASK_ID=3
requeues "a task of an array" 40_3
tap_ok "a task of an array: a directory of its own" test -e runs/a_3/status.json
tap_ok "a task of an array: asks for itself" test "$(sort -u asked)" = 40_3
fresh
mkdir -p r
printf '{\n  "code": null\n}\n' >r/status.json
echo "node1 17" >r/run.lock
scene <<<'touch r/status.json; echo "  ..." >>r/status.json; echo "srun: error: node1: task 0: Exited with exit code 2" >&2; exit 2'
begin SLURM_ARRAY_JOB_ID=40 SLURM_ARRAY_TASK_ID=4 run.dir=r
stays "a directory that another run has" 2 "code 2"
tap_ok "... is left alone" test -e r/status.json -a ! -e r/job.state

# ---- Chains ----
fresh
scene <<<"$stop"
begin CHAIN=1 CHAIN_AFTER=
stays "a link stops" 75 "the next link of the chain goes on"
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
tap_ok "the next link runs" launched train
fresh
mkdir -p runs/a
printf '{\n  "code": 75\n}\n' >runs/a/status.json
echo "JobId=41 JobState=CANCELLED Reason=None" >show
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
stays "the link before was cancelled" 0 "was cancelled: the chain ends here"
tap_ok "... no launch" not_launched
rm show
echo "CANCELLED by 1000" >account
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
stays "... as the accounts say" 0 "was cancelled: the chain ends here"
fresh
scene <<<'checkpoint 5; status 75 "\"stop_step\"" 5; exit 75'
begin CHAIN=1 CHAIN_AFTER=
scene <<<'status 0'
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
stays "the link before stopped as asked" 0 "the chain ends here"
tap_ok "... no launch" not_launched
fresh
scene <<<'status 5'
begin CHAIN=1 CHAIN_AFTER=
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
stays "the link before failed" 5 "the chain ends here"
fresh
scene <<<"$lost"
begin CHAIN=1 CHAIN_AFTER=
scene <<<'status 0'
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
tap_ok "the link before lost a rank: the next runs" launched train
fresh
scene <<<'status 1; echo "srun: error: Node failure on node2" >&2; exit 1'
begin CHAIN=1 CHAIN_AFTER=
scene <<<'status 0'
begin CHAIN=2 CHAIN_AFTER=41 SLURM_JOB_ID=42
tap_ok "the link before lost a node: the next runs" launched train
cat >bin/sbatch <<'S'
#!/bin/bash
echo "$CHAIN $CHAIN_AFTER $*" >>"$work/calls"
[ "$CHAIN" != "${LAST-}" ] || exit 1
echo "warning of a plug-in"
echo "10$CHAIN;cluster"
S
chmod +x bin/sbatch
rm -f calls
tap_ok "chain.sh" "${OLD_BASH:-bash}" "$home/jobs/slurm/chain.sh" 3 --job-name=b x.sbatch my.ini run.dir=r
tap_ok "chain.sh: what it submits" diff calls - <<'S'
1  --parsable --no-requeue --kill-on-invalid-dep=yes --job-name=b x.sbatch my.ini run.dir=r
2 101 --parsable --no-requeue --kill-on-invalid-dep=yes --dependency=afternotok:101 --job-name=b x.sbatch my.ini run.dir=r
3 102 --parsable --no-requeue --kill-on-invalid-dep=yes --dependency=afternotok:102 --job-name=b x.sbatch my.ini run.dir=r
S
tap_fails "chain.sh: sbatch refuses the second" 1 env LAST=2 bash "$home/jobs/slurm/chain.sh" 3 --job-name=b x.sbatch my.ini
for word in --dependency=afterok:1 -d1 --array=1-3 --export=NONE; do
    rm -f calls
    tap_fails "chain.sh refuses $word" 2 bash "$home/jobs/slurm/chain.sh" 3 --job-name=b $word x.sbatch my.ini
    tap_ok "chain.sh with $word submits nothing" test ! -e calls
done

# ---- mpiexec ----
fresh
scene <<<"$stop"
begin mpiexec.sbatch
tap_ok "mpiexec.sbatch launches" launched "mpiexec -n 4 $PENTA train"
requeues "mpiexec.sbatch"
fresh
scene <<<'status null; printf "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 13632 RUNNING AT node2\n=   EXIT CODE: 9\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n" >&2; exit 9'
begin LAUNCH=$work/bin/mpiexec many-nodes.sbatch
requeues "hydra lost a rank"
tap_ok "hydra lost a rank: says where" said "a rank on node2 was lost (signal 9)"
fresh
scene <<<'status null; echo "mpirun noticed that process rank 2 with PID 0 on node node3 exited on signal 9 (Killed)." >&2; exit 137'
begin mpiexec.sbatch
tap_ok "Open MPI lost a rank: says which" said "rank 2 on node3 was lost (signal 9)"

# ---- A het job ----
fresh
scene <<<'status 0'
begin SLURM_HET_SIZE=2
tap_ok "a het job is launched on all its groups" launched "--het-group=0-1"

# ---- The wrong MPI type: the real program, each rank alone ----
export SLURM_STEP_NUM_TASKS=2
alone() { SLURM_PROCID=$1 "$real" train run.dir=r >"out$1" 2>"err$1"; }
for rank in 0 1; do
    tap_fails "alone, though srun started two: rank $rank ends with 2" 2 alone $rank
done
tap_ok "one message" test "$(cat err0 err1 | grep -c error:)" = 1
tap_ok "it says what to do" grep -q SLURM_MPI_TYPE err0
tap_ok "no run directory" test ! -e r
serial() { "$real" plan >out 2>err; }
tap_ok "what is not parallel is not refused" serial
tap_done
