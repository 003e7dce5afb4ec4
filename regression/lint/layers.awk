# Reads layers.txt, then lines FILE:LINE:code of stripped sources; prints includes that go upwards.
# SPDX-License-Identifier: Apache-2.0
function module_of(path,    best) {
    for (best = path; best ~ /\//; sub(/\/[^\/]*$/, "", best))
        if (best in folder) return folder[best]
    if (best in folder) return folder[best]
    if (!sub(/^(src|include\/penta)\//, "", path) || !sub(/\/.*/, "", path)) return ""
    return (path in level) ? path : ""
}
function may_see(from, to,    n) {
    if (from == to) return 1
    if (to in hidden) return 0
    if (from in aside_sees) return index(" " aside_sees[from] " ", " " to " ") > 0
    if (to in aside_from) return level[from] <= level[aside_from[to]]
    return level[from] < level[to]
}
function complain(text) { print place ": " text }

FILENAME ~ /layers\.txt$/ {
    sub(/#.*/, "")
    if ($1 == "layer") { depth++; for (i = 2; i <= NF; i++) level[$i] = depth }
    if ($1 == "hidden") for (i = 2; i <= NF; i++) hidden[$i] = 1
    if ($1 == "folder") folder[$2] = $3
    if ($1 == "aside") {
        level[$2] = 0
        aside_from[$2] = $4
        for (i = 6; i <= NF; i++) aside_sees[$2] = aside_sees[$2] " " $i
    }
    next
}

{
    match($0, /^[^:]*:[0-9]+:/)
    place = substr($0, 1, RLENGTH - 1)
    code = substr($0, RLENGTH + 1)
    file = place
    sub(/:[0-9]+$/, "", file)
    from = module_of(file)
    if (from == "" && !(file in told)) {
        told[file] = 1
        complain("no module for this file; add a line to regression/lint/layers.txt")
    }
    if (code !~ /^[ \t]*#[ \t]*include[ \t]*"/ || from == "") next
    target = code
    sub(/^[^"]*"/, "", target)
    sub(/".*/, "", target)
    if (target ~ /^pt_(version|autoconf)\.h$/) next
    if (target ~ /\.\.\//) { complain("\"" target "\": write the path from the top"); next }
    if (target ~ /^penta\//) target = "include/" target
    else if (target !~ /^(src|io|cuda)\//) {
        here = file
        sub(/[^\/]*$/, "", here)
        target = here target
    }
    to = module_of(target)
    if (to == "") complain(target ": no module; add a line to regression/lint/layers.txt")
    else if (!may_see(from, to)) complain(from " must not include " target " (" to ")")
}
