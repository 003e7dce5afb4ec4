# TEST timeout=60
# penta status: the states of a run, and files that are not what they should be.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

mkdir -p run/checkpoints
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
put() { # CODE NAME REASON TIME MESSAGE
    printf '{\n  "code": %s,\n  "name": "%s",\n  "message": "%s",\n  "reason": %s,\n  "step": 7,\n  "steps": 10,\n  "phase": "forward",\n  "ranks": 3,\n  "time": "%s"\n}\n' \
        "$1" "$2" "$5" "$3" "$4" >run/status.json
}
status() { timeout 10 "$PENTA" status "$@" >out 2>err; }
says() { # NAME WORD ADVICE
    tap_ok "$1: told" status run
    tap_ok "$1: $2" grep -q "^state  *$2" out
    tap_ok "$1: what to do" grep -q "^next .*$3" out
    tap_ok "$1: as JSON" status run --json
    tap_ok "$1: the same state" grep -q "^  \"state\": \"$2\"" out
}
put null RUNNING null "$now" ""
printf '{"step":8,"loss":2.5,"tokens_per_s":1234.5,"step_s":30.0,"time":"2031-05-07T10:30:00Z"}\n{"step":8,"validation_loss":1}\n{"torn' >run/metrics.jsonl
touch run/checkpoints/step_00000005.h5
echo "node1 17 0123456789abcdef" >run/run.lock
says "at work" running "file named stop"
status run
tap_ok "step, phase and ranks" grep -q 'step 7 of 10, forward, 3 ranks' out
tap_ok "the last step" grep -q 'step 8, loss 2.5000, 1234 tokens/s, at 2031-05-07T10:30:00Z, ETA 1m 00s' out
tap_ok "the checkpoint" grep -q '^checkpoint  step 5$' out
tap_ok "the lock" grep -q '^lock .*node1 17' out
put null RUNNING null 2020-01-01T00:00:00Z ""
says "killed" silent "killed, hangs"
put null RUNNING null nonsense ""
says "time without sense" silent "killed, hangs"
put 75 STOPPED '"signal"' "$now" "stopped by SIGTERM"
says "stopped by a signal" stopped "submit it again"
tap_ok "the message" status run
tap_ok "... is there" grep -q '^message *stopped by SIGTERM' out
put 75 STOPPED '"stop_file"' "$now" "x"
says "stop file" stopped "the user stopped it"
put 0 OK null "$now" ""
says "finished" finished "train.steps"
put 4 IO null "$now" 'evil \u001b[31m'
says "failed" failed "fix what it names"
status run
tap_ok "no control bytes" test -z "$(tr -d '[:print:]\n\t' <out)"
rm run/status.json
says "being set up" starting "ask again"
rm run/run.lock
says "no status.json" unknown "start it"
refused() { # NAME CODE WORDS
    status run
    local code=$?
    tap_ok "$1: $2 ($code)" test $code -eq "$2"
    tap_ok "$1: one message" test "$(grep -c ' error: ' err)" -eq 1
    tap_ok "$1: says $3" grep -q -- "$3" err
}
for text in '' '{' '[]' '{"code": "x", "name": "y"}' '{"code": 1}' 'null' 'GIF89a'; do
    printf '%s' "$text" >run/status.json
    refused "status.json is '$text'" 4 'run/status.json: not written by a run'
done
rm run/status.json
mkfifo run/status.json
refused "status.json is a pipe" 4 'not a regular file'
rm -rf run
refused "no directory" 2 'run: No such file'
mkdir run
refused "an empty directory" 2 'no run was started here'
rmdir run
touch run
refused "a file" 2 'not a directory'
tap_fails "no argument: 2" 2 status
tap_fails "two: 2" 2 status a b
tap_fails "an option: 2" 2 status --x
tap_done
