# TEST level=full timeout=240
# A build folder in which nothing was made yet, of this tree and of what `make dist` packs, without git:
# any single target can be the first.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/tap.sh"

# Objects of all sources that include the header that make generates.
objects=$(cd "$PENTA_SRCDIR" && grep -rl '#include "pt_version.h"' src io regression --include='*.c' | sed 's/c$/o/')

configure() { # SOURCE FOLDER: as this build is
    mkdir "$2" && (cd "$2" && eval "'$1/configure' -q $("$PENTA_BUILDDIR/config.status" --config)") >log 2>&1 ||
        { tail log; return 1; }
}
first() { # FOLDER TARGET...: made before anything else is
    local folder=$1
    shift
    rm -f "$folder/pt_version.h"
    make -s -C "$folder" "$@" >log 2>&1 || { tail log; return 1; }
}
compile() { # SOURCE FOLDER NAME
    local object
    tap_ok "$3: configure" configure "$1" "$2"
    for object in $objects; do
        tap_ok "$3: make $object" first "$2" "$object"
    done
    rm -f "$2"/regression/unit/*.o "$2"/src/*/*.o
    # shellcheck disable=SC2086 # words
    tap_ok "$3: make -j8 of all of them" first "$2" -j8 $objects
}

tap_ok "there are such sources" test -n "$objects"
compile "$PENTA_SRCDIR" fresh "this tree"
tap_ok "make distdir" first fresh distdir
packed=$(find "$PWD/fresh" -maxdepth 1 -name 'penta-*')
compile "$packed" unpacked "what is packed"
missing=$(cd "$PENTA_SRCDIR" && git ls-files 2>/dev/null | grep -v '^\.git' | while read -r f; do [ -e "$packed/$f" ] || echo "$f"; done)
[ -z "$missing" ] || echo "$missing" | sed 's/^/# /'
tap_ok "every file of the repository is packed" test -z "$missing"
tap_done
