#!/usr/bin/env bash
# usage: jobs/setup.sh SECTION...      e.g. jobs/setup.sh build test
# Installs the Debian packages of these sections of packages.txt that are missing. Does nothing,
# and needs no rights, when none is missing; without apt it only says what is needed.
# SPDX-License-Identifier: Apache-2.0
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)

missing=''
for section in "$@"; do
    while read -r package; do
        if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
            missing="$missing $package"
        fi
    done < <(awk -v want="[$section]" '
        { sub(/#.*/, "") }
        /^\[/ { on = ($1 == want); next }
        on && NF { print $1 }' "$top/packages.txt")
done
if [ -z "$missing" ]; then exit 0; fi

if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; Debian calls what is needed:$missing" >&2
    exit 0
fi
as_root=''
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing
