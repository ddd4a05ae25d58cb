#!/usr/bin/env bash
# Builds the programs that need no C compiler once more, from a copy of the tree
# in another folder, with an empty build cache, and compares them with those in
# bin/ byte by byte:
#
#   scripts/reproducible.sh
#
# REPRODUCIBLE=quick keeps the build cache, so that only linking is done again.
# Several minutes otherwise. The window is left out: its C code is compiled by
# whatever compiler the machine has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
copy=$(mktemp -d "${TMPDIR:-/tmp}/neuron-reproducible-XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' HUP INT TERM
version=$(cat build/version)
tar -cf - --exclude=./.git --exclude=./bin --exclude=./build --exclude=./dist . | tar -C "$copy" -xf -
[ "${REPRODUCIBLE:-}" = quick ] || export GOCACHE=$copy/.cache
bad=0
for pair in neuron-engine:./engine neuron-tray:./tray neuron-tracker:./tracker-server; do
    program=${pair%%:*}
    (cd "$copy" && CGO_ENABLED=0 GOFLAGS="-tags=nosqlite -trimpath" "$GO" build -buildvcs=false \
        -ldflags "-s -w -X neuron/internal/version.stamp=$version $(cat build/release 2>/dev/null || true)" -o "$copy/$program" "${pair#*:}")
    if cmp "bin/$program" "$copy/$program"; then
        echo "reproducible: $program $(sha256sum <"bin/$program" | cut -c 1-16)..."
    else
        echo "reproducible: FAILED: $program differs" >&2
        bad=1
    fi
done
exit $bad
