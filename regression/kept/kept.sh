# TEST timeout=120
# Files of today load for ever: run directories, checkpoints and corpora that earlier versions wrote (README.md).
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

penta() { timeout -k 2 40 "$PENTA" "$@" >out 2>err </dev/null; }
near() { # FILE FILE TOLERANCE: steps and losses
    awk -v tolerance="$3" 'NR == FNR { loss[$1] = $2; next }
        { seen++; d = loss[$1] - $2; if (!($1 in loss) || d > tolerance || d < -tolerance) { print "# step " $1 ": " $2; bad = 1 } }
        END { exit bad || seen != 8 }' "$1" "$2"
}

for folder in "$PENTA_SRCDIR"/regression/kept/*/; do
    version=$(basename "$folder")
    cp -r "$folder" "$version"
    chmod -R u+w "$version"
    cd "$version" || exit 1
    for run in text tokens; do
        file=$run/checkpoints/step_00000004.h5 name="$version, $run"
        tap_ok "$name: verified" penta inspect $file --verify
        tap_ok "$name: the digest it had" test "$("$PENTA" inspect $file --digest)" = "$(cat $run.digest)"
        [ $run = tokens ] || tap_ok "$name: sampled" penta sample run.dir=$run sample.tokens=10
        tap_ok "$name: begun with its weights" \
            penta train $run/config.resolved.ini run.dir=$run.new run.stop_step=0 train.init_from=$file
        tap_ok "$name: goes on on two ranks" \
            sh -c 'timeout -k 2 60 "$@" >out 2>err </dev/null' - "$MPIEXEC" -n 2 "$PENTA" train $run/config.resolved.ini run.stop_step=0
        tap_ok "$name: from step 4" grep -q '^resumed .*step 4$' out
        sed -nE 's/^\{"step":([0-9]+),"loss":([^,]*),.*/\1 \2/p' $run/metrics.jsonl >losses
        tolerance=0.0001
        [ $run = text ] || tolerance=0.02
        tap_ok "$name: with the losses of then" near $run.losses losses $tolerance
    done
    cd ..
done
tap_done
