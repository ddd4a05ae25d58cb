#!/usr/bin/env bash
# Installs, runs, upgrades and removes the Linux packages of dist/:
#
#   scripts/package-test-linux.sh [deb] [rpm] [run] [signatures]
#
# Without a name all of them. make package-test calls it.
#
#   deb         in a fresh Debian root (debootstrap), as dpkg and apt do it
#   rpm         in a fresh root with rpm's own database
#   run         as a user without rights, with an empty home
#   signatures  with a key made for it: SHA256SUMS, .deb and .rpm
#
# Each time the version before, 0.0.9, comes first: a tracker, a node and a
# gateway of the installed programs answer a question, then the installed window
# is looked at on a screen of its own, with its tray and its engine. That one is
# ended as before an upgrade while it writes an answer, which has to be whole. The
# packages of dist/ go over that while it runs: identity and settings have to stay, the
# tray and the engine have to be the new ones. Last comes the removal, and a
# listing of what is left.
#
# deb and rpm need root (chroot, mount); run gives root's rights up. What cannot
# be tried is named: NOT CHECKED. Pictures are left in build/package-test. Ends
# within ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}

readonly limit=600 # seconds for everything
if [ -z "${NEURON_PACKAGE_BOUND:-}" ]; then
    export NEURON_PACKAGE_BOUND=1
    status=0
    timeout --kill-after=30 "$limit" "$0" "$@" || status=$?
    [ "$status" -ne 124 ] || echo "package-test: FAILED: not done within $limit s" >&2
    exit "$status"
fi

[ "$(uname -s)" = Linux ] || {
    echo "package-test: NOT CHECKED: the Linux packages are tried on Linux"
    exit 0
}
root=$PWD
readonly root out=$root/build/package-test dist=${DIST:-$root/dist} old=0.0.9
readonly bin=${BIN:-$root/bin}
readonly user=61234 # of nobody on usual systems
work=$(mktemp -d /tmp/neuron-package-test-XXXXXX)
chmod 755 "$work"
readonly work
mkdir -p "$out"
version=${VERSION:-$(cat build/version)} version=${version#v}

say() { printf '%s\n' "package-test: $*"; }
not_checked() { say "************ NOT CHECKED: $*"; }
die() {
    say "FAILED: $*" >&2
    tail -n 12 "$work"/*.log "$home"/.local/share/neuron/logs/* >&2 2>/dev/null || true
    exit 1
}

mounts=()
# Everything that lives below $work is ours.
ours() {
    local p exe
    for p in /proc/[0-9]*; do
        exe=$(readlink "$p/exe" 2>/dev/null) || continue
        case $exe in "$work"/*) echo "${p#/proc/}" ;; esac
        case $(readlink "$p/root" 2>/dev/null) in "$work"/*) echo "${p#/proc/}" ;; esac
    done | sort -u
}
finish() {
    local p m
    for p in $(ours) $(jobs -pr); do kill -KILL "$p" || true; done 2>/dev/null
    wait 2>/dev/null || true
    for m in "${mounts[@]}"; do umount -l "$m" || true; done
    if mountpoint -q "$work"/*/proc 2>/dev/null; then
        say "$work is left: something is mounted there" >&2
    else
        rm -rf --one-file-system "$work"
    fi
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}

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

# older makes the packages of the version before: the same sources, stamped 0.0.9.
older() {
    local program
    mkdir -p "$work/oldbin"
    cp "$bin/neuron" "$bin/neuron-tracker" "$work/oldbin/"
    for program in engine tray; do
        CGO_ENABLED=0 GOFLAGS="-tags=nosqlite -trimpath" "$GO" build -buildvcs=false \
            -ldflags "-s -w -X neuron/internal/version.stamp=$old" -o "$work/oldbin/neuron-$program" "./$program"
    done
    VERSION=$old BIN=$work/oldbin DIST=$work/old FORMATS="$1" SOURCE_DATE_EPOCH=1 NEURON_GPG_KEY_FILE='' scripts/package-linux.sh 2>"$work/older.log" ||
        die "the packages of the version before cannot be made"
}

# screen starts an X server and leaves its number in $display.
display=""
screen() {
    command -v Xvfb >/dev/null || return 1
    [ -z "$display" ] || return 0
    mkfifo "$work/display"
    Xvfb -displayfd 3 -screen 0 1280x860x24 -nolisten tcp -noreset 3<>"$work/display" >"$work/xvfb.log" 2>&1 &
    exec 4<>"$work/display"
    read -r -t 30 -u 4 display || return 1
    CGO_ENABLED=0 "$GO" build -o "$work/screenshot" ./internal/cmd/screenshot
}

# The installed programs, as NAME ARGUMENT..., by the user: set by each part.
installed() { die "no part"; }
home="" # the user's home, as this script sees it
inside="" # the same, as the programs see it
guide=""  # the installed model, as the programs see it

# start NAME PROGRAM ARGUMENT... starts a program and waits for its first line.
start() {
    local name=$1
    shift
    installed "$@" >"$work/$name.out" 2>"$work/$name.log" </dev/null &
    until_true 60 test -s "$work/$name.out" || die "$name does not start"
}

answer() {
    installed neuron-engine chat --api "$api" --model guide-q8_0 --max-tokens 60 'What is a tracker?' >"$work/answer" 2>>"$work/chat.log" &&
        grep -q ', 1 hops\?\]$' "$work/answer"
}

# try_network: tracker, node and gateway of the installed programs answer.
try_network() {
    local name=$1 url p
    if [ -n "$tracker" ]; then
        start "$name-tracker" "$tracker" --data "$inside/tracker" --listen 127.0.0.1:0
    else
        "$bin/neuron-tracker" --data "$work/$name-tracker-data" --listen 127.0.0.1:0 >"$work/$name-tracker.out" 2>"$work/$name-tracker.log" </dev/null &
        until_true 60 test -s "$work/$name-tracker.out" || die "the tracker does not start"
    fi
    url=$(sed 's|/*$||' "$work/$name-tracker.out")
    if [ -n "$tracker" ]; then
        installed "$tracker" publish --data "$inside/tracker" "$guide" >"$work/$name-publish.log" 2>&1 || die "$name: publishing fails"
    else
        "$bin/neuron-tracker" publish --data "$work/$name-tracker-data" assets/model/guide-q8_0.gguf >"$work/$name-publish.log" 2>&1 || die "$name: publishing fails"
    fi
    start "$name-node" neuron-engine run --data "$inside/node" --model "$guide" --threads 1 --tracker "$url"
    start "$name-gateway" neuron-engine gateway --data "$inside/gateway" --tracker "$url" --key none
    network=$url
    api=$(sed -n 's/^api \([^ ]*\) .*/\1/p' "$work/$name-gateway.out")
    until_true 60 answer || die "$name: the installed programs do not answer"
    say "$name: the installed programs answer: $(head -c 60 "$work/answer" | head -n 1)..."
    installed neuron-engine stop --data "$inside/node" || die "$name: the node does not stop"
    for p in $(pids neuron-engine); do kill -TERM "$p"; done # the gateway
    until_true 30 none_runs || die "$name: the gateway does not end"
}

shown() { grep -q 'window shown' "$home/.local/share/neuron/logs/window.log" 2>/dev/null; }
engine_is() { installed neuron-engine status --json 2>/dev/null | grep -q "\"version\": *\"$1\""; }
tray_runs() { [ -n "$(pids neuron-tray)" ]; }
pids() { # PROGRAM: the user's processes of an installed program
    local p
    for p in $(ours); do
        case $(readlink "/proc/$p/exe") in */"$1" | */"$1 (deleted)") echo "$p" ;; esac
    done
}
none_runs() { [ -z "$(pids neuron)$(pids neuron-tray)$(pids neuron-engine)" ]; }
identity() { installed neuron-engine status --json | grep -o '"node": *"[^"]*"' | sort -u; }

# try_window NAME: the installed window comes up with tray and engine.
try_window() {
    screen || {
        not_checked "$1: the window (Xvfb is not installed)"
        installed neuron-tray --hidden >"$work/$1-tray.log" 2>&1 &
        until_true 90 engine_is "$old" || die "$1: the engine does not come up"
        return 0
    }
    installed neuron --page models >"$work/$1-window.log" 2>&1 &
    until_true 120 shown || die "$1: the window is not shown"
    until_true 60 engine_is "$old" || die "$1: the window starts no engine of version $old"
    until_true 30 tray_runs || die "$1: the window starts no tray"
    installed neuron-engine settings set_up >/dev/null 2>&1 || true
    until_true 30 "$work/screenshot" -display ":$display" -colours 80 "$out/$1-window.png" 2>>"$work/$1-window.log" || die "$1: nothing is drawn"
    # A file that is opened meanwhile goes to the window that is there.
    installed neuron "$guide" >>"$work/$1-window.log" 2>&1 || die "$1: a model's file cannot be opened"
    sleep 1 # for the picture alone
    "$work/screenshot" -display ":$display" "$out/$1-open.png"
    say "$1: the installed window is drawn (build/package-test/$1-window.png)"
}

# Ends of turns are forbidden, so that an answer takes all its tokens.
bias=$(for i in $(seq 0 10) $(seq 2036 2047); do printf '"%s":-100,' "$i"; done)
readonly bias=${bias%,} long=1800
ask() { # TOKENS FILE
    curl -sS -N -m 120 "$api/chat/completions" \
        -d "{\"model\":\"guide-q8_0\",\"stream\":true,\"max_tokens\":$1,\"temperature\":0,\"logit_bias\":{$bias},\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]}" >"$2" 2>>"$work/curl.log" &&
        grep -q 'data: \[DONE\]' "$2"
}

# try_finish NAME MAINTAIN: what the packages do before they replace files, while
# this computer works for somebody else's answer.
try_finish() {
    local name=$1 answer asked whole setting log=$home/.local/share/neuron/logs/engine.log
    command -v curl >/dev/null || {
        not_checked "$name: an answer that is being written (curl is not installed)"
        return 0
    }
    for setting in "tracker $network" "rules.busy_percent 0" "rules.on_battery on" "rules.on_metered on" "rules.full_screen off"; do
        # shellcheck disable=SC2086 # name and value
        installed neuron-engine settings $setting >/dev/null || die "$name: the setting $setting"
    done
    installed neuron-engine hold "$guide" >/dev/null || die "$name: the model is not taken"
    installed neuron-engine share on >/dev/null || die "$name: sharing is not taken"
    "$bin/neuron-engine" gateway --data "$work/$name-outside" --tracker "$network" --key none \
        >"$work/$name-outside.out" 2>"$work/$name-outside.log" </dev/null &
    until_true 60 test -s "$work/$name-outside.out" || die "$name: no gateway outside"
    api=$(sed -n 's/^api \([^ ]*\) .*/\1/p' "$work/$name-outside.out")
    until_true 90 ask 3 "$work/$name-short.txt" || die "$name: the desktop engine does not work for others: $(tail -c 300 "$work/$name-short.txt") $(installed neuron-engine status 2>&1)"
    ask "$long" "$work/$name-long.txt" &
    answer=$!
    until_true 30 test -s "$work/$name-long.txt" || die "$name: no answer begins"
    "$2" finish || die "$name: maintain finish fails"
    wait "$answer" || die "$name: the answer is not whole: $(tail -c 300 "$work/$name-long.txt")"
    asked=$(grep -n -a 'shutdown asked for' "$log" | tail -n 1 | cut -d : -f 1)
    whole=$(grep -n -a 'seam session ended' "$log" | tail -n 1 | cut -d : -f 1)
    if [ -n "$asked" ] && [ -n "$whole" ] && [ "$asked" -lt "$whole" ]; then
        say "$name: an answer of $long tokens for somebody else was finished before the engine ended"
    else
        not_checked "$name: an answer at the end: it was whole before the engine was asked to end"
    fi
}

# upgraded NAME ID: the new engine and tray have taken over, with what was there.
upgraded() {
    until_true 120 engine_is "$version" || die "$1: after the upgrade the engine is $(installed neuron-engine status --json | grep '"version"')"
    [ "$(identity)" = "$2" ] || die "$1: after the upgrade the node is $(identity), it was $2"
    [ "$(installed neuron-engine settings limits.up_rate)" = "$rate" ] || die "$1: the upgrade has lost the settings"
    tray_runs || die "$1: after the upgrade there is no tray"
    say "$1: upgraded from $old to $version while it ran; the same node, settings kept"
}

# whole NAME UPGRADE REMOVE MAINTAIN: the part that all kinds share, after the
# first installation. The last three are commands.
whole() {
    local name=$1 id
    try_network "$name"
    try_window "$name"
    installed neuron-engine settings limits.up_rate 123kB >/dev/null
    rate=$(installed neuron-engine settings limits.up_rate)
    id=$(identity)
    try_finish "$name" "$4"
    "$2" >"$work/$name-upgrade.log" 2>&1 || die "$name: the upgrade fails"
    upgraded "$name" "$id"
    "$3" >"$work/$name-remove.log" 2>&1 || die "$name: the removal fails"
    until_true 30 none_runs || die "$name: after the removal these run: $(ours | tr '\n' ' ')"
}

# listing DIR: everything below it but what a system changes by itself.
listing() {
    (cd "$1" && find . -xdev \( -path ./proc -o -path ./tmp -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt \
        -o -path ./var/lib/dpkg/info -o -path ./var/lib/rpm -o -path ./usr/lib/sysimage \) -prune -o -print | sort)
}

# fresh NAME: a root of its own in $work/NAME with the libraries that the package
# asks for.
fresh() {
    local r=$work/$1 needs=libgl1-mesa-dri base=$out/bookworm.tar
    [ "$(id -u)" -eq 0 ] || return 1
    if [ ! -e "$base" ]; then
        command -v debootstrap >/dev/null || return 1
        say "debootstrap (once; kept in build/package-test)"
        debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log" 2>&1 || return 1
        cp /etc/apt/sources.list.d/* "$work/base/etc/apt/sources.list.d/" 2>/dev/null || true
        needs+=", $(dpkg-deb -f "$(package deb)" Depends)"
        chroot "$work/base" sh -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get satisfy -y -qq --no-install-recommends '$needs' && apt-get clean" >>"$work/debootstrap.log" 2>&1 || return 1
        tar -C "$work/base" -cf "$base.new" .
        mv "$base.new" "$base"
        rm -rf "$work/base"
    fi
    mkdir -p "$r"
    tar -C "$r" -xf "$base"
    mount -t proc proc "$r/proc" || return 1
    mounts+=("$r/proc")
    chroot "$r" useradd --create-home --uid "$user" tester
    home=$r/home/tester inside=/home/tester guide=/usr/lib/neuron/guide-q8_0.gguf tracker=neuron-tracker
    here=$r
    installed() {
        chroot --userspec="$user:$user" "$here" env -i HOME=/home/tester PATH=/usr/bin:/bin LANG=en_US.UTF-8 \
            DISPLAY="${display:+:$display}" GGML_NO_BACKTRACE=1 "$@"
    }
}

# left NAME: compares the listing of a root with the one before.
left() {
    listing "$here" >"$out/$1-after.txt"
    diff "$out/$1-before.txt" "$out/$1-after.txt" | grep '^[<>]' | grep -v -E '^> \./home/tester(/|$)' >"$out/$1-left.txt" || true
    [ ! -s "$out/$1-left.txt" ] || die "$1: the removal left, or took: $(head -n 20 "$out/$1-left.txt")"
    [ -d "$home/.local/share/neuron" ] || die "$1: the user's data is gone"
    say "$1: nothing is left but the user's own folder ($(du -sh "$home/.local/share/neuron" | cut -f 1))"
}

root_maintain() { chroot "$here" /usr/lib/neuron/maintain "$@"; }

test_deb() {
    fresh deb || {
        not_checked "the .deb (wants root, chroot, mount and debootstrap)"
        return 0
    }
    listing "$here" >"$out/deb-before.txt"
    cp "$(package deb "$work/old")" "$here/tmp/old.deb"
    cp "$(package deb)" "$here/tmp/new.deb"
    cp "$(package tracker-deb)" "$here/tmp/tracker.deb"
    chroot "$here" dpkg -i /tmp/old.deb /tmp/tracker.deb >"$work/deb-install.log" 2>&1 || die "deb: dpkg -i fails; are the dependencies those that it names?"
    chroot "$here" sh -c 'ldd /usr/lib/neuron/neuron /usr/lib/neuron/lib/*.so' >"$work/ldd.log"
    ! grep 'not found' "$work/ldd.log" || die "deb: libraries are missing that it does not name"
    echo '# mine' >>"$here/etc/neuron/tracker.conf"
    whole deb deb_upgrade deb_remove root_maintain
    ! grep -q -s "^# mine$" "$here/etc/neuron/tracker.conf" || die "deb: purging the tracker left its settings"
    left deb
}
deb_upgrade() {
    chroot "$here" dpkg -i /tmp/new.deb &&
        chroot "$here" dpkg -i /tmp/tracker.deb && grep -q '^# mine$' "$here/etc/neuron/tracker.conf"
}
deb_remove() {
    local p
    for p in $(pids neuron-tracker); do kill -TERM "$p"; done
    chroot "$here" dpkg --purge neuron neuron-tracker
}

test_rpm() {
    command -v rpm >/dev/null || {
        not_checked "the .rpm (rpm is not installed; on Debian: apt-get install rpm)"
        return 0
    }
    fresh rpm || {
        not_checked "the .rpm (wants root, chroot, mount and debootstrap)"
        return 0
    }
    rpm --root "$here" --initdb
    # Folders that the package "filesystem" has where rpm is at home.
    mkdir -p "$here/usr/share/applications" "$here/usr/share/icons" "$here/usr/share/metainfo"
    listing "$here" >"$out/rpm-before.txt"
    # The libraries of this root are Debian's, of which rpm knows nothing. What the
    # package asks for is compared with the programs by scripts/package-needs.sh.
    rpm --root "$here" -i --nodeps "$(package rpm "$work/old")" "$(package tracker-rpm)" >"$work/rpm-install.log" 2>&1 || die "rpm: rpm -i fails"
    whole rpm rpm_upgrade rpm_remove root_maintain
    left rpm
}
rpm_upgrade() { rpm --root "$here" -U --nodeps "$(package rpm)"; }
rpm_remove() {
    local p
    for p in $(pids neuron-tracker); do kill -TERM "$p"; done
    rpm --root "$here" -e neuron neuron-tracker
}

test_run() {
    home=$work/home inside=$work/home guide=$work/home/.local/lib/neuron/guide-q8_0.gguf tracker=""
    mkdir -p "$home"
    local as=()
    if [ "$(id -u)" -eq 0 ]; then
        command -v setpriv >/dev/null || {
            not_checked "the .run (setpriv is not installed)"
            return 0
        }
        chown "$user:$user" "$home"
        as=(setpriv --reuid "$user" --regid "$user" --clear-groups --)
    fi
    rights=("${as[@]}")
    installed() {
        (cd "$home" && exec "${rights[@]}" env -i HOME="$home" PATH="$home/.local/bin:/usr/bin:/bin" LANG=en_US.UTF-8 \
            DISPLAY="${display:+:$display}" GGML_NO_BACKTRACE=1 "$@")
    }
    install -m 755 "$(package run "$work/old")" "$work/old.run"
    install -m 755 "$(package run)" "$work/new.run"
    installed "$work/old.run" --quiet -- --no-start >"$work/run-install.log" 2>&1 || die "run: the installation fails"
    installed sh -c "ldd $home/.local/lib/neuron/lib/*.so" >"$work/ldd.log"
    ! grep 'not found' "$work/ldd.log" || die "run: libraries are missing"
    if command -v desktop-file-validate >/dev/null; then
        desktop-file-validate "$home/.local/share/applications/network.neuron.app.desktop" || die "run: the menu entry"
    fi
    whole run run_upgrade run_keep run_maintain
    (cd "$home" && find . -type f | sort) >"$out/run-kept.txt"
    ! grep -v -E '^\./(\.local/share/neuron|node|gateway|tracker)/' "$out/run-kept.txt" || die "run: files are left that are no data"
    [ -d "$home/.local/share/neuron" ] || die "run: the data is gone, though it was to be kept"
    # Again over the kept data, and away with all of it.
    installed "$work/new.run" --quiet -- --no-start >"$work/run-again.log" 2>&1 || die "run: installing again fails"
    installed "$home/.local/lib/neuron/uninstall" --remove-data >"$work/run-removed.log" 2>&1 || die "run: removing all fails"
    rm -rf "$home/node" "$home/gateway" "$home/tracker"
    (cd "$home" && find . -mindepth 1 | sort) >"$out/run-left.txt"
    [ ! -s "$out/run-left.txt" ] || die "run: removing everything left $(tr '\n' ' ' <"$out/run-left.txt")"
    say "run: removed with the data, the home is empty; removed without it, nothing but the data was left"
}
run_maintain() { installed "$home/.local/lib/neuron/maintain" "$@"; }
run_upgrade() { installed "$work/new.run" --quiet -- --no-start; }
run_keep() { installed "$home/.local/lib/neuron/uninstall" </dev/null; }

# What a release does with its keys, with a key that is thrown away.
test_signatures() {
    command -v gpg >/dev/null || {
        not_checked "signatures (gpg is not installed)"
        return 0
    }
    local keys=$work/keys made=$work/signed
    mkdir -m 700 "$keys"
    mkdir "$made"
    GNUPGHOME=$keys gpg --batch --quiet --passphrase '' --quick-gen-key 'Neuron test <test@neuron.invalid>' rsa2048 sign 1d 2>"$work/gpg.log" || die "signatures: no key"
    GNUPGHOME=$keys gpg --batch --quiet --export-secret-keys --armor >"$keys/private.asc" 2>>"$work/gpg.log"
    GNUPGHOME=$keys gpg --batch --quiet --export --armor >"$keys/public.asc"
    VERSION=$version DIST=$made FORMATS=tracker SOURCE_DATE_EPOCH=1 NEURON_GPG_KEY_FILE=$keys/private.asc scripts/package-linux.sh 2>"$work/signed.log" || die "signatures: packages cannot be signed"
    ar t "$(package tracker-deb "$made")" | grep -q '^_gpgorigin$' || die "signatures: the .deb has none"
    if command -v rpmkeys >/dev/null; then
        rpmkeys --dbpath "$work/rpmdb" --initdb 2>/dev/null || mkdir -p "$work/rpmdb"
        rpmkeys --dbpath "$work/rpmdb" --import "$keys/public.asc"
        rpmkeys --dbpath "$work/rpmdb" --checksig "$(package tracker-rpm "$made")" | grep -q 'signatures OK' || die "signatures: the .rpm's does not fit"
    else
        not_checked "the signature of the .rpm (rpmkeys is not installed)"
    fi
    (cd "$dist" && sha256sum --quiet -c SHA256SUMS) || die "signatures: SHA256SUMS does not fit dist/"
    GNUPGHOME=$keys gpg --batch --quiet --local-user test@neuron.invalid --armor --detach-sign --output "$work/SHA256SUMS.asc" "$dist/SHA256SUMS"
    GNUPGHOME=$keys gpg --batch --quiet --verify "$work/SHA256SUMS.asc" "$dist/SHA256SUMS" 2>>"$work/gpg.log" || die "signatures: that of SHA256SUMS does not fit"
    say "signatures: .deb, .rpm and SHA256SUMS are signed, sums fit"
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(deb rpm run signatures)
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
began=$SECONDS
older "${parts[*]/signatures/}"
say "packages of version $old made after $((SECONDS - began)) s"
for part in "${parts[@]}"; do
    began=$SECONDS
    "test_$part"
    say "$part: done after $((SECONDS - began)) s"
done
