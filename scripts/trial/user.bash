# shellcheck shell=bash
# The package that one user installs, the .run: by hand, and as an update that the
# installed engine has fetched. Sourced by package-test-linux.sh after app.bash.

# can_be_a_user KIND leaves in $rights what gives root's rights up, or says what it
# lacks and fails.
can_be_a_user() {
    rights=()
    [ "$(id -u)" -eq 0 ] || return 0
    command -v setpriv >/dev/null || {
        not_checked "$1 (setpriv is not installed)"
        return 1
    }
    rights=(setpriv --reuid "$user" --regid "$user" --clear-groups --)
}

# a_user KIND: an empty home of a user without rights, with the version before.
a_user() {
    local before
    home=$work/$1-home inside=$work/$1-home folder=$work/$1-home/.local/lib/neuron tracker=""
    guide=$folder/guide-q8_0.gguf data=$home/.local/share/neuron environment=()
    mkdir -p "$home"
    [ ${#rights[@]} -eq 0 ] || chown "$user:$user" "$home"
    installed() {
        (cd "$home" && exec "${rights[@]}" env -i HOME="$home" PATH="$home/.local/bin:/usr/bin:/bin" LANG=en_US.UTF-8 \
            DISPLAY="${display:+:$display}" GGML_NO_BACKTRACE=1 "${environment[@]}" "$@")
    }
    before=$(package run "$work/old")
    new=$(package run)
    install -m 644 "$new" "$work/new.run" # that user may not get to dist
    chmod 755 "$before"
    installed "$before" --quiet -- --no-start >"$work/$1-install.log" 2>&1 || die "$1: the installation fails"
}
# all_gone KIND: the home is as empty as it was.
all_gone() {
    installed "$folder/uninstall" --remove-data >"$work/$1-removed.log" 2>&1 || die "$1: removing all fails"
    rm -rf "$home/node" "$home/gateway" "$home/tracker"
    (cd "$home" && find . -mindepth 1 | sort) >"$out/$1-left.txt"
    [ ! -s "$out/$1-left.txt" ] || die "$1: removing everything left $(tr '\n' ' ' <"$out/$1-left.txt")"
}

test_run() {
    can_be_a_user run || return 0
    a_user run
    installed sh -c "ldd $folder/lib/*.so" >"$work/ldd.log"
    ! grep 'not found' "$work/ldd.log" || die "run: libraries are missing"
    if command -v desktop-file-validate >/dev/null; then
        desktop-file-validate "$home/.local/share/applications/network.neuron.app.desktop" || die "run: the menu entry"
    fi
    whole run run_upgrade run_keep run_maintain
    (cd "$home" && find . -type f | sort) >"$out/run-kept.txt"
    ! grep -v -E '^\./(\.local/share/neuron|node|gateway|tracker)/' "$out/run-kept.txt" || die "run: files are left that are no data"
    [ -d "$data" ] || die "run: the data is gone, though it was to be kept"
    # Again over the kept data, and away with all of it.
    installed sh "$work/new.run" --quiet -- --no-start >"$work/run-again.log" 2>&1 || die "run: installing again fails"
    all_gone run
    said "run: removed with the data, the home is empty; removed without it, nothing but the data was left"
}
run_maintain() { installed "$folder/maintain" "$@"; }
run_upgrade() { installed sh "$work/new.run" --quiet -- --no-start; }
run_keep() { installed "$folder/uninstall" </dev/null; }

# publisher begins a place of releases on loopback, with a key that is thrown away:
# $release has its folder, $stamp is what a build has to know of it. Says what it
# lacks, and fails.
publisher() {
    local tool
    for tool in openssl python3; do
        command -v "$tool" >/dev/null || {
            not_checked "update ($tool is not installed)"
            return 1
        }
    done
    release=$work/release
    mkdir -p "$release"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=127.0.0.1" -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$work/tls-key.pem" -out "$work/tls.pem" 2>/dev/null || die "update: no certificate"
    chmod 644 "$work/tls.pem"
    start publisher python3 scripts/trial/https.py "$release" "$work/tls.pem" "$work/tls-key.pem"
    CGO_ENABLED=0 "${GO:-go}" build -o "$work/releasefeed" ./internal/cmd/releasefeed
    stamp="-X neuron/engine/update.stampedKeys=$("$work/releasefeed" keygen -out "$work/release.key")"
    stamp+=" -X neuron/engine/update.stampedFeed=$(cat "$work/publisher.out")/stable.json"
    "$work/releasefeed" keygen -out "$work/other.key" >/dev/null
}

# list NAME SERIAL [KEY] signs a list of the new .run.
list() {
    "$work/releasefeed" sign -key "${3:-$work/release.key}" -dist "$release" -version "$version" -serial "$2" -out "$work/$1.json" 2>"$work/list.log" || die "update: the list cannot be signed"
}
# publish LIST offers it.
publish() { cp "$work/$1.json" "$release/stable.json"; }
# other_byte FILE OFFSET changes one byte, whatever it is.
other_byte() {
    local is
    is=$(od -A n -t u1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # an escape that was made for it
    printf "\\$(printf %o $((is ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
state() { installed neuron-engine update --json | sed -n 's/^  "state": *"\(.*\)".*/\1/p'; }
asked_for() { grep -c -F "GET /$1" "$work/publisher.log" || true; }
kept() { (cd "$data" && sha256sum owner.key node/node.key settings.json); }

# refused WHAT COMMAND STATE: the engine's command is refused as not to be believed,
# and nothing has changed: what is known, what is on the disk, and what runs.
refused() {
    local what=$1 command=$2 known=$3 before=$4
    ! installed neuron-engine update "$command" >"$work/update.txt" 2>&1 || die "update: $what is taken"
    grep -q update_invalid "$work/update.txt" || die "update: $what is refused, but with: $(cat "$work/update.txt")"
    [ "$(state)" = "$known" ] || die "update: after $what the state is $(state), it was $known"
    [ "$(ls "$data/update")" = "$before" ] || die "update: $what left files: $(ls "$data/update" | tr '\n' ' ')"
    engine_is "$old" && tray_runs || die "update: after $what another version runs"
}

# test_update: the installed version finds a newer one by itself, and no false one.
test_update() {
    [ -n "${stamp:-}" ] || return 0 # publisher has said why
    can_be_a_user update || return 0
    local run id before files
    a_user update
    # What a system's own store of certificates is elsewhere.
    environment=(SSL_CERT_FILE="$work/tls.pem")
    run=$(basename "$new")
    cp "$new" "$release/$run"
    (cd "$release" && sha256sum "$run" >SHA256SUMS)
    list older 10
    list newest 11
    list foreign 12 "$work/other.key"
    sed 's/"serial":11/"serial":13/' "$work/newest.json" >"$work/tampered.json"
    ! cmp -s "$work/newest.json" "$work/tampered.json" || die "update: nothing was tampered with"

    installed neuron-tray --hidden >"$work/update-tray.log" 2>&1 &
    until_true 90 engine_is "$old" || die "update: the engine does not come up"
    a_setting
    id=$(identity) before=$(kept)

    # Before anything is known, then with the newest list known.
    publish tampered
    refused "a list that was changed" check unknown "state.json"
    publish foreign
    refused "a list by another key" check unknown "state.json"
    publish newest
    installed neuron-engine update check >"$work/update.txt" || die "update: the list is not taken"
    [ "$(state)" = available ] || die "update: the state is $(state), not available"
    files=$(ls "$data/update")
    publish older
    refused "a list that was replayed" check available "$files"
    publish tampered
    refused "a list that was changed" check available "$files"
    [ "$(asked_for "$run")" -eq 0 ] || die "update: the package was asked for before anybody wanted it"

    # A package of the right size with one byte changed.
    publish newest
    other_byte "$release/$run" 1000000
    ! cmp -s "$new" "$release/$run" || die "update: the package was not changed"
    refused "a package that was changed" download available "$files"
    [ "$(asked_for "$run")" -eq 1 ] || die "update: the changed package was not even asked for"
    cp "$new" "$release/$run"
    installed neuron-engine update download >"$work/update.txt" 2>&1 || die "update: the package is not taken: $(cat "$work/update.txt")"
    [ "$(state)" = ready ] || die "update: the state is $(state), not ready"
    installed neuron-engine update install >"$work/update.txt" 2>&1 || die "update: it cannot be installed: $(cat "$work/update.txt")"
    upgraded update "$id"
    until_true 60 has "$data/logs/update.out" "Neuron $version is installed (it was $old)" || die "update: the installer's words are not kept: $(cat "$data/logs/update.out" 2>&1)"
    [ "$(kept)" = "$before" ] || die "update: keys or settings have changed"
    said "update: $old has found, fetched, checked and installed $version; lists that were changed, replayed or signed by another, and a changed package, did nothing"
    all_gone update
}
