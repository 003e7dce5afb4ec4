# TEST timeout=60
# Paths as people write them: ~ and $HOME, commas, marks and line ends of other editors.
# shellcheck disable=SC2088,SC2016 # the program expands them
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

mkdir home && export HOME=$PWD/home
seq -f 'number %g' 1 400 >home/text
cp home/text 'a,b.txt'
small="model.layers=1 model.hidden=32 model.ffn=32 model.heads=2 model.kv_heads=2 model.head_dim=16 train.sequence=16
train.global_batch=4 train.steps=1"
# shellcheck disable=SC2086 # words
train() { "$PENTA" train "$@" $small >out 2>err; }

cat >home/c.ini <<'END'
[run]
dir = ~/from-file
[data]
path = $HOME/text,
    "~/text"
END
tap_ok "a path in a file begins with ~" train home/c.ini
tap_ok "... and in an argument, even that of the file" train '~/c.ini' 'run.dir=~/from-argument'
export PENTA_RUN_DIR='~/from-environment'
tap_ok "... and in the environment" train data.path='${HOME}/text'
unset PENTA_RUN_DIR
for name in file argument environment; do
    tap_ok "... from-$name" test -f home/from-$name/summary.json
done
tap_ok "the archive goes on" train home/from-file/config.resolved.ini train.steps=2
tap_ok "a comma in a name" train 'data.path=a\,b.txt,home/text' run.dir=comma
tap_ok "... survives" train comma/config.resolved.ini train.steps=2
for path in '~nobody/x' '$SCRATCH/x' 'x/${USER}'; do
    tap_fails "$path is refused" 2 train data.path=home/text run.dir="$path"
    tap_ok "... in words" grep -q 'not expanded' err
done
tap_fails "no home, no ~" 2 env -u HOME "$PENTA" train data.path=home/text 'run.dir=~/x'
tap_ok "a file that has a \$ in its name can be named" cp home/text 'x$y'
tap_ok "... in quotes" train 'data.path="x\x24y"' run.dir=dollar
tap_ok "... and archived" train dollar/config.resolved.ini train.steps=2
tap_ok "no directory has such a name" test -z "$(find . -name '*~*' -o -name '$*')"
sed 's/$/\r/; 1s/^/\xef\xbb\xbf/' home/c.ini >dos.ini
tap_ok "a byte order mark and CRLF in the file" train dos.ini run.dir=dos
iconv -f UTF-8 -t UTF-16 home/c.ini >wide.ini
tap_fails "UTF-16 is refused" 2 train wide.ini run.dir=wide
tap_ok "... in words" grep -q 'UTF-16: save it as UTF-8' err
plan() { "$PENTA" plan "$@" >out 2>err; }
for text in '' '\n ; lr = 1\n# x' '\xef\xbb\xbf'; do
    # shellcheck disable=SC2059 # the format is the text
    printf "$text" >nothing.ini
    tap_ok "a file without an option: '$text'" plan nothing.ini
    tap_ok "... is warned of" grep -q 'warning: configuration file nothing.ini: it sets no option' err
done
# ---- A corpus that is no text ----
printf '\037\213\010' | cat - home/text >packed.gz
tap_ok "a compressed corpus" train data.path=packed.gz run.dir=packed
tap_ok "... is warned of once" test "$(grep -c ' warning: .*packed.gz begins like a gzip file' err)" -eq 1
# ---- Pipes: whoever writes into them may take time ----
tap_ok "a pipe of the shell" train <(echo "[train]"; sleep 0.2; echo seed = 7) data.path=home/text run.dir=piped
tap_fails "... silently" 1 grep -q waiting err
tap_ok "... read to its end" grep -q '^seed = 7 ' piped/config.resolved.ini
mkfifo slow
{ sleep 4; echo "[train]"; sleep 0.5; echo seed = 8; } >slow &
# shellcheck disable=SC2086 # words
late() { timeout 50 "$MPIEXEC" -n 2 "$PENTA" train slow data.path=home/text run.dir=late $small >out 2>err; }
tap_ok "a writer who comes late" late
tap_ok "... is waited for, and that is said once" test "$(grep -c 'slow: waiting for a process to write into it' err)" -eq 1
tap_ok "... to the end" grep -q '^seed = 8 ' late/config.resolved.ini
wait
tap_done
