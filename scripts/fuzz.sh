#!/usr/bin/env bash
# Runs every fuzz target for a short time: scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go=${GO:-go}
time=${1:-10s}

count=0
while IFS=: read -r file _ line; do
    target=$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' <<<"$line")
    [ -n "$target" ] || continue
    echo "== $(dirname "$file") $target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 2s "$(dirname "$file")"
    count=$((count + 1))
done < <(grep -rn --include='*_test.go' --exclude-dir=build --exclude-dir=node_modules --exclude-dir=.git '^func Fuzz' . | sort)
[ "$count" -gt 0 ] || {
    echo "fuzz: no targets found"
    exit 1
}
echo "fuzz: ok, $count targets for $time each"
