#!/usr/bin/env bash
# Builds the programs without cgo for every platform, the window for Windows
# where a compiler for that is installed, and vets the code with its tests for
# Windows and macOS:
#
#   scripts/cross.sh            everything
#   scripts/cross.sh quick      one platform of each system but this machine's,
#                               which is built anyway: what is left out differs
#                               in its processor alone
#   scripts/cross.sh OS/ARCH    builds of one platform, without the vetting
#
# Nothing is kept: this finds out whether it builds and links. What fails is
# named at the end, and is the exit status.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
export CGO_ENABLED=0
export GOFLAGS="${GOFLAGS:--tags=nosqlite} -trimpath" # as in the Makefile

platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
vetted=(windows/amd64 darwin/arm64)
case ${1:-} in
"") ;;
quick)
    platforms=(darwin/arm64 windows/amd64)
    [ "$(uname -s)" != Darwin ] || platforms=(linux/arm64 windows/amd64)
    ;;
*) platforms=("$@") vetted=() ;;
esac

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

# The tray needs cgo on macOS.
for p in "${platforms[@]}"; do
    programs=(./engine ./tracker-server ./tray)
    [ "${p%/*}" != darwin ] || programs=(./engine ./tracker-server)
    attempt "build $p" env GOOS="${p%/*}" GOARCH="${p#*/}" \
        "$GO" build -buildvcs=false -o /dev/null "${programs[@]}"
done

# The window as Windows gets it: without a console.
mingw=x86_64-w64-mingw32-gcc
if [[ " ${platforms[*]} " == *" windows/amd64 "* ]]; then
    if command -v "$mingw" >/dev/null; then
        attempt "window windows/amd64" env GOOS=windows GOARCH=amd64 CGO_ENABLED=1 CC="$mingw" \
            "$GO" build -buildvcs=false -tags nosqlite,migrated_fynedo -ldflags "-s -w -H=windowsgui" -o build/cross/windows-amd64/neuron.exe ./app
    else
        echo "NOT CHECKED: the window for Windows ($mingw is not installed)"
    fi
fi

# What starts networks of programs (and its users), and the tests that freeze
# processes, are for Unix alone. Fyne can be vetted without cgo for Windows (its
# tag ci leaves OpenGL out), and for macOS not at all.
# A package without a file for the system is none there.
imports='{{if or .GoFiles .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}} {{end}}'
for p in "${vetted[@]}"; do
    mapfile -t packages < <(env GOOS="${p%/*}" GOARCH="${p#*/}" "$GO" list -e -tags nosqlite,ci -f "$imports" ./engine/... ./llama/... ./tracker-server/... ./internal/... ./tray/... ./app/... |
        if [ "${p%/*}" = windows ]; then
            grep -v -e 'neuron/internal/localnet ' -e '^neuron/engine/program '
        else
            grep -v -e ' fyne.io/'
        fi | cut -d ' ' -f 1 | grep .)
    attempt "vet $p" env GOOS="${p%/*}" GOARCH="${p#*/}" "$GO" vet -tags nosqlite,ci "${packages[@]}"
done

if [ ${#failed[@]} -gt 0 ]; then
    printf 'cross: FAILED: %s\n' "$(IFS=,; echo "${failed[*]}")"
    exit 1
fi
echo "cross: ok (${#platforms[@]} platforms in $SECONDS s)"
