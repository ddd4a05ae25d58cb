#!/usr/bin/env bash
# Tries the packages of dist/ on this machine:
#
#   scripts/package-test.sh [KIND...]
#
# KIND is one of package-test-linux.sh, or windows. make package-test calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
linux=() windows=""
[ $# -gt 0 ] || set -- deb rpm run signatures windows
for kind; do
    if [ "$kind" = windows ]; then windows=yes; else linux+=("$kind"); fi
done
[ ${#linux[@]} -eq 0 ] || scripts/package-test-linux.sh "${linux[@]}"
if [ -n "$windows" ]; then
    if [ -x scripts/package-test-windows.sh ]; then
        scripts/package-test-windows.sh
    else
        echo "package-test: NOT CHECKED: the setup for Windows (there is no script for it)"
    fi
fi
