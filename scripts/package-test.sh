#!/usr/bin/env bash
# Tries the packages of dist/ on this machine:
#
#   scripts/package-test.sh [KIND...]
#
# KIND is one of package-test-linux.sh, or windows. make package-test calls it. The
# last line of each part says what was tried, and how long that took.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"
linux=() windows=""
[ $# -gt 0 ] || set -- deb rpm run update signatures windows
for kind; do
    if [ "$kind" = windows ]; then windows=yes; else linux+=("$kind"); fi
done
[ ${#linux[@]} -eq 0 ] || scripts/package-test-linux.sh "${linux[@]}"
[ -z "$windows" ] || scripts/package-test-windows.sh
