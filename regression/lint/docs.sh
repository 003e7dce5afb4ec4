# TEST timeout=60
# What README.md and doc/ name exists: files, links, options section.key, identifiers pt_ and PT_. Sites of
# injected failures stand in their table.
# A path with a part x, name, NAME or N, such as src/ops/cpu/x.c, stands for any; a C test may be
# named without .c.
# SPDX-License-Identifier: Apache-2.0
. "$PENTA_SRCDIR/regression/lint/lib.sh"

named_folders='src|io|include|cuda|jobs|regression|doc|m4|build-aux'

list_pages() {
    for page in README.md CONTRIBUTING.md NEWS.md; do
        if [ -e "$page" ]; then echo "$page"; fi
    done
    sources doc -- '*.md'
}

# The paths page $1 names, from the top of the tree.
paths_of() {
    grep -oE "(^|[^A-Za-z0-9_./-])(\.\./)*($named_folders)/[A-Za-z0-9_./*-]*" "$1" |
        sed -E 's/^[^A-Za-z]*//; s/[.]+$//'
}

# The targets of page $1's links, from its own folder, without those outside and in the page.
links_of() {
    grep -oE '\]\([^)]+\)' "$1" | sed -E 's/^\]\(//; s/\)$//; s/#.*//' | grep -vE '^$|^[a-z]+:'
}

check_files() { # PAGE
    local path
    paths_of "$1" | grep -vE '(^|[/_])(x|name|NAME|N)([./]|$)' | sort -u | while read -r path; do
        compgen -G "$path" >/dev/null || [ -e "$path.c" ] || echo "$1: no such file: $path"
    done
    links_of "$1" | sort -u | while read -r path; do
        [ -e "$(dirname "$1")/$path" ] || echo "$1: dead link: $path"
    done
}

# Words of the form section.key: the option table, and the sites of injected failures.
list_keys() {
    if [ -e include/penta/config/options.def ]; then
        sed -nE 's/^PT_(INT|REAL|BOOL|CHOICE|VALUE|TEXT) *\(([a-z]+), ([a-z0-9_]+),.*/\2.\3/p' \
            include/penta/config/options.def
    fi
    if [ -e src/base/fault.def ]; then sed -nE 's/^PT_FAULT_SITE\("([a-z_.]+)".*/\1/p' src/base/fault.def; fi
}

# Sites of injected failures, as the code calls them.
list_sites() {
    sources src io -- '*.c' | xargs -r grep -ohE '(pt_fault|pt_checkpoint_inject)\("[a-z_.]+"' | sed -E 's/.*"(.*)"/\1/'
}

check_sites() {
    list_sites | sort -u | while read -r site; do
        grep -qsF "PT_FAULT_SITE(\"$site\", " src/base/fault.def || echo "src/base/fault.def: lacks the site $site"
    done
}

list_identifiers() {
    sources src io include regression m4 -- '*.c' '*.h' '*.def' '*.m4' Makefile.am '*.sh' |
        xargs -r grep -ohE '\b(pt|PT)_[A-Za-z0-9_]+' | sort -u
}

scan() {
    (
        cd "$1" || exit
        list_keys | sort -u >"$scratch/keys"
        list_identifiers >"$scratch/identifiers"
        check_sites
        sections=$(sed 's/[.].*//' "$scratch/keys" | sort -u | paste -sd '|')
        list_pages | while read -r page; do
            check_files "$page"
            grep -oE "(^|[^A-Za-z0-9_./-])(${sections:-none})[.][a-z][a-z0-9_]*" "$page" |
                sed -E 's/^[^a-z]*//' | grep -vE '[.](c|h|h5|md|sh|json|jsonl|ini|txt|def|lock)$' |
                sort -u | grep -vxFf "$scratch/keys" | sed "s|^|$page: no such option: |"
            grep -oE '\b(pt_[a-z0-9_]*[a-z0-9]|PT_[A-Z0-9_]*[A-Z0-9])\b' "$page" | sort -u |
                grep -vE '^(pt_name|PT_NAME)$' | grep -vxFf "$scratch/identifiers" |
                sed "s|^|$page: no such identifier: |"
        done
    )
}

scratch=$PWD
options='PT_INT(train, steps, 1, "", 1, 2, BITS, FREE, "x")'
catches "a missing file" README.md 'see `src/a.c`.'
catches "a dead link" doc/a.md '[b](b.md)'
catches "an unknown option" doc/a.md 'set train.step=3' include/penta/config/options.def "$options"
catches "a site without a row" src/a.c 'int f(void) { return pt_fault("train.x"); }' \
    src/base/fault.def 'PT_FAULT_SITE("train.y", "")'
catches "an unknown identifier" doc/a.md 'call pt_nothing' src/a.c 'int pt_something;'
accepts "what exists" doc/a.md '[b](b.md#c), [w](https://a.b/c), ../src/a.c, src/*.c, src/x.c:
train.steps, train.c, run.sh, site train.gradient; pt_fault, pt_op_NAME. and/or I/O' \
    doc/b.md '# c' src/a.c 'int f(void) { return pt_fault("train.gradient"); }' \
    src/base/fault.def 'PT_FAULT_SITE("train.gradient", "nan")' include/penta/config/options.def "$options"
check_tree
