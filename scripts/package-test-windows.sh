#!/usr/bin/env bash
# Tries the setup program for Windows under Wine, in a fresh prefix:
#
#   scripts/package-test-windows.sh
#
# An older version, signed with a key made for this, is installed without a
# question; the installed engine answers a prompt as one of two nodes (the other
# one, and the tracker, are those of bin/); the installed window shows; a setup
# that finds the programs busy changes nothing; the newer version is installed
# while an answer is being written, which has to come to its end; the programs are
# back, hidden, with the same keys. Then they are removed, with the data kept, and
# once more without. Listings of files and registry say what is left.
#
# The newer setup is DIST's where it has one of this VERSION, else it is made
# here. Wants bin/ and the Linux libraries (make build native); says what it
# cannot check. Ends within 20 minutes; two are usual, once all is compiled.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"

trial=package-test-windows
readonly root=$PWD work=$PWD/build/package-test/windows
# shellcheck source=scripts/trial/trial.bash
. scripts/trial/trial.bash
# shellcheck source=scripts/trial/wine.bash
. scripts/trial/wine.bash
bounded 1200 "$0" "$@"

find_wine || exit 0
for tool in makensis x86_64-w64-mingw32-gcc curl; do
    command -v "$tool" >/dev/null || {
        not_checked "all of it: $tool is not installed; on Debian: apt-get install nsis gcc-mingw-w64-x86-64 curl"
        exit 0
    }
done

version=${VERSION:-$(cat build/version)} version=${version#v} dist=${DIST:-dist}
rm -rf "$work"
mkdir -p "$work/dist" "$work/licences"
unset NEURON_LLAMA_DIR DISPLAY

finish() {
    end_wine
    end_jobs TERM
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# ------------------------------------------------------------- the two versions

new=$dist/neuron-$version-windows-x64-setup.exe
if [ ! -e "$new" ]; then
    QUICK=1 VERSION=$version DIST=$work/dist scripts/package-windows.sh || die "the setup cannot be made"
    new=$work/dist/neuron-$version-windows-x64-setup.exe
fi
signed=
if command -v osslsigncode >/dev/null && command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Neuron test" -addext extendedKeyUsage=codeSigning \
        -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
    signed=yes
    export NEURON_AUTHENTICODE_CERT=$work/cert.pem NEURON_AUTHENTICODE_KEY=$work/key.pem
fi
# With one file that the newer one does not have any more.
echo "A part that the newer version does without." >"$work/licences/of-the-older-version.txt"
QUICK=1 VERSION=0.0.1 DIST=$work/dist LICENCES=$work/licences scripts/package-windows.sh || die "the older setup cannot be made"
old=$work/dist/neuron-0.0.1-windows-x64-setup.exe
unset NEURON_AUTHENTICODE_CERT NEURON_AUTHENTICODE_KEY
said "two versions are there"

verified() { osslsigncode verify -CAfile "$work/cert.pem" -in "$1" >"$work/verify.txt" 2>&1; }
if [ -n "$signed" ]; then
    verified "$old" || die "the signature of $old does not hold"
    # One byte of a program's text, not of the signature.
    cp "$old" "$work/changed.exe"
    printf 'X' | dd of="$work/changed.exe" bs=1 seek=100000 conv=notrunc status=none
    ! verified "$work/changed.exe" || die "a changed setup has a valid signature"
    rm "$work/changed.exe"
else
    not_checked "signing: osslsigncode or openssl is not installed"
fi

# ------------------------------------------------------------------- the prefix

if screen; then
    export DISPLAY=:$display
else
    not_checked "the window and the tray: Xvfb is not installed"
fi
wine_prefix "$work/prefix" || exit 0

user=$WINEPREFIX/drive_c/users/$(id -un)
local=$user/AppData/Local app=$user/AppData/Local/Programs/Neuron
data=$local/Neuron
[ -d "$local" ] || die "no $local"
run() { timeout 60 "$wine" "$@" </dev/null; }
uninstall_key='HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall\Neuron'
run_key='HKCU\Software\Microsoft\Windows\CurrentVersion\Run'
# value KEY NAME prints a value of the registry.
value() { run reg query "$1" /v "$2" 2>/dev/null | tr -d '\r' | sed -n "s/^    $2    REG_[A-Z]*    //p"; }
# The listings: all files but the system's own and the temporary ones, and what
# the user's part of the registry says about programs.
files() { (cd "$WINEPREFIX/drive_c" && find . -path ./windows -prune -o -path '*/Temp/*' -prune -o -print | LC_ALL=C sort); }
registry() { # FILE
    run reg export 'HKCU\Software' 'C:\out.reg' /y >/dev/null 2>&1 || die "the registry cannot be listed"
    iconv -f UTF-16 -t UTF-8 "$WINEPREFIX/drive_c/out.reg" | tr -d '\r' >"$1"
    rm "$WINEPREFIX/drive_c/out.reg"
}
# Another program that opens models, which has to stay.
run reg add 'HKCU\Software\Classes\.gguf\OpenWithProgids' /v Another.gguf /d '' /f >/dev/null
mkdir -p "$user/AppData/Roaming/Microsoft/Windows/Start Menu/Programs"
files >"$work/files-before"
registry "$work/registry-before"
said "a fresh prefix"

# ------------------------------------------------------------------ first install

# setup FILE... runs a setup to its end; its exit status is in $status.
setup() {
    status=0
    timeout 240 "$wine" "$1" /S </dev/null >>"$work/setup.log" 2>&1 || status=$?
}
# installed VERSION: exactly the listed files are there, and the list is whole.
installed() {
    [ "$(value "$uninstall_key" DisplayVersion)" = "$1" ] || die "version $(value "$uninstall_key" DisplayVersion) is registered, not $1"
    (cd "$app" && find . -type f ! -name uninstall.exe ! -name hidden.lnk -printf '%P\n' | tr / '\\' | LC_ALL=C sort) >"$work/there"
    tr -d '\r' <"$app/installed.txt" | LC_ALL=C sort | diff - "$work/there" >"$work/diff" || die "other files than the listed ones: $(cat "$work/diff")"
    [ -e "$app/uninstall.exe" ] || die "there is no uninstaller"
}
setup "$old"
[ "$status" -eq 0 ] || die "the setup ends with $status"
installed 0.0.1
for v in DisplayName Publisher DisplayIcon EstimatedSize UninstallString QuietUninstallString; do
    [ -n "$(value "$uninstall_key" $v)" ] || die "no $v is registered"
done
has "$user/AppData/Roaming/Microsoft/Windows/Start Menu/Programs/Neuron.lnk" || die "nothing is in the start menu"
[ -z "$(value "$run_key" Neuron)" ] || die "the setup makes Neuron start at login"
absent "$data" || die "the setup makes a data folder"
run reg query 'HKCU\Software\Classes\neuron\shell\open\command' 2>/dev/null | grep -q -F 'neuron.exe" "%1"' || die "no program for neuron: addresses"
run reg query 'HKCU\Software\Classes\.gguf\OpenWithProgids' 2>/dev/null | grep -q Neuron.gguf || die "no program for .gguf"
if [ -n "$signed" ]; then
    for f in "$app"/*.exe; do
        verified "$f" || die "the signature of $f does not hold"
    done
    said "signatures hold: setup, three programs, uninstaller; a changed one's does not"
fi
said "0.0.1 is installed"

# ------------------------------------------------------- the installed engine answers

model=$root/assets/model/guide-q8_0.gguf
start tracker bin/neuron-tracker --data "$work/net/tracker" --listen 127.0.0.1:0
tracker=$(sed 's|/*$||' "$work/tracker.out")
timeout 60 bin/neuron-tracker publish --data "$work/net/tracker" "$model" >"$work/publish.log" 2>&1 || die "publishing fails"
start first bin/neuron-engine run --data "$work/net/first" --model "$model" --layers 0-4 --tracker "$tracker"
start second "$wine" "$app/neuron-engine.exe" run --data "Z:$work/net/second" --model guide-q8_0 --layers 4-8 --tracker "$tracker"
start gateway "$wine" "$app/neuron-engine.exe" gateway --data "Z:$work/net/gateway" --tracker "$tracker" --key none
gateway_pid=$pid
api=$(api_of gateway)
answers() { question "$api" 2 "$work/answer"; }
until_true 120 answers || die "the installed engine does not answer: $(tail -n 1 "$work/chat.log")"
grep -q -i tracker "$work/answer" || die "a strange answer: $(cat "$work/answer")"
said "the installed engine answers, as one of two nodes and as gateway: $(tail -n 1 "$work/answer")"

# Its data folder is not the usual one: this setup cannot ask it to end. It has
# to leave everything as it is.
setup "$new"
[ "$status" -eq 3 ] || die "with busy programs the setup ends with $status, not 3"
installed 0.0.1
absent "$app/new" || die "a setup that gave up leaves files behind"
answers || die "the engine does not answer after a setup that gave up"
said "a setup that finds a program busy gives up and changes nothing"
run "$app/neuron-engine.exe" stop --data "Z:$work/net/second" || die "the node does not stop"
# A gateway alone has no local API, and no signal that Wine would hand on.
kill -KILL "$gateway_pid"
{ wait "$gateway_pid" || true; } 2>/dev/null

# -------------------------------------------------------------------- the window

running() { has "$data/api.json" && curl -s -o /dev/null -m 2 "$(sed -n 's/.*"url": "\(.*\)".*/\1/p' "$data/api.json")"; }
if [ -n "$display" ]; then
    # As the start menu does.
    run start /unix "$user/AppData/Roaming/Microsoft/Windows/Start Menu/Programs/Neuron.lnk" >/dev/null 2>&1 || die "the start menu's entry cannot be opened"
    until_true 120 has "$data/logs/window.log" "window shown" || die "the installed window does not show"
    until_true 60 running || die "the window has not started the engine"
    until_true 30 has "$data/run/tray.json" || die "the window has not started the tray"
    until_true 30 picture "$work/window.png" 100 || die "the window is empty: $work/window.png"
    said "the installed window shows: $work/window.png"
else
    "$wine" "$app/neuron-engine.exe" desktop >/dev/null 2>&1 </dev/null &
    until_true 60 running || die "the installed engine does not start"
fi

# ------------------------------------------- upgrade while an answer is being written

start third bin/neuron-engine run --data "$work/net/third" --model guide-q8_0 --layers 4-8 --tracker "$tracker"
run "$app/neuron-engine.exe" settings tracker "$tracker" >"$work/settings.log" 2>&1 || die "the tracker cannot be set"
# The user wants it at login: as the app writes it.
# shellcheck disable=SC1003 # these are Windows' separators
run reg add "$run_key" /v Neuron /d "\"C:\\users\\$(id -un)\\AppData\\Local\\Programs\\Neuron\\neuron-tray.exe\" --hidden" /f >/dev/null
until_true 60 has "$data/gateway/api.key" || die "the engine has no gateway"
# It comes up anew for the tracker that was just set.
gateway_up() {
    gateway=$(run "$app/neuron-engine.exe" status | tr -d '\r' | sed -n 's/^gateway *\(http[^ ]*\).*/\1/p')
    [ -n "$gateway" ]
}
until_true 60 gateway_up || die "the engine's gateway does not come up"
long=900
local_ask() { ask "$gateway" "$1" "$2" -H "Authorization: Bearer $(cat "$data/gateway/api.key")"; }
until_true 90 local_ask 3 "$work/short" || die "the desktop engine does not answer: $(tail -c 300 "$work/short")"
keys() { (cd "$data" && sha256sum owner.key node/node.key gateway/api.key settings.json); }
keys >"$work/keys-before" || die "the data folder lacks what belongs there"

setup "$new" &
upgrade=$!
until_true 200 has "$app/new/neuron.exe" || die "the newer setup unpacks nothing"
local_ask "$long" "$work/long" &
answer=$!
wait "$upgrade" || true
wait "$answer" || die "the answer that ran during the upgrade is not whole: $(tail -c 300 "$work/long")"
installed "$version"
absent "$app/licences/of-the-older-version.txt" || die "a file of the older version is left"
absent "$app/new" || die "what was unpacked is left"
asked=$(line_of 'shutdown asked for' "$data/logs/engine.log")
whole=$(line_of "msg=answered.*completion_tokens=$long" "$data/logs/engine.log")
if [ -n "$asked" ] && [ -n "$whole" ] && [ "$asked" -lt "$whole" ]; then
    said "the running answer was finished before the programs were replaced"
else
    not_checked "an answer during the upgrade: it was whole before the setup asked the engine to end"
fi
if [ -n "$display" ]; then
    until_true 60 has "$data/api.json" "\"version\": \"$version\"" || die "the programs are not back after the upgrade"
    [ "$(grep -c -a 'window shown' "$data/logs/window.log")" -eq 1 ] || die "the window is back, which nobody asked for"
    run "$app/neuron-engine.exe" settings tracker | grep -q -F "$tracker" || die "settings are lost"
fi
keys | diff "$work/keys-before" - || die "keys or settings have changed"
said "$version is installed over it; keys and settings are the same; the tray is back without a window"

# ------------------------------------------------------------------------ removal

echo "of the user" >"$app/mine.txt"
# remove OPTIONS...: the uninstaller works from a copy of itself in the temporary folder.
remove() {
    timeout 60 "$wine" "$app/uninstall.exe" "$@" </dev/null >>"$work/setup.log" 2>&1 || die "the uninstaller ends with $?"
    until_true 150 absent "$app/neuron-engine.exe" || die "the uninstaller removes nothing"
    timeout 60 wineserver -w || die "programs still run after the removal"
}
remove /S
[ "$(cd "$app" && find . -type f)" = ./mine.txt ] || die "not removed: $(cd "$app" && find . -type f)"
rm -r "$app"
rmdir "${app%/*}" # which the uninstaller removes when it is empty
keys | diff "$work/keys-before" - || die "removing the programs has changed the data"
[ -z "$(value "$run_key" Neuron)" ] || die "it would still start at login"
files | grep -v -F "${data#"$WINEPREFIX/drive_c"}" | diff "$work/files-before" - >"$work/diff" || die "files are left: $(cat "$work/diff")"
registry "$work/registry-after"
diff "$work/registry-before" "$work/registry-after" >"$work/diff" || die "the registry is not as it was: $(cat "$work/diff")"
said "removed; the data is there, and nothing else"

setup "$new"
[ "$status" -eq 0 ] || die "installing once more ends with $status"
installed "$version"
remove /S /REMOVEDATA
until_true 30 absent "$app" || die "the program folder is left"
files | diff "$work/files-before" - >"$work/diff" || die "files are left: $(cat "$work/diff")"
registry "$work/registry-after"
diff "$work/registry-before" "$work/registry-after" >"$work/diff" || die "the registry is not as it was: $(cat "$work/diff")"
echo "$trial: ok ($SECONDS s; setup $(($(stat -c %s "$new") / 1048576)) MB; $("$wine" --version))"
