#!/usr/bin/env bash
# Installs, runs, upgrades and removes the Linux packages of dist/:
#
#   scripts/package-test-linux.sh [deb] [rpm] [run] [update] [signatures]
#
# Without a name all of them. make package-test calls it.
#
#   deb         in a fresh Debian root (debootstrap), as dpkg and apt do it
#   rpm         in a fresh root with rpm's own database
#   run         as a user without rights, with an empty home
#   update      the same, as the installed engine does it by a signed list
#   signatures  with a key made for it: SHA256SUMS, .deb and .rpm
#
# Of the first three the version before, 0.0.9, comes first: a tracker, a node and a
# gateway of the installed programs answer a question, then the installed window
# is looked at on a screen of its own, with its tray and its engine. That one is
# ended as before an upgrade while it writes an answer, which has to be whole. The
# packages of dist/ go over that while it runs: identity and settings have to stay, the
# tray and the engine have to be the new ones. Last comes the removal, and a
# listing of what is left.
#
# deb and rpm need root (chroot, mount); run and update give root's rights up. What
# cannot be tried is named: NOT CHECKED. Pictures are left in build/package-test.
# Ends within fifteen minutes; five are usual. The parts are in scripts/trial.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"
GO=${GO:-go}

trial=package-test
[ "$(uname -s)" = Linux ] || {
    echo "$trial: NOT CHECKED: the Linux packages are tried on Linux"
    exit 0
}
readonly out=$PWD/build/package-test dist=${DIST:-$PWD/dist} bin=${BIN:-$PWD/bin} old=0.0.9
readonly user=61234 # of nobody on usual systems
version=${VERSION:-$(cat build/version)} version=${version#v}
# shellcheck source=scripts/trial/trial.bash
. scripts/trial/trial.bash
# shellcheck source=scripts/trial/app.bash
. scripts/trial/app.bash
# shellcheck source=scripts/trial/rooted.bash
. scripts/trial/rooted.bash
# shellcheck source=scripts/trial/user.bash
. scripts/trial/user.bash
# shellcheck source=scripts/trial/signatures.bash
. scripts/trial/signatures.bash
bounded 900 "$0" "$@"
mkdir -p "$out"
work=$(mktemp -d /tmp/neuron-package-test-XXXXXX)
chmod 755 "$work" # others than root read there
readonly work

finish() {
    local p m
    for p in $(ours); do kill -KILL "$p" || true; done 2>/dev/null
    end_jobs KILL
    for m in "${mounts[@]}"; do umount -l "$m" || true; done
    if mountpoint -q "$work"/*/proc 2>/dev/null; then
        said "$work is left: something is mounted there" >&2
    else
        rm -rf --one-file-system "$work"
    fi
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# package KIND [FOLDER]: the one file of a kind.
package() {
    local dir=${2:-$dist} found
    case $1 in
    deb) found=("$dir"/neuron_*.deb) ;;
    rpm) found=("$dir"/neuron-[0-9]*.rpm) ;;
    run) found=("$dir"/neuron-[0-9]*.run) ;;
    tracker-deb) found=("$dir"/neuron-tracker_*.deb) ;;
    tracker-rpm) found=("$dir"/neuron-tracker-[0-9]*.rpm) ;;
    esac
    [ ${#found[@]} -eq 1 ] && [ -e "${found[0]}" ] || die "want one $1 in $dir, found: ${found[*]}"
    echo "${found[0]}"
}

# older FORMATS makes the packages of the version before: the same sources, stamped
# 0.0.9, with the release key of this test.
older() {
    local program
    mkdir -p "$work/oldbin"
    cp "$bin/neuron" "$bin/neuron-tracker" "$work/oldbin/"
    for program in engine tray; do
        CGO_ENABLED=0 GOFLAGS="-tags=nosqlite -trimpath" "$GO" build -buildvcs=false \
            -ldflags "-s -w -X neuron/internal/version.stamp=$old ${stamp:-}" -o "$work/oldbin/neuron-$program" "./$program"
    done
    VERSION=$old BIN=$work/oldbin DIST=$work/old FORMATS="$1" SOURCE_DATE_EPOCH=1 NEURON_GPG_KEY_FILE='' scripts/package-linux.sh 2>"$work/older.log" ||
        die "the packages of the version before cannot be made"
}

# descriptions: what desktops read.
descriptions() {
    if command -v appstreamcli >/dev/null; then
        sed "s/@VERSION@/$version/; s/@DATE@/2026-01-01/" installers/linux/desktop/network.neuron.app.metainfo.xml >"$work/network.neuron.app.metainfo.xml"
        appstreamcli validate --no-net "$work/network.neuron.app.metainfo.xml" >"$work/appstream.log" || {
            cat "$work/appstream.log"
            die "AppStream"
        }
    else
        not_checked "the AppStream description (appstreamcli is not installed)"
    fi
    if command -v desktop-file-validate >/dev/null; then
        desktop-file-validate installers/linux/desktop/network.neuron.app.desktop || die "the menu entry"
    else
        not_checked "the menu entry (desktop-file-utils is not installed)"
    fi
}

command -v curl >/dev/null || {
    not_checked "all of it: curl is not installed"
    exit 0
}
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(deb rpm run update signatures)
for kind in "${kinds[@]}"; do
    declare -F "test_$kind" >/dev/null || die "there is no kind $kind"
done
descriptions
formats=""
for kind in "${kinds[@]}"; do
    case $kind in
    signatures) ;;
    update) ! publisher || formats+=" run" ;;
    *) formats+=" $kind" ;;
    esac
done
if [ -n "$formats" ]; then
    older "$formats"
    said "packages of version $old are made"
fi
results=()
for kind in "${kinds[@]}"; do
    began=$SECONDS
    "test_$kind"
    results+=("$kind $((SECONDS - began)) s")
done
said "ok: $(IFS=,; echo "${results[*]}")"
