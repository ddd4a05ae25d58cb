#!/usr/bin/env bash
# Runs the Windows programs, with the real Windows libraries, under Wine:
#
#   scripts/wine.sh
#
# A tracker, two nodes with half of the guide model each, and a gateway answer a
# question; the answer has to be the one that the same network gives on Linux.
# The first node has the file; the second one and the gateway fetch what they
# need from it.
# Then a stage process is killed and has to come back, a node is stopped in
# order, and the rest is killed and has to leave no process behind.
#
# Wants bin/ and the Linux libraries (make build native). Without Wine or the
# mingw-w64 compiler it says so and checks nothing. Ends within five minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}

readonly limit=300 # seconds for everything
if [ -z "${NEURON_WINE_BOUND:-}" ]; then
    export NEURON_WINE_BOUND=1
    status=0
    timeout --kill-after=30 "$limit" "$0" "$@" || status=$?
    [ "$status" -ne 124 ] || echo "wine: FAILED: not done within $limit s" >&2
    exit "$status"
fi

not_checked() {
    echo "wine: NOT CHECKED ($1)"
    exit 0
}
die() {
    echo "wine: FAILED: $*" >&2
    tail -n 5 "$data"/*.log >&2 || true
    exit 1
}

[ "$(uname -s)/$(uname -m)" = Linux/x86_64 ] || not_checked "Wine is tried on Linux on x64 only"
wine=$(command -v wine64 || command -v wine) || not_checked "wine is not installed; on Debian: apt-get install wine64 gcc-mingw-w64-x86-64"
command -v wineserver >/dev/null || not_checked "wineserver is not installed"

root=$PWD
readonly root data=$root/build/wine/run model=$root/assets/model/guide-q8_0.gguf
readonly exe=$root/build/cross/windows-amd64/neuron-engine.exe
readonly tracker_exe=$root/build/cross/windows-amd64/neuron-tracker.exe
export WINEPREFIX=$root/build/wine/prefix WINEARCH=win64 WINEDEBUG=-all
# No question about Mono and Gecko, no desktop files.
export WINEDLLOVERRIDES='mscoree,mshtml=;winemenubuilder.exe=d'
rm -rf "$data"
mkdir -p "$data" "$WINEPREFIX"

finish() {
    local p
    for p in $(jobs -pr); do
        kill -KILL "$p" || true
        wait "$p" || true
    done 2>/dev/null
    WINEPREFIX=$WINEPREFIX timeout 20 wineserver -k 2>/dev/null || true # this prefix only
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# until_true SECONDS COMMAND... polls.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# The prefix, once.
library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
if [ ! -e "$WINEPREFIX/system.reg" ]; then
    timeout 120 "$wine" wineboot --init >"$data/wineboot.log" 2>&1 || die "the Wine prefix cannot be made"
    timeout 60 wineserver -w || true
fi
if [ ! -e "$library" ]; then
    cc=$(command -v x86_64-w64-mingw32-gcc) || not_checked "this Wine has no bcryptprimitives.dll, and gcc-mingw-w64-x86-64 to make one is not installed"
    "$cc" -shared -s -O2 -nostdlib -Wl,--entry,0 -o "$library" scripts/bcryptprimitives.c -ladvapi32
fi
sh llama/native/install.sh win-x64
mkdir -p "$(dirname "$exe")"
for pair in "$exe ./engine" "$tracker_exe ./tracker-server"; do
    GOOS=windows GOARCH=amd64 CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -o "${pair% *}" "${pair#* }"
done

said() { [ -s "$1" ] && [ "$(wc -l <"$1")" -ge 1 ]; }
count() { grep -c -a "$1" "$2" || true; }
ready() { [ "$(count 'msg="Stage ready"' "$data/$1.log")" -ge "$2" ]; }

# start NAME COMMAND... starts a program of a network and waits for its first line.
start() {
    local name=$1
    shift
    "$@" >"$data/$name.out" 2>"$data/$name.log" </dev/null &
    pid=$!
    until_true 60 said "$data/$name.out" || die "$name does not start: $*"
}

# network NAME RUN TRACKER ENGINE PATHPREFIX starts tracker, nodes and gateway;
# sets api and the ids of the processes.
network() {
    local n=$1 run=$2 tracker=$3 engine=$4 z=$5 url
    # shellcheck disable=SC2086 # $run is empty on Linux
    {
        start "$n-tracker" $run "$tracker" --data "$z$data/$n/tracker" --listen 127.0.0.1:0
        url=$(tr -d '\r' <"$data/$n-tracker.out" | sed 's|/*$||')
        tracker_pid=$pid
        timeout 60 $run "$tracker" publish --data "$z$data/$n/tracker" "$z$model" >"$data/$n-publish.log" 2>&1 || die "$n: publishing fails"
        start "$n-first" $run "$engine" run --data "$z$data/$n/first" --model "$z$model" --layers 0-4 --tracker "$url"
        first_pid=$pid
        start "$n-second" $run "$engine" run --data "$z$data/$n/second" --model guide-q8_0 --layers 4-8 --tracker "$url"
        second_pid=$pid
        start "$n-gateway" $run "$engine" gateway --data "$z$data/$n/gateway" --tracker "$url" --key none
        gateway_pid=$pid
    }
    api=$(sed -n 's/^api \([^ ]*\) .*/\1/p' "$data/$n-gateway.out")
    until_true 60 ready "$n-first" 1 || die "$n: the first stage does not get ready"
    until_true 60 ready "$n-second" 1 || die "$n: the second stage does not get ready"
}

# ask prints the answer, and fails unless it came over two hops.
ask() {
    timeout 60 bin/neuron-engine chat --api "$api" --model guide-q8_0 --max-tokens 60 \
        'What is a tracker?' >"$data/answer" 2>>"$data/chat.log" || return 1
    grep -q ', 2 hops\]$' "$data/answer" || return 1
    sed '$d' "$data/answer"
}
# answers keeps what ask prints in $1; a route takes a report to be known.
answers() { ask >"$1"; }

end() {
    kill -TERM "$1"
    until_true 20 gone "$1" || die "process $1 does not end"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

network linux "" bin/neuron-tracker bin/neuron-engine ""
until_true 60 answers "$data/linux.txt" || die "the Linux network does not answer"
for p in "$gateway_pid" "$second_pid" "$first_pid" "$tracker_pid"; do end "$p"; done

began=$SECONDS
export NEURON_LLAMA_DIR=Z:$root/build/native/win-x64
network windows "$wine" "$tracker_exe" "$exe" Z:
until_true 60 answers "$data/windows.txt" || die "the Windows network does not answer"
cmp -s "$data/linux.txt" "$data/windows.txt" || die "the answers differ: $(cat "$data/linux.txt") | $(cat "$data/windows.txt")"
answered=$((SECONDS - began))

# A stage process dies: it comes back, and the next request works.
stage=$(sed -n 's/.*msg="Stage ready".* pid=\([0-9]*\) .*/\1/p' "$data/windows-second.log")
timeout 30 "$wine" taskkill /F /PID "$stage" >/dev/null || die "the stage process $stage cannot be killed"
killed=$(date +%s%N)
until_true 30 ready windows-second 2 || die "the killed stage does not come back"
back=$((($(date +%s%N) - killed) / 1000000))
until_true 60 answers "$data/again.txt" || die "no answer after the loss of a stage"
cmp -s "$data/linux.txt" "$data/again.txt" || die "the answer after the loss of a stage differs"

# In order: the engine's own command, which waits for the end.
timeout 60 "$wine" "$exe" stop --data "Z:$data/windows/first" || die "neuron-engine stop fails"
until_true 20 gone "$first_pid" || die "the stopped node still runs"
status=0
wait "$first_pid" || status=$?
[ "$status" -eq 0 ] || die "the stopped node ended with status $status"

# Killed: stage processes must notice, so that nothing is left in the prefix.
for p in "$gateway_pid" "$second_pid" "$tracker_pid"; do
    kill -KILL "$p"
    { wait "$p" || true; } 2>/dev/null # where the shell would say that it was killed
done
timeout 60 wineserver -w || die "processes are left behind"

echo "wine: ok (two Windows nodes answer as two Linux nodes do, ${answered} s from start to answer; a killed stage was back after ${back} ms; stopped in order; $("$wine" --version))"
