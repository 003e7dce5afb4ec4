# TEST timeout=60
# doc/formats/rundir.md lists the keys of summary.json and status.json, and the phases, that there are, and no others.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

page=$PENTA_SRCDIR/doc/formats/rundir.md
section() { sed -n "/^## $1/,/^## /p" "$page"; }
listed() { # NAME -> the words in backquotes of the first column of its table
    section "$1" | sed -n 's/^| \(`[^|]*\) |.*/\1/p' | grep -o '`[^`]*`' | tr -d '`' | sort
}
written() { # FILE -> its keys
    sed -n 's/^  "\([a-z_]*\)":.*/\1/p' "$1" | sort
}
same() { # NAME
    listed "$1" >listed
    written "run/$1" >written
    test -s listed && diff listed written
}
seq -f 'number %g' 1 400 >text
tap_ok "a run" timeout 50 "$PENTA" train data.path=text train.steps=2 model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 \
    model.kv_heads=2 model.head_dim=16 train.sequence=16 train.global_batch=2 train.micro_batch=1 run.dir=run
tap_ok "the keys of summary.json" same summary.json
tap_ok "the keys of status.json" same status.json
sed -n 's/^PT_PHASE(.*, "\(.*\)").*/\1/p' "$(find "$PENTA_SRCDIR/include" "$PENTA_SRCDIR/src" -name phase.def)" | sort >written
section status.json | sed -n '/^The phases: /,/^$/p' | grep -o '`[^`]*`' | tr -d '`' | sort >listed
tap_ok "the phases" cmp listed written
metrics() { # of a line of a step
    section metrics.jsonl | sed -n 's/^One object a step: `\(.*\)`; `time`.*/\1/p' | tr ' ' '\n' | sort
}
metrics >listed
head -n 1 run/metrics.jsonl | grep -o '"[a-z_]*":' | tr -d '":' | sort >written
tap_ok "the keys of metrics.jsonl" cmp listed written
tap_done
