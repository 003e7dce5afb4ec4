# Blanks comments, and with -v strings=1 also the text of string and character literals, of C
# files; prints FILE:LINE:text for each line, so that a search finds code only.
# SPDX-License-Identifier: Apache-2.0
function strip(s,    out, rest, start) {
    out = ""
    while (s != "") {
        if (in_comment) {
            start = index(s, "*/")
            if (!start) return out
            s = substr(s, start + 2)
            in_comment = 0
            continue
        }
        if (!match(s, /\/\*|\/\/|"|'/)) return out s
        rest = substr(s, RSTART)
        out = out substr(s, 1, RSTART - 1)
        if (substr(rest, 1, 2) == "//") return out
        if (substr(rest, 1, 2) == "/*") {
            in_comment = 1
            out = out " "
            s = substr(rest, 3)
            continue
        }
        if (substr(rest, 1, 1) == "\"") ok = match(rest, /^"([^"\\]|\\.)*"/)
        else ok = match(rest, /^'([^'\\]|\\.)*'/)
        if (!ok) return out rest
        out = out (strings ? substr(rest, 1, 1) substr(rest, 1, 1) : substr(rest, 1, RLENGTH))
        s = substr(rest, RLENGTH + 1)
    }
    return out
}
FNR == 1 { in_comment = 0 }
{ print FILENAME ":" FNR ":" strip($0) }
