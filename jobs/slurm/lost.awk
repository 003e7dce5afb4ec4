# What launchers write to stderr about ranks that end: srun, hydra (MPICH, Intel MPI), Open MPI.
# Prints KIND|RANKS|HOST|HOW: KIND is node, oom, killed, launch, usr1 or exit (HOW is the code then);
# nothing when none of them said anything.
# SPDX-License-Identifier: Apache-2.0
function first(kind, ranks, host, how) {
    if (!(kind in seen)) {
        seen[kind] = ranks "|" host "|" how
        place[kind] = NR
    }
}
function after(text, mark) { return substr(text, index(text, mark) + length(mark)) }
function word(text) { sub(/^[ \t]+/, "", text); sub(/[ \t:,.*].*/, "", text); return text }
function by_code(code, ranks, host) {
    if (code == 138) first("usr1", ranks, host, "signal 10")
    else if (code > 128) first("killed", ranks, host, "signal " code - 128)
    else if (code > 0) first("exit", ranks, host, code)
}
{ sub(/^[0-9]+: /, ""); sub(/\r$/, "") } # srun --label

/Node failure on / { first("node", "", word(after($0, "Node failure on ")), "node failure") }
/DUE TO NODE FAILURE/ { first("node", "", "", "node failure") }
/has lost communication with a remote daemon/ { lost_daemon = NR }
lost_daemon && / on node / { first("node", "", word(after($0, " on node ")), "node failure") }

/^srun: error: .*[Ll]aunch .*failed/ {
    host = /failed on node / ? word(after($0, "failed on node ")) : ""
    first("launch", "", host, "launch failed")
}
/^srun: error: Unable to (create step|confirm allocation|contact)/ &&
/[Tt]imed out|contact|ommunication|onnection|temporar/ { first("launch", "", "", "launch failed") }

/^(slurmstepd|srun).*(oom[-_ ]kill|OUT_OF_MEMORY|out-of-memory)/ { first("oom", "", "", "out of memory") }

# srun: error: node2: task 3: Killed
/^srun: error: [^ ]+: tasks? [-0-9,]+: / {
    host = $3; sub(/:$/, "", host)
    ranks = $5; sub(/:$/, "", ranks)
    how = after($0, $4 " " $5 " ")
    if (how ~ /^Out Of Memory/) { delete seen["oom"]; first("oom", ranks, host, "out of memory") }
    else if (how ~ /^User defined signal 1/) first("usr1", ranks, host, how)
    else if (how ~ /^Exited with exit code/) by_code(after(how, "exit code ") + 0, ranks, host)
    else if (how !~ /^Terminated/) first("killed", ranks, host, how)
}

# =   PID 13632 RUNNING AT node2 / =   EXIT CODE: 9 / ... EXIT STRING: Killed (signal 9)
/BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES/ { hydra = NR }
hydra && /RUNNING AT / && hydra_host == "" { hydra_host = word(after($0, "RUNNING AT ")) }
hydra && / RANK [0-9]+ PID / && hydra_rank == "" { hydra_rank = word(after($0, " RANK ")) }
hydra && /EXIT CODE: / && hydra_code == "" { hydra_code = after($0, "EXIT CODE: ") + 0 }
hydra && /KILLED BY SIGNAL: / { hydra_signal = after($0, "KILLED BY SIGNAL: ") + 0 }
hydra && /EXIT STRING: .*\(signal [0-9]+\)/ { hydra_signal = after($0, "(signal ") + 0 }

# mpirun noticed that process rank 3 with PID 9 on node node2 exited on signal 9 (Killed).
/noticed that process rank / {
    open_mpi = NR
    open_rank = word(after($0, "process rank "))
    open_host = / on node / ? word(after($0, " on node ")) : ""
}
open_mpi && open_signal == "" && /signal [0-9]+/ { open_signal = after($0, "signal ") + 0 }
/^ *Exit code: +[0-9]+/ { open_code = after($0, "code:") + 0 }

END {
    if (hydra) {
        delete seen["exit"] # srun's remark about hydra's proxy
        if (hydra_signal) by_code(128 + hydra_signal, hydra_rank, hydra_host)
        else by_code(hydra_code, hydra_rank, hydra_host)
    }
    if (open_mpi) by_code(128 + open_signal, open_rank, open_host)
    else if (open_code) by_code(open_code, "", "")
    n = split("node oom launch usr1 killed exit", order, " ")
    # The first rank that ended took the others with it.
    if (("exit" in seen) && ("killed" in seen) && place["exit"] < place["killed"]) delete seen["killed"]
    for (i = 1; i <= n; i++)
        if (order[i] in seen) {
            print order[i] "|" seen[order[i]]
            exit
        }
}
