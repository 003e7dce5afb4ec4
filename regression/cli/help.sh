# TEST timeout=60
# --help, --man and --template show every command and every option that exist, and no others.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

options() { # SECTION... -> section.key, as the option table has them
    sed -n 's/^PT_\(INT\|REAL\|BOOL\|CHOICE\|VALUE\|TEXT\)(\([a-z_]*\), \([a-z0-9_]*\),.*/\2.\3/p' \
        "$PENTA_SRCDIR/include/penta/config/options.def" | grep -E "^($(echo "$*" | tr ' ' '|'))\\."
}

names_all() { # FILE SECTION...
    local file=$1 option missing=0
    shift
    for option in $(options "$@"); do
        grep -q -F -w -e "$option" "$file" || { echo "# $option is missing"; missing=1; }
    done
    return $missing
}

declared() { # COMMAND -> the sections of its row
    sed -n 's/^ *\.sections = "\(.*\)",.*/\1/p' "$PENTA_SRCDIR/src/cmd/$1.c" | tr ',' ' '
}

"$PENTA" --help >help
tap_ok "--help is for stdout" test -s help
commands=$(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' help)
tap_ok "there are commands" test -n "$commands"
for command in $commands; do
    "$PENTA" "$command" --help >"$command.help" 2>errors
    tap_ok "$command --help succeeds" test $? -eq 0
    tap_ok "... silent on stderr" test ! -s errors
    tap_ok "... with a usage line" grep -q "^usage: penta $command " "$command.help"
    sections=$(declared "$command")
    if [ -n "$sections" ]; then
        # shellcheck disable=SC2086 # a list of words
        tap_ok "... and every option of: $sections" names_all "$command.help" $sections
    fi
done

"$PENTA" -h >short
tap_ok "-h is --help" cmp -s help short
"$PENTA" train some.ini -h >short
tap_ok "... after other arguments, too" cmp -s train.help short
tap_fails "an unknown flag is a usage error" 2 "$PENTA" --hlep
"$PENTA" plan --jsno 2>errors
tap_ok "... not taken for a file" grep -q "no option '--jsno'" errors
for words in --help --man --template --version plan "train --help"; do
    # shellcheck disable=SC2086 # words
    tap_fails "$words: output that is lost is a failure" 4 \
        sh -c 'exec "$0" "$@" >/dev/full' "$PENTA" $words
done
# What has read enough goes away, as `head -1` does.
left() { # ARGUMENT...: writes into a pipe that nobody reads; its errors are in errors
    { sleep 0.2; "$PENTA" "$@" 2>errors; echo $? >code; } | true
    [ "$(cat code)" -eq 0 ] && [ ! -s errors ]
}
for words in --help --man --template --version plan "plan --json" "train --help" "sample -h"; do
    # shellcheck disable=SC2086 # words
    tap_ok "$words: a reader that goes away is no failure" left $words
done
tap_fails "no mistake is hidden by it" 2 sh -c '{ sleep 0.2; "$0" plan train.lrr=1 2>errors; echo $? >code; } | true; exit $(cat code)' "$PENTA"
tap_fails "an unknown command is a usage error" 2 "$PENTA" trian
"$PENTA" trian 2>errors
tap_ok "... that names the nearest" grep -q 'maybe: train?' errors
tap_fails "no command is one too" 2 "$PENTA"
tap_fails "an unknown option is one" 2 "$PENTA" sample sample.promt=x
"$PENTA" sample sample.promt=x 2>errors
tap_ok "... that names the nearest" grep -q 'maybe: sample.prompt?' errors

every=$(sed -n 's/^PT_SECTION(\([a-z]*\),.*/\1/p' "$PENTA_SRCDIR/include/penta/config/options.def")
"$PENTA" --man >penta.1
# shellcheck disable=SC2086
tap_ok "the man page has every option" names_all penta.1 $every
tap_ok "... and the commands that exist" test \
    "$(sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/s/^\.B \([a-z]*\)$/\1/p' penta.1 | sort | xargs)" = \
    "$(echo "$commands" | sort | xargs)"
if command -v mandoc >/dev/null; then
    # The page belongs to a version, not to a day.
    mandoc -T lint -W warning penta.1 | grep -v 'missing date' >lint
    tap_ok "mandoc finds nothing to say" test ! -s lint
    sed 's/^/# /' lint
else
    echo "# no mandoc: the man page is not checked"
fi
# shellcheck disable=SC2086
for section in $every; do
    "$PENTA" --template | sed -n "/^\\[$section\\]/,/^\\[/p" >part
    options "$section" | sed "s/^$section\\.//" >wanted
    tap_ok "the template has every option of $section" \
        test "$(grep -c -w -F -f wanted part)" -ge "$(wc -l <wanted)"
done
tap_done
