# shellcheck shell=bash
# What the packages for Linux have in common once they are installed; sourced by
# package-test-linux.sh after trial.bash. Each kind sets how its programs are found:

installed() { die "no kind"; } # runs NAME ARGUMENT... of the installed programs, as the user
home=""    # the user's home, as this script sees it
inside=""  # the same, as the programs see it
folder=""  # the programs' folder, as this script sees it
guide=""   # the installed model, as the programs see it
tracker="" # the installed tracker, "" where the package has none

# ours lists all processes that live below $work.
ours() {
    local p exe
    for p in /proc/[0-9]*; do
        exe=$(readlink "$p/exe" 2>/dev/null) || continue
        case $exe in "$work"/*) echo "${p#/proc/}" ;; esac
        case $(readlink "$p/root" 2>/dev/null) in "$work"/*) echo "${p#/proc/}" ;; esac
    done | sort -u
}
# pids PROGRAM lists the processes of an installed program.
pids() {
    local p
    for p in $(ours); do
        case $(readlink "/proc/$p/exe") in */"$1" | */"$1 (deleted)") echo "$p" ;; esac
    done
}
none_runs() { [ -z "$(pids neuron)$(pids neuron-tray)$(pids neuron-engine)" ]; }
shown() { has "$data/logs/window.log" 'window shown'; }
engine_is() { installed neuron-engine status --json 2>/dev/null | grep -q "\"version\": *\"$1\""; }
tray_runs() { [ -n "$(pids neuron-tray)" ]; }
identity() { installed neuron-engine status --json | grep -o '"node": *"[^"]*"' | sort -u; }
# replaced lists the processes that run files which are not installed any more.
replaced() {
    local p program
    for program in neuron-tray neuron-engine; do
        for p in $(pids "$program"); do
            [ "/proc/$p/exe" -ef "$folder/$program" ] || echo "$p $(tr '\0' ' ' <"/proc/$p/cmdline")"
        done
    done
}
none_replaced() { [ -z "$(replaced)" ]; }

# try_network KIND: tracker, node and gateway of the installed programs answer.
try_network() {
    local kind=$1 p
    if [ -n "$tracker" ]; then
        start "$kind-tracker" installed "$tracker" --data "$inside/tracker" --listen 127.0.0.1:0
        installed "$tracker" publish --data "$inside/tracker" "$guide" >"$work/$kind-publish.log" 2>&1 || die "$kind: publishing fails"
    else
        start "$kind-tracker" "$bin/neuron-tracker" --data "$work/$kind-tracker-data" --listen 127.0.0.1:0
        "$bin/neuron-tracker" publish --data "$work/$kind-tracker-data" assets/model/guide-q8_0.gguf >"$work/$kind-publish.log" 2>&1 || die "$kind: publishing fails"
    fi
    network=$(sed 's|/*$||' "$work/$kind-tracker.out")
    start "$kind-node" installed neuron-engine run --data "$inside/node" --model "$guide" --threads 1 --tracker "$network"
    start "$kind-gateway" installed neuron-engine gateway --data "$inside/gateway" --tracker "$network" --key none
    until_true 60 answers "$(api_of "$kind-gateway")" || die "$kind: the installed programs do not answer"
    said "$kind: the installed programs answer: $(head -n 1 "$work/answer" | head -c 60)..."
    installed neuron-engine stop --data "$inside/node" || die "$kind: the node does not stop"
    for p in $(pids neuron-engine); do kill -TERM "$p"; done # the gateway
    until_true 30 none_runs || die "$kind: the gateway does not end"
}
answers() {
    installed neuron-engine chat --api "$1" --model guide-q8_0 --max-tokens 60 'What is a tracker?' >"$work/answer" 2>>"$work/chat.log" &&
        grep -q ', 1 hops\?\]$' "$work/answer"
}

# try_window KIND: the installed window comes up with tray and engine.
try_window() {
    if ! screen; then
        not_checked "$1: the window (Xvfb is not installed)"
        installed neuron-tray --hidden >"$work/$1-tray.log" 2>&1 &
        until_true 90 engine_is "$old" || die "$1: the engine does not come up"
        return 0
    fi
    installed neuron --page models >"$work/$1-window.log" 2>&1 &
    until_true 120 shown || die "$1: the window is not shown"
    until_true 60 engine_is "$old" || die "$1: the window starts no engine of version $old"
    until_true 30 tray_runs || die "$1: the window starts no tray"
    installed neuron-engine settings set_up >/dev/null || die "$1: the settings cannot be read"
    until_true 30 picture "$out/$1-window.png" 80 || die "$1: nothing is drawn"
    # A file that is opened meanwhile goes to the window that is there.
    installed neuron "$guide" >>"$work/$1-window.log" 2>&1 || die "$1: a model's file cannot be opened"
    sleep 1 # for the picture alone
    picture "$out/$1-open.png" 80 || die "$1: nothing is drawn any more"
    said "$1: the installed window is drawn (${out#"$PWD/"}/$1-window.png)"
}

# try_finish KIND MAINTAIN: what the packages do before they replace files, while
# this computer works for somebody else's answer.
try_finish() {
    local kind=$1 api answer asked whole setting long=1800
    for setting in "tracker $network" "rules.busy_percent 0" "rules.on_battery on" "rules.on_metered on" "rules.full_screen off"; do
        # shellcheck disable=SC2086 # name and value
        installed neuron-engine settings $setting >/dev/null || die "$kind: the setting $setting"
    done
    installed neuron-engine hold "$guide" >/dev/null || die "$kind: the model is not taken"
    installed neuron-engine share on >/dev/null || die "$kind: sharing is not taken"
    start "$kind-outside" "$bin/neuron-engine" gateway --data "$work/$kind-outside" --tracker "$network" --key none
    api=$(api_of "$kind-outside")
    until_true 90 ask "$api" 3 "$work/$kind-short.txt" || die "$kind: the desktop engine does not work for others: $(tail -c 300 "$work/$kind-short.txt") $(installed neuron-engine status 2>&1)"
    ask "$api" "$long" "$work/$kind-long.txt" &
    answer=$!
    until_true 30 has "$work/$kind-long.txt" || die "$kind: no answer begins"
    "$2" finish || die "$kind: maintain finish fails"
    wait "$answer" || die "$kind: the answer is not whole: $(tail -c 300 "$work/$kind-long.txt")"
    asked=$(line_of 'shutdown asked for' "$data/logs/engine.log")
    whole=$(line_of 'seam session ended' "$data/logs/engine.log")
    if [ -n "$asked" ] && [ -n "$whole" ] && [ "$asked" -lt "$whole" ]; then
        said "$kind: an answer of $long tokens for somebody else was finished before the engine ended"
    else
        not_checked "$kind: an answer at the end: it was whole before the engine was asked to end"
    fi
}

# upgraded KIND ID: the new engine and tray have taken over, with what was there.
upgraded() {
    until_true 120 engine_is "$version" || die "$1: after the upgrade the engine is $(installed neuron-engine status --json | grep '"version"')"
    until_true 30 none_replaced || die "$1: after the upgrade programs of the version before still run: $(replaced)"
    tray_runs || die "$1: after the upgrade there is no tray"
    [ "$(identity)" = "$2" ] || die "$1: after the upgrade the node is $(identity), it was $2"
    [ "$(installed neuron-engine settings limits.up_rate)" = "$rate" ] || die "$1: the upgrade has lost the settings"
    said "$1: upgraded from $old to $version while it ran; the same node, settings kept"
}

# a_setting leaves in $rate what an upgrade has to keep.
a_setting() {
    installed neuron-engine settings limits.up_rate 123kB >/dev/null || die "the setting limits.up_rate"
    rate=$(installed neuron-engine settings limits.up_rate)
}

# whole KIND UPGRADE REMOVE MAINTAIN: the part that deb, rpm and run share, after
# the first installation. The last three are commands.
whole() {
    local kind=$1 id
    try_network "$kind"
    try_window "$kind"
    a_setting
    id=$(identity)
    try_finish "$kind" "$4"
    "$2" >"$work/$kind-upgrade.log" 2>&1 || die "$kind: the upgrade fails"
    upgraded "$kind" "$id"
    "$3" >"$work/$kind-remove.log" 2>&1 || die "$kind: the removal fails"
    until_true 30 none_runs || die "$kind: after the removal these run: $(ours | tr '\n' ' ')"
}
