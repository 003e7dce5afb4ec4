# Frame of a lint. A lint is a function `scan ROOT` that prints one line per violation in the tree
# ROOT (nothing if clean). The lint sources this file and calls
#   catches NAME FILE TEXT [FILE TEXT]...    scan must complain about a tree of these files
#   accepts NAME FILE TEXT [FILE TEXT]...    scan must not
#   check_tree                               scan must find nothing in the source tree; ends the test
# so that each lint proves, every time, that it can fail.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"
# shellcheck disable=SC2034
lint_dir=$PENTA_SRCDIR/regression/lint

# The files of the project below ROOT whose names match, relative to ROOT: sources FOLDER... -- PATTERN...
sources() {
    local folders=() patterns=() folder
    while [ "$1" != -- ]; do
        [ -e "$1" ] && folders+=("$1")
        shift
    done
    shift
    [ ${#folders[@]} -gt 0 ] || return 0
    for folder in "$@"; do patterns+=(-o -name "$folder"); done
    find "${folders[@]}" -type f \( "${patterns[@]:1}" \) | LC_ALL=C sort
}

make_tree() {
    rm -rf tree && mkdir tree
    while [ $# -gt 0 ]; do
        mkdir -p "tree/$(dirname "$1")"
        printf '%s\n' "$2" >"tree/$1"
        shift 2
    done
}

catches() {
    local name=$1
    shift
    make_tree "$@"
    tap_ok "catches $name" test -n "$(scan "$PWD/tree" 2>&1)"
}

accepts() {
    local name=$1 found
    shift
    make_tree "$@"
    found=$(scan "$PWD/tree" 2>&1)
    [ -z "$found" ] || echo "# $found"
    tap_ok "accepts $name" test -z "$found"
}

check_tree() {
    scan "$PENTA_SRCDIR" >found 2>&1
    sed 's/^/# /' found
    tap_ok "the source tree is clean" test ! -s found
    tap_done
}
