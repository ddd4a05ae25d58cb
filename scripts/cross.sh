#!/usr/bin/env bash
# Builds the programs without cgo for every platform, and vets the code with its
# tests for Windows and macOS:
#
#   scripts/cross.sh            everything
#   scripts/cross.sh OS/ARCH    builds of one platform, without the vetting
#
# Nothing is kept: this finds out whether it builds and links. What fails is
# named at the end, and is the exit status.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
export CGO_ENABLED=0

platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
vetted=(windows/amd64 darwin/arm64)
if [ $# -gt 0 ]; then platforms=("$@") vetted=(); fi

failed=()
# attempt NAME COMMAND... runs a command and prints a line, its output only when
# it fails.
attempt() {
    local name=$1 start=$SECONDS out
    shift
    if out=$("$@" 2>&1); then
        printf 'ok    %-20s %4s s\n' "$name" $((SECONDS - start))
        return
    fi
    printf 'FAIL  %-20s %4s s\n' "$name" $((SECONDS - start))
    sed 's/^/      /' <<<"$out"
    failed+=("$name")
}

for p in "${platforms[@]}"; do
    attempt "build $p" env GOOS="${p%/*}" GOARCH="${p#*/}" \
        "$GO" build -trimpath -buildvcs=false -o /dev/null ./engine ./tracker-server
done

# What starts networks of programs (and its users), and the tests that freeze
# processes, are for Unix alone.
imports='{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}} '
for p in "${vetted[@]}"; do
    mapfile -t packages < <("$GO" list -f "$imports" ./engine/... ./llama/... ./tracker-server/... ./internal/... |
        if [ "${p%/*}" = windows ]; then
            grep -v -e 'neuron/internal/localnet ' -e '^neuron/engine/program '
        else
            cat
        fi | cut -d ' ' -f 1)
    attempt "vet $p" env GOOS="${p%/*}" GOARCH="${p#*/}" "$GO" vet "${packages[@]}"
done

if [ ${#failed[@]} -gt 0 ]; then
    printf 'cross: FAILED: %s\n' "$(IFS=,; echo "${failed[*]}")"
    exit 1
fi
echo "cross: ok (${#platforms[@]} platforms in $SECONDS s)"
