# TEST timeout=90
# A run that loses its directory says what is not saved; one that is stopped before the loop, whether a next start
# can go on.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

seq -f 'number %g' 1 400 >text
begin() {
    timeout -k 2 60 "$PENTA" train data.path=text model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 model.kv_heads=2 \
        model.head_dim=16 train.sequence=16 train.global_batch=4 train.steps=100000000 train.decay_steps=100 run.dir=run \
        checkpoint.every=0 "$@" >out 2>err </dev/null &
    job=$!
}
end() { # STATUS
    wait $job
    status=$?
    [ $status -eq "$1" ] || echo "# status $status, wanted $1"
    [ $status -eq "$1" ]
}
wait_for() { # COMMAND...: for up to 20 s
    for _ in $(seq 400); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    return 1
}
one_error() { [ "$(grep -c ' error: ' err)" -eq 1 ] && grep ' error: ' err | grep -q -- "$1"; }
is_ours() { # has the run written status.json anew?
    grep -q '"code": null' run/status.json
}

# ---- The directory goes ----
begin
wait_for grep -q '"step":5,' run/metrics.jsonl
mv run away
tap_ok "renamed: 2" end 2
tap_ok "renamed: one error with the new name" one_error "run: removed or renamed .*it is now $PWD/away: give it the old name"
tap_ok "renamed: what is not saved" one_error 'steps 1 to [0-9]* are not saved, no checkpoint was ever saved'
rm -rf away
begin run.stop_step=3
end 75
begin
wait_for grep -q '"step":6,' run/metrics.jsonl
wait_for rm -rf run # again where the run made a file meanwhile
tap_ok "removed: 2" end 2
tap_ok "removed: what is not saved" one_error 'steps 4 to [0-9]* are not saved, the newest checkpoint is that of step 3'

# ---- A stop before the loop ----
begin run.stop_step=3 checkpoint.every=1
end 75
stopped() { # STATUS
    rm run/status.json
    PENTA_FAULT="train.setup:0:*:slow" begin
    wait_for is_ours
    kill -TERM $job
    end "$1"
}
damage() { truncate -s -100 "run/checkpoints/step_0000000$1.h5"; }
damage 3
tap_ok "the newest damaged: 75" stopped 75
tap_ok "... and the one before is named" grep -q '"checkpoint_step": 2,' run/status.json
damage 2
damage 1
tap_ok "all damaged: 130" stopped 130
tap_ok "... status.json says why" grep -q '"message": ".*none of the checkpoints that are there can be taken' run/status.json
tap_ok "... and that there is none" grep -q '"checkpoint_step": null,' run/status.json
begin
tap_ok "... a start that is not stopped: 4" end 4
tap_done
