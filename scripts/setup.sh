#!/usr/bin/env bash
# Checks for the tools that Neuron is built with and installs what is missing.
#
#   scripts/setup.sh OUTPUT     check all, install what may be installed, write
#                               OUTPUT (a makefile with the Go command to use)
#   scripts/setup.sh need TOOL  fail with the install line when TOOL is missing
#   scripts/setup.sh install TOOL...  install what is missing of tools that only
#                               some tests use, or fail
#   scripts/setup.sh window     say whether the window can be built, and if not
#                               what is missing
#
# Debian and Ubuntu packages come by apt-get, as root or by a sudo that asks no
# password. Elsewhere the exact line is printed and the exit status is 1.
set -euo pipefail

# The Go version of go.mod is the least that builds; the second one is fetched
# where the machine has no such Go.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
go_least=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' "$root/go.mod")
go_fetch=$(sed -n 's/^go \(.*\)/go\1/p' "$root/go.mod")
readonly root go_least go_fetch

say() { printf '%s\n' "setup: $*" >&2; }

# as_root prints the prefix that runs a command as root, or fails.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        echo ""
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        echo "sudo -n"
    else
        return 1
    fi
}

# package_of names the Debian package of a tool.
package_of() {
    case $1 in
    go) echo golang-go ;;
    aria2c) echo aria2 ;;
    Xvfb) echo xvfb ;;
    dbus-daemon) echo dbus ;;
    desktop-file-validate) echo desktop-file-utils ;;
    *) echo "$1" ;;
    esac
}

apt_line() { echo "sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"; }

updated=""
apt_install() {
    local prefix
    command -v apt-get >/dev/null || return 1
    prefix=$(as_root) || return 1
    if [ -z "$updated" ]; then
        say "apt-get update"
        # A broken foreign source must not stop what the others have.
        # shellcheck disable=SC2086
        $prefix apt-get update -qq >&2 || say "apt-get update reported errors, going on"
        updated=yes
    fi
    say "apt-get install $*"
    # In runlevel 1 packages do not start services; tests start their own.
    # shellcheck disable=SC2086
    $prefix env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

have() {
    case $1 in
    ca-certificates)
        # Other systems keep their roots elsewhere and bring them along.
        [ "$(uname -s)" != Linux ] || [ -e /etc/ssl/certs/ca-certificates.crt ] ||
            [ -e /etc/pki/tls/certs/ca-bundle.crt ] || [ -e /etc/ssl/cert.pem ]
        ;;
    lib*-dev) header "$(header_of "$1")" ;;
    libgl1-mesa-dri)
        # Software OpenGL; its place differs from one Mesa to the next.
        compgen -G '/usr/lib/*/dri/swrast_dri.so' >/dev/null || compgen -G '/usr/lib/*/libgallium*' >/dev/null ||
            compgen -G '/usr/lib*/dri/swrast_dri.so' >/dev/null
        ;;
    # Of Debian's own Python; importing it takes seconds.
    python3-torch) [ -e /usr/lib/python3/dist-packages/torch/__init__.py ] || python3 -c 'import torch, numpy' 2>/dev/null ;;
    libopenblas0-pthread) compgen -G '/usr/lib/*/openblas-pthread/libblas.so*' >/dev/null ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# What compiling the window needs besides a C compiler, on Linux: the packages
# whose headers the windowing library includes.
window=(libgl1-mesa-dev libx11-dev libxcursor-dev libxrandr-dev libxinerama-dev libxi-dev libxxf86vm-dev)

header_of() {
    case $1 in
    libgl1-mesa-dev) echo GL/gl.h ;;
    libx11-dev) echo X11/Xlib.h ;;
    libxcursor-dev) echo X11/Xcursor/Xcursor.h ;;
    libxrandr-dev) echo X11/extensions/Xrandr.h ;;
    libxinerama-dev) echo X11/extensions/Xinerama.h ;;
    libxi-dev) echo X11/extensions/XInput2.h ;;
    libxxf86vm-dev) echo X11/extensions/xf86vmode.h ;;
    esac
}

# header says whether the compiler finds a header; other systems have the
# windowing of their own.
header() {
    [ "$(uname -s)" = Linux ] || return 0
    [ -e "/usr/include/$1" ] || compgen -G "/usr/include/*/$1" >/dev/null
}

# window_lacks prints the packages that the window's build lacks.
window_lacks() {
    local p
    have gcc || echo gcc
    for p in "${window[@]}"; do
        have "$p" || echo "$p"
    done
}

# at_least A B: version A (1.26) is B or newer.
at_least() {
    local a b
    IFS=. read -r -a a <<<"$1"
    IFS=. read -r -a b <<<"$2"
    ((a[0] > b[0] || (a[0] == b[0] && ${a[1]:-0} >= ${b[1]:-0})))
}

# go_version prints MAJOR.MINOR of a Go command, without fetching another.
go_version() {
    GOTOOLCHAIN=local "$1" version 2>/dev/null | sed -n 's/^go version go\([0-9]*\.[0-9]*\).*/\1/p'
}

# find_go prints the newest Go command of the machine.
find_go() {
    local c v best="" best_v=0.0
    for c in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go /usr/lib/go/bin/go "$HOME"/sdk/go*/bin/go; do
        [ -x "$c" ] || continue
        v=$(go_version "$c")
        if [ -n "$v" ] && at_least "$v" "$best_v" && [ "$v" != "$best_v" ]; then
            best=$c best_v=$v
        fi
    done
    [ -n "$best" ] && echo "$best"
}

# fetch_toolchain SEED: print a Go command of $go_fetch, fetched with the Go
# command SEED. From 1.21 on, Go does this by itself; an older one can download
# the same module from the module proxy, checked against the checksum database.
fetch_toolchain() {
    local seed=$1 v os arch dir
    v=$(go_version "$seed")
    say "Go $v is too old, fetching $go_fetch from the module proxy"
    if at_least "$v" 1.21; then
        GOTOOLCHAIN=$go_fetch "$seed" version >&2 || return 1
        dir=$(GOTOOLCHAIN=$go_fetch "$seed" env GOROOT)
    else
        os=$("$seed" env GOOS) arch=$("$seed" env GOARCH)
        dir=$(cd / && GOFLAGS=-mod=mod GO111MODULE=on "$seed" mod download -json "golang.org/toolchain@v0.0.1-$go_fetch.$os-$arch" |
            sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p')
        [ -n "$dir" ] || return 1
        # Modules are stored without execute bits, and read-only.
        chmod u+w "$dir/bin" "$dir/pkg/tool/${os}_$arch"
        chmod u+x "$dir"/bin/* "$dir/pkg/tool/${os}_$arch"/*
    fi
    [ -x "$dir/bin/go" ] && echo "$dir/bin/go"
}

usable_go() {
    local go
    go=$(find_go) || return 1
    at_least "$(go_version "$go")" "$go_least" && echo "$go"
}

setup_go() {
    local go
    if go=$(usable_go); then
        echo "$go"
        return
    fi
    if ! go=$(find_go); then
        apt_install golang-go || return 1
        go=$(find_go) || return 1
    fi
    if at_least "$(go_version "$go")" "$go_least"; then
        echo "$go"
    else
        fetch_toolchain "$go"
    fi
}

if [ "${1:-}" = need ]; then
    have "$2" || {
        say "$2 is needed here: $(apt_line "$(package_of "$2")")"
        exit 1
    }
    exit 0
fi

if [ "${1:-}" = install ]; then
    shift
    absent=()
    for tool in "$@"; do
        have "$tool" || absent+=("$(package_of "$tool")")
    done
    [ ${#absent[@]} -eq 0 ] || apt_install "${absent[@]}" || {
        say "needed here: $(apt_line "${absent[@]}")"
        exit 1
    }
    exit 0
fi

if [ "${1:-}" = window ]; then
    mapfile -t absent < <(window_lacks)
    [ ${#absent[@]} -eq 0 ] || {
        say "the window needs: $(apt_line "${absent[@]}")"
        exit 1
    }
    exit 0
fi

output=${1:?usage: setup.sh OUTPUT | need TOOL | install TOOL... | window}
# npm fetches the native libraries; gcc is for the window and the race detector;
# strace shows which files a stage opens, and Python runs the script that
# computes what is owed (make acceptance). The window is tried on a screen and a
# session bus of its own, with OpenGL in software.
tools=(ca-certificates git npm gcc strace python3 "${window[@]}" Xvfb dbus-daemon libgl1-mesa-dri)
[ "$(uname -s)" = Linux ] || tools=(ca-certificates git npm gcc python3)
missing=()
for tool in "${tools[@]}"; do
    have "$tool" || missing+=("$(package_of "$tool")")
done
# gcc without the C library's headers cannot link.
if [ ${#missing[@]} -gt 0 ]; then
    for p in "${missing[@]}"; do
        [ "$p" != gcc ] || missing+=(libc6-dev)
    done
    apt_install "${missing[@]}" || true
fi

fatal=()
for tool in ca-certificates npm; do
    have "$tool" || fatal+=("$(package_of "$tool")")
done
later=()
for tool in "${tools[@]}"; do
    have "$tool" || later+=("$(package_of "$tool")")
done
if [ ${#fatal[@]} -gt 0 ]; then
    say "missing, and it cannot be installed from here. Run this, then try again:"
    say "  $(apt_line "${later[@]}")"
    exit 1
fi
if [ ${#later[@]} -gt 0 ]; then
    say "not needed to run Neuron, but for its window and its tests: $(apt_line "${later[@]}")"
fi

go=$(setup_go) || {
    say "no Go $go_least, and it cannot be installed from here. Run this, then try again:"
    say "  $(apt_line golang-go)"
    say "or install Go $go_least or newer from https://go.dev/dl/"
    exit 1
}

can_window=yes
[ -z "$(window_lacks)" ] || can_window=
mkdir -p "$(dirname "$output")"
cat >"$output.tmp" <<MK
# Written by scripts/setup.sh; 'make setup' makes it anew.
GO := $go
WINDOW := $can_window
export GOTOOLCHAIN := local
export PATH := $(dirname "$go"):\$(PATH)
MK
mv "$output.tmp" "$output"
say "ready: $("$go" version)"
