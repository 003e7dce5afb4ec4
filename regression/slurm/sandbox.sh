#!/usr/bin/env bash
# usage: regression/slurm/sandbox.sh start [NODES] | stop | env | kill-node K
# A real, throw-away Slurm cluster of several nodes on one machine: its own munged, one slurmctld and a
# slurmd for each node, all on loopback.
#   start       nodes node1, node2, ... (default 3) in partition batch
#   stop        ends every process of it, keeps the logs
#   env         prints what to export: eval "$(regression/slurm/sandbox.sh env)"
#   kill-node   power failure: slurmd and all tasks of the node get SIGKILL
# Exits 77 where Slurm is not installed. SANDBOX_DIR is where all its files are; without it
# ${TMPDIR:-/tmp}/penta-slurm.
#
# Nothing outside that directory is written, and only processes that it started are ended: daemons by the
# pid and start time noted in run/NAME.proc, tasks because they are in the mount namespace of their node (or,
# without namespaces, because its slurmd or a slurmstepd of it is their ancestor).
#
# Each slurmd runs in a UTS and a mount namespace of its own, so that `hostname` says node2 there and
# /etc/hosts knows all nodes: that makes programs believe in several nodes. It needs root or user namespaces;
# without either, all nodes have the host name of the machine.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
umask 022
PATH=$PATH:/usr/sbin:/sbin # an ordinary user's lacks the daemons
DIR=${SANDBOX_DIR:-${TMPDIR:-/tmp}/penta-slurm}

die() { echo "sandbox: $*" >&2; exit 1; }
note() { echo "sandbox: $*" >&2; }

check_installed() {
    local command missing=''
    for command in slurmctld slurmd srun munged; do
        command -v $command >/dev/null || missing="$missing $command"
    done
    [ -z "$missing" ] || { echo "sandbox: not installed:$missing" >&2; exit 77; }
}

# ---- Processes ----
# run/NAME.proc holds "PID START": the start time (field 22 of /proc/PID/stat) tells a process from a later
# one with the same number.

start_time() { # PID -> start time in clock ticks, fails when there is none
    local s
    { s=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    s=${s##*) } # the command name may hold anything
    set -- $s
    [ "$1" != Z ] || return 1 # a zombie counts as gone
    printf '%s\n' "${20}"
}

remember() { # NAME PID
    printf '%s %s\n' "$2" "$(start_time "$2")" >"$DIR/run/$1.proc"
}

pid_of() { # NAME -> its pid, fails when it is not running (any more)
    local pid start
    { read -r pid start <"$DIR/run/$1.proc"; } 2>/dev/null || return 1
    [ "$(start_time "$pid")" = "$start" ] 2>/dev/null || return 1
    printf '%s\n' "$pid"
}

# Runs a daemon in a new session, without the descriptors we inherited (a caller that reads one to its end
# would wait for the daemon), and notes its pid.
launch() { # NAME COMMAND...
    local name=$1; shift
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            [ "$fd" -le 2 ] || eval "exec $fd>&-"
        done
        exec setsid -- "$@"
    ) </dev/null >>"$DIR/log/$name.out" 2>&1 &
    local pid=$!
    disown "$pid" 2>/dev/null || true
    remember "$name" "$pid" || die "$name ended at once, see $DIR/log/$name.out"
}

# Ends one daemon: SIGTERM, and SIGKILL for it and its children after 5 s.
end_daemon() { # NAME
    local pid kids i
    if pid=$(pid_of "$1"); then
        kids=$(ps -o pid= --ppid "$pid" || true)
        kill "$pid" 2>/dev/null || true
        for ((i = 0; i < 50; i++)); do
            pid_of "$1" >/dev/null || break
            sleep 0.1
        done
        if pid_of "$1" >/dev/null; then
            kill -KILL "$pid" $kids 2>/dev/null || true
        fi
    fi
    rm -f "$DIR/run/$1.proc"
}

# Polls a condition; fails early when the daemon it depends on is gone.
await() { # SECONDS DAEMON COMMAND...
    local until=$((SECONDS + $1 * ${PENTA_TEST_TIMEOUT_SCALE-1})) daemon=$2; shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] && pid_of "$daemon" >/dev/null || return 1
        sleep 0.1
    done
}

# ---- Nodes ----

# Sets namespaces: options of unshare, nothing for none. Tries just what a node needs.
pick_namespaces() {
    local try="hostname node0 && mount --bind '$DIR/etc/hosts' /etc/hosts"
    for namespaces in '--uts --mount' '--user --map-current-user --keep-caps --uts --mount'; do
        unshare $namespaces bash -c "$try" 2>/dev/null && return 0
    done
    namespaces=''
    note "no namespaces here: all nodes have the host name of this machine"
}

start_slurmd() { # K
    local node=node$1
    if [ -z "$namespaces" ]; then
        launch "$node" slurmd -D -N "$node" -f "$DIR/etc/slurm.conf"
        return
    fi
    # shellcheck disable=SC2016 # of the inner bash; unshare, bash and slurmd are one process
    launch "$node" unshare $namespaces bash -c 'mount --bind "$1" /etc/hosts && hostname "$2" && exec slurmd -D -N "$2" -f "$3"' \
        sandbox "$DIR/etc/hosts.$node" "$node" "$DIR/etc/slurm.conf"
}

# All live processes of node K, slurmd included.
node_pids() { # K
    local node=node$1 p
    if [ -n "$namespaces" ]; then # those that see its file as their /etc/hosts
        for p in /proc/[0-9]*; do
            [ ! "$p/root/etc/hosts" -ef "$DIR/etc/hosts.$node" ] || printf '%s\n' "${p#/proc/}"
        done
        return 0
    fi
    # The slurmd and slurmstepd that have its log open, and all their descendants.
    local roots="" fd
    for p in $(ps -C slurmd,slurmstepd -o pid=); do
        for fd in "/proc/$p/fd"/*; do
            [ ! "$fd" -ef "$DIR/log/$node.log" ] || { roots+=" $p"; break; }
        done
    done
    [ -n "$roots" ] || return 0
    ps -eo pid=,ppid= | awk -v roots="$roots" '
        BEGIN { n = split(roots, r, " "); for (i = 1; i <= n; i++) in_[r[i]] = 1 }
        { parent[$1] = $2 }
        END {
            for (p in parent)
                for (q = p; q > 1 && q != ""; q = parent[q])
                    if (q in in_) { print p; break }
        }'
}

# SIGKILL until nothing of the node is left: a task may fork meanwhile.
kill_node() { # K
    local i pids
    for ((i = 0; i < 50; i++)); do
        pids=$(node_pids "$1")
        [ -n "$pids" ] || break
        kill -KILL $pids 2>/dev/null || true
        sleep 0.1
    done
    rm -f "$DIR/run/node$1.proc"
    [ -z "$pids" ] || die "node$1: still alive after SIGKILL: $pids"
}

# ---- Configuration ----

port_free() { # PORT
    ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

block_free() { # FIRST COUNT
    local p
    for ((p = $1; p < $1 + $2; p++)); do port_free "$p" || return 1; done
}

# Sets PORT: slurmctld there, node K on PORT + K; on the one after them nothing listens.
pick_ports() { # NODES
    local i
    for ((i = 0; i < 30; i++)); do
        PORT=$((26800 + 100 * i))
        block_free "$PORT" $(($1 + 2)) && return 0
    done
    die "no free block of ports found"
}

# slurmd binds to what its host name resolves to (NoInAddrAny): with namespaces that is ours to say.
pick_address() {
    address=127.0.0.1
    if [ -z "$namespaces" ]; then
        address=$(getent ahostsv4 "$(hostname)" | awk 'NR == 1 { print $1 }') || true
        case $address in
        127.*) ;;
        *) die "without namespaces the host name must resolve to 127.x.y.z, not '$address'" ;;
        esac
    fi
}

# More CPUs and memory are claimed than the machine has; no cgroups, no binding. Cycles and timeouts are
# short: a requeued job starts again after cred_expire + 1 seconds, a dead node is DOWN after 14 to 18.
# Partition cloud has nodes that do not exist, for sbatch --test-only.
write_config() { # NODES
    local user
    user=$(id -un)
    cat >"$DIR/etc/slurm.conf" <<EOF
ClusterName=sandbox
SlurmctldHost=localhost($address)
SlurmctldPort=$PORT
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$DIR/munge/socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmctldPidFile=$DIR/run/slurmctld.pid
SlurmdPidFile=$DIR/run/%n.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmi2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
BatchStartTimeout=5
KillWait=5
InactiveLimit=0
MinJobAge=3600
JobRequeue=1
EnforcePartLimits=ALL
ReturnToService=1
AccountingStorageType=accounting_storage/none
NodeName=node[1-$1] NodeAddr=$address Port=[$((PORT + 1))-$((PORT + $1))] CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=batch Nodes=node[1-$1] Default=YES MaxTime=INFINITE State=UP
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=86400
SuspendTimeout=5
ResumeTimeout=3600
SuspendExcNodes=node[1-$1]
PrivateData=cloud
NodeName=far[001-256] NodeAddr=127.0.0.1 Port=$((PORT + $1 + 1)) CPUs=96 RealMemory=500000 State=CLOUD
PartitionName=cloud Nodes=far[001-256] MaxTime=7-00:00:00 State=UP
EOF
}

# ---- Commands ----

# One command at a time.
lock() {
    exec 9>"$DIR/lock"
    flock -w 60 9 || die "another one is at work in $DIR"
}

load() { # what start noted
    [ -s "$DIR/run/nodes" ] || { note "not running ($DIR)"; exit 3; }
    DIR=$(cd "$DIR" && pwd -P)
    nodes=$(cat "$DIR/run/nodes")
    namespaces=$(cat "$DIR/run/namespaces")
    export SLURM_CONF=$DIR/etc/slurm.conf
}

munge_works() { munge -S "$DIR/munge/socket" -n | unmunge -S "$DIR/munge/socket"; }
controller_is_up() { scontrol ping | grep -q 'is UP'; }
nodes_are_idle() { [ "$(sinfo -h -N -p batch -t idle -o %N | wc -l)" -eq "$nodes" ]; }

prepare_folders() {
    local k
    rm -rf "${DIR:?}"/{etc,run,log,spool,state,munge}
    mkdir -p "$DIR"/{etc,run,log,spool,state,munge}
    {
        echo "127.0.0.1 localhost $(hostname)"
        for ((k = 1; k <= nodes; k++)); do echo "127.0.0.1 node$k"; done
        cat /etc/hosts
    } >"$DIR/etc/hosts"
    # A copy for each node: a mount of it is what marks the node's processes.
    for ((k = 1; k <= nodes; k++)); do cp "$DIR/etc/hosts" "$DIR/etc/hosts.node$k"; done
    dd if=/dev/urandom of="$DIR/munge/key" bs=128 count=1 status=none
    chmod 600 "$DIR/munge/key"
}

start() { # [NODES]
    local k
    nodes=${1:-3}
    check_installed
    mkdir -p "$DIR"
    DIR=$(cd "$DIR" && pwd -P)
    [ ${#DIR} -le 70 ] || die "Unix sockets need a shorter path than $DIR: set SANDBOX_DIR"
    lock
    [ ! -s "$DIR/run/nodes" ] || { load; stop_all; }
    prepare_folders
    pick_namespaces
    pick_ports "$nodes"
    pick_address
    write_config "$nodes"
    echo "$nodes" >"$DIR/run/nodes"
    echo "$namespaces" >"$DIR/run/namespaces"
    export SLURM_CONF=$DIR/etc/slurm.conf
    trap 'note "the start failed, logs are in $DIR/log"; stop_all' EXIT
    # --force: also where a folder above is open to others, which munged takes for insecure in production.
    launch munged munged --foreground --force --num-threads=2 --socket="$DIR/munge/socket" \
        --key-file="$DIR/munge/key" --pid-file="$DIR/munge/pid" --seed-file="$DIR/munge/seed"
    await 20 munged munge_works || die "munged does not answer"
    launch slurmctld slurmctld -D -f "$SLURM_CONF"
    await 30 slurmctld controller_is_up || die "slurmctld does not answer"
    for ((k = 1; k <= nodes; k++)); do start_slurmd "$k"; done
    await 40 slurmctld nodes_are_idle || die "not all nodes became idle"
    trap - EXIT
}

stop_all() {
    local k
    end_daemon slurmctld
    for ((k = 1; k <= nodes; k++)); do kill_node "$k"; done
    end_daemon munged
    rm -f "$DIR/run/nodes"
}

print_environment() {
    printf 'export SLURM_CONF=%q SANDBOX_DIR=%q\n' "$SLURM_CONF" "$DIR"
    # MPICH's UCX would listen on every interface it finds. It takes all nodes for one machine and shares
    # memory between them; from one user namespace to another only this way is open.
    printf 'export UCX_NET_DEVICES=lo\n'
    case $namespaces in *--user*) printf 'export UCX_TLS=posix,self UCX_POSIX_USE_PROC_LINK=n\n' ;; esac
}

case ${1-} in
start) start "${2-}" ;;
stop) load; lock; stop_all ;;
env) load; print_environment ;;
kill-node) load; lock; kill_node "${2:?which node}" ;;
*) sed -n '2,10s/^# //p' "$0" >&2; exit 2 ;;
esac
