#!/usr/bin/env bash
# Makes the packages for this Linux machine's processor from bin/:
#
#   scripts/package-linux.sh
#
# writes into the folder DIST: of the desktop .deb, .rpm, .run and .tar.xz, of the
# tracker .deb, .rpm and .tar.gz. make package calls it, with the programs built
# and the licences collected.
#
#   VERSION              the version [what scripts/version.sh says]
#   DIST                 [dist]
#   BIN                  folder with the programs [bin]
#   FORMATS              which ones [deb rpm tar run tracker]
#   XZ_LEVEL             how hard the .tar.xz is compressed, 0 to 9 [6]
#   SOURCE_DATE_EPOCH    time stamp of all files, in Unix seconds [0]
#   NEURON_GPG_KEY_FILE  private key that signs .deb and .rpm [not signed];
#                        NFPM_PASSPHRASE is its passphrase
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"

version=${VERSION:-$(scripts/version.sh)} version=${version#v}
dist=${DIST:-dist} bin=${BIN:-bin}
wanted=" ${FORMATS:-deb rpm tar run tracker} "
want() { case $wanted in *" $1 "*) true ;; *) false ;; esac; }
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} NEURON_GPG_KEY_FILE=${NEURON_GPG_KEY_FILE:-}
readonly licences=build/package/licences/THIRD-PARTY.txt
readonly work=build/package/linux nfpm=build/tools/nfpm

say() { printf '%s\n' "package-linux: $*" >&2; }
die() {
    say "$*"
    exit 1
}

[ "$(uname -s)" = Linux ] || {
    say "NOT BUILT: the packages for Linux are made on Linux"
    exit 0
}
case $(uname -m) in
x86_64) arch=x64 goarch=amd64 ;;
aarch64) arch=arm64 goarch=arm64 ;;
*) die "no packages for $(uname -m)" ;;
esac
native=build/native/linux-$arch
for f in "$bin/neuron-engine" "$bin/neuron-tray" "$bin/neuron-tracker" "$native/LICENSE" "$licences" "$nfpm"; do
    [ -e "$f" ] || die "$f is missing (make package makes all of it)"
done
[ -e "$bin/neuron" ] || die "$bin/neuron is missing: the window cannot be built here (scripts/setup.sh window says why)"

rm -rf "$work"
mkdir -p "$work" "$dist"
started=$SECONDS

# app DEST: the folder with the programs, as it lies on a computer.
app() {
    mkdir -p "$1/lib"
    install -m 755 "$bin/neuron" "$bin/neuron-tray" "$bin/neuron-engine" "$1/"
    install -m 755 installers/linux/maintain.sh "$1/maintain"
    install -m 644 assets/model/guide-q8_0.gguf LICENSE "$licences" "$1/"
    install -m 644 "$native"/*.so "$1/lib/"
}

# share DEST: what desktops look for below share/.
share() {
    local size file date
    date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)
    install -D -m 644 installers/linux/desktop/network.neuron.app.desktop "$1/applications/network.neuron.app.desktop"
    install -D -m 644 installers/linux/desktop/network.neuron.app.mime.xml "$1/mime/packages/network.neuron.app.xml"
    mkdir -p "$1/metainfo"
    sed "s/@VERSION@/$version/; s/@DATE@/$date/" installers/linux/desktop/network.neuron.app.metainfo.xml \
        >"$1/metainfo/network.neuron.app.metainfo.xml"
    for file in assets/icons/app-*.png; do
        size=${file##*-} size=${size%.png}
        install -D -m 644 "$file" "$1/icons/hicolor/${size}x$size/apps/neuron.png"
    done
}

# stamp DIR: no file says when or by whom it was packed.
stamp() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# archive NAME: a folder of $work as a tar on stdout.
archive() {
    tar -C "$work" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$1"
}

nfpm() {
    TREE=$1 GOARCH=$goarch VERSION=$version "$nfpm" package --config "$2" --packager "$3" --target "$dist/" >"$work/nfpm.log" 2>&1 || { cat "$work/nfpm.log" >&2; die "nfpm failed"; }
    say "$3 of $(basename "$2" .yaml)"
}

# What the programs need of a system is what the packages name, no more, no less.
app "$work/needs"
scripts/package-needs.sh "$work/needs" "$bin/neuron-tracker"
rm -rf "$work/needs"

# system_wide makes .deb and .rpm.
system_wide() {
    local tree=$work/tree program
    app "$tree/usr/lib/neuron"
    share "$tree/usr/share"
    mkdir -p "$tree/usr/bin" "$tree/usr/share/doc/neuron" "$tree/usr/share/bash-completion/completions"
    for program in neuron neuron-engine neuron-tray; do
        ln -s "../lib/neuron/$program" "$tree/usr/bin/$program"
    done
    mv "$tree/usr/lib/neuron/LICENSE" "$tree/usr/share/doc/neuron/copyright"
    mv "$tree/usr/lib/neuron/THIRD-PARTY.txt" "$tree/usr/share/doc/neuron/"
    "$bin/neuron-engine" completion bash >"$tree/usr/share/bash-completion/completions/neuron-engine"
    stamp "$tree"
    ! want deb || nfpm "$tree" installers/linux/package/neuron.yaml deb
    ! want rpm || nfpm "$tree" installers/linux/package/neuron.yaml rpm
}

# one_user makes the .tar.xz, and the .run, which is the same in one file that
# unpacks itself.
one_user() {
    local name=neuron-$version-linux-$arch
    local user=$work/$name
    app "$user/app"
    share "$user/share"
    install -m 755 installers/linux/run/install.sh "$user/install.sh"
    install -m 755 installers/linux/run/uninstall.sh "$user/app/uninstall"
    install -m 644 installers/linux/run/refresh.sh "$user/app/refresh"
    uname -m >"$user/machine"
    stamp "$user"
    if want tar; then
        # Two threads, whatever the machine has: blocks are part of the result.
        archive "$name" | xz -T2 "-${XZ_LEVEL:-6}" >"$dist/$name.tar.xz"
        say "tar.xz of neuron"
    fi
    want run || return 0
    command -v makeself >/dev/null || {
        say "NOT BUILT: the .run for one user (makeself is not installed; on Debian: apt-get install makeself)"
        return 0
    }
    # Not xz: some systems lack it. No question, and no terminal window.
    makeself --gzip --complevel 6 --nox11 --noprogress --sha256 --tar-quietly --tar-format ustar \
        --tar-extra "--sort=name --mtime=@$SOURCE_DATE_EPOCH --owner=0 --group=0 --numeric-owner" \
        --packaging-date "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" \
        "$user" "$dist/$name.run" "Neuron $version" ./install.sh >"$work/makeself.log" 2>&1 || {
        cat "$work/makeself.log" >&2
        die "makeself failed"
    }
    say "run of neuron"
}

tracker() {
    local tree=$work/tracker-tree name=neuron-tracker-$version-linux-$arch
    install -D -m 755 "$bin/neuron-tracker" "$tree/usr/bin/neuron-tracker"
    install -D -m 644 installers/linux/neuron-tracker.service "$tree/usr/lib/systemd/system/neuron-tracker.service"
    install -D -m 644 LICENSE "$tree/usr/share/doc/neuron-tracker/copyright"
    install -D -m 644 "$licences" "$tree/usr/share/doc/neuron-tracker/THIRD-PARTY.txt"
    stamp "$tree"
    nfpm "$tree" installers/linux/package/tracker.yaml deb
    nfpm "$tree" installers/linux/package/tracker.yaml rpm
    install -D -m 755 "$bin/neuron-tracker" "$work/$name/neuron-tracker"
    install -m 644 installers/linux/neuron-tracker.service installers/linux/tracker.conf LICENSE "$licences" "$work/$name/"
    stamp "$work/$name"
    archive "$name" | gzip -n >"$dist/$name.tar.gz"
    say "tar.gz of the tracker"
}

if want deb || want rpm; then system_wide; fi
if want tar || want run; then one_user; fi
if want tracker; then tracker; fi
rm -rf "$work"
say "done after $((SECONDS - started)) s"
