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

trial=wine
readonly root=$PWD work=$PWD/build/wine/run model=$PWD/assets/model/guide-q8_0.gguf
# shellcheck source=scripts/trial/trial.bash
. scripts/trial/trial.bash
# shellcheck source=scripts/trial/wine.bash
. scripts/trial/wine.bash
bounded 300 "$0" "$@"

find_wine || exit 0
readonly exe=$root/build/cross/windows-amd64/neuron-engine.exe
readonly tracker_exe=$root/build/cross/windows-amd64/neuron-tracker.exe
rm -rf "$work"
mkdir -p "$work"

finish() {
    end_jobs KILL
    end_wine
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

wine_prefix "$root/build/wine/prefix" || exit 0 # kept for the next time
sh llama/native/install.sh win-x64
mkdir -p "$(dirname "$exe")"
for pair in "$exe ./engine" "$tracker_exe ./tracker-server"; do
    GOOS=windows GOARCH=amd64 CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -o "${pair% *}" "${pair#* }"
done

count() { grep -c -a "$1" "$2" || true; }
ready() { [ "$(count 'msg="Stage ready"' "$work/$1.log")" -ge "$2" ]; }

# network NAME RUN TRACKER ENGINE PATHPREFIX starts tracker, nodes and gateway;
# sets api and the ids of the processes.
network() {
    local n=$1 run=$2 tracker=$3 engine=$4 z=$5 url
    # shellcheck disable=SC2086 # $run is empty on Linux
    {
        start "$n-tracker" $run "$tracker" --data "$z$work/$n/tracker" --listen 127.0.0.1:0
        url=$(tr -d '\r' <"$work/$n-tracker.out" | sed 's|/*$||')
        tracker_pid=$pid
        timeout 60 $run "$tracker" publish --data "$z$work/$n/tracker" "$z$model" >"$work/$n-publish.log" 2>&1 || die "$n: publishing fails"
        start "$n-first" $run "$engine" run --data "$z$work/$n/first" --model "$z$model" --layers 0-4 --tracker "$url"
        first_pid=$pid
        start "$n-second" $run "$engine" run --data "$z$work/$n/second" --model guide-q8_0 --layers 4-8 --tracker "$url"
        second_pid=$pid
        start "$n-gateway" $run "$engine" gateway --data "$z$work/$n/gateway" --tracker "$url" --key none
        gateway_pid=$pid
    }
    api=$(api_of "$n-gateway")
    until_true 60 ready "$n-first" 1 || die "$n: the first stage does not get ready"
    until_true 60 ready "$n-second" 1 || die "$n: the second stage does not get ready"
}

# answers FILE keeps the answer without its last line; a route takes a report to
# be known.
answers() { question "$api" 2 "$work/answer" && sed '$d' "$work/answer" >"$1"; }

end() {
    kill -TERM "$1"
    until_true 20 gone "$1" || die "process $1 does not end"
}

network linux "" bin/neuron-tracker bin/neuron-engine ""
until_true 60 answers "$work/linux.txt" || die "the Linux network does not answer"
for p in "$gateway_pid" "$second_pid" "$first_pid" "$tracker_pid"; do end "$p"; done

began=$SECONDS
export NEURON_LLAMA_DIR=Z:$root/build/native/win-x64
network windows "$wine" "$tracker_exe" "$exe" Z:
until_true 60 answers "$work/windows.txt" || die "the Windows network does not answer"
cmp -s "$work/linux.txt" "$work/windows.txt" || die "the answers differ: $(cat "$work/linux.txt") | $(cat "$work/windows.txt")"
answered=$((SECONDS - began))

# A stage process dies: it comes back, and the next request works.
stage=$(sed -n 's/.*msg="Stage ready".* pid=\([0-9]*\) .*/\1/p' "$work/windows-second.log")
timeout 30 "$wine" taskkill /F /PID "$stage" >/dev/null || die "the stage process $stage cannot be killed"
killed=$(date +%s%N)
until_true 30 ready windows-second 2 || die "the killed stage does not come back"
back=$((($(date +%s%N) - killed) / 1000000))
until_true 60 answers "$work/again.txt" || die "no answer after the loss of a stage"
cmp -s "$work/linux.txt" "$work/again.txt" || die "the answer after the loss of a stage differs"

# In order: the engine's own command, which waits for the end.
timeout 60 "$wine" "$exe" stop --data "Z:$work/windows/first" || die "neuron-engine stop fails"
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
