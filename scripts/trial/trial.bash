# shellcheck shell=bash
# What the scripts share that start programs and watch them (package-test-*.sh,
# wine.sh). Sourced with "set -euo pipefail", and with these set:
#
#   trial  what their lines begin with
#   work   folder for what programs write; start makes NAME.out and NAME.log there
#   data   optional: a data folder of Neuron, whose logs a failure shows
#
# Everything that waits has an end, and what a script started ends with it.

said() { printf '%s: %s (%s s)\n' "$trial" "$*" "$SECONDS"; }
not_checked() { echo "************ $trial: NOT CHECKED: $*"; }
die() {
    echo "$trial: FAILED: $*" >&2
    tail -n 8 "$work"/*.log ${data:+"$data"/logs/*} >&2 2>/dev/null || true
    exit 1
}

# bounded SECONDS SCRIPT ARGUMENT... runs the script once more under a limit, and
# does not come back; within the limit it does nothing.
bounded() {
    local limit=$1 status=0
    shift
    [ -z "${NEURON_TRIAL_BOUND:-}" ] || return 0
    NEURON_TRIAL_BOUND=1 timeout --kill-after=30 "$limit" "$@" || status=$?
    [ "$status" -ne 124 ] || echo "$trial: FAILED: not done within $limit s" >&2
    exit "$status"
}

# end_jobs SIGNAL ends what this shell has started, and waits for it.
end_jobs() {
    local p
    for p in $(jobs -pr); do
        kill "-$1" "$p" || true
        wait "$p" || true
    done 2>/dev/null
}

# until_true SECONDS COMMAND... polls.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}
has() { [ -s "$1" ] && { [ $# -lt 2 ] || grep -q -a "$2" "$1"; }; }
absent() { [ ! -e "$1" ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
a_line() { [ -s "$1" ] && [ "$(wc -l <"$1")" -ge 1 ]; }

# start NAME COMMAND... starts a program and waits for its first line; its process
# is left in $pid.
start() {
    local name=$1
    shift
    "$@" >"$work/$name.out" 2>"$work/$name.log" </dev/null &
    # shellcheck disable=SC2034 # for the script
    pid=$!
    until_true 60 a_line "$work/$name.out" || die "$name does not start: $*"
}

# api_of NAME: the address that a gateway's first line tells.
api_of() { tr -d '\r' <"$work/$1.out" | sed -n 's/^api \([^ ]*\) .*/\1/p'; }

# question API HOPS FILE: a short answer, which has to come over so many hops.
question() {
    timeout 60 bin/neuron-engine chat --api "$1" --model guide-q8_0 --max-tokens 60 'What is a tracker?' >"$3" 2>>"$work/chat.log" &&
        grep -q ", $2 hops\?\]\$" "$3"
}

# Ends of turns are forbidden, so that an answer takes all its tokens.
forbidden=$(for i in $(seq 0 10) $(seq 2036 2047); do printf '"%s":-100,' "$i"; done)

# ask API TOKENS FILE CURL-OPTION... streams an answer of that many tokens into a
# file; it has to come to its end.
ask() {
    local api=$1 tokens=$2 file=$3
    shift 3
    curl -sS -N -m 120 "$api/chat/completions" "$@" \
        -d "{\"model\":\"guide-q8_0\",\"stream\":true,\"max_tokens\":$tokens,\"temperature\":0,\"logit_bias\":{${forbidden%,}},\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]}" >"$file" 2>>"$work/curl.log" &&
        grep -q 'data: \[DONE\]' "$file"
}

# line_of PATTERN FILE: the number of the last line that has it.
line_of() { grep -n -a "$1" "$2" | tail -n 1 | cut -d : -f 1; }

# screen gives an X server of its own, whose number is left in $display. Fails
# where there is none.
display=""
screen() {
    [ -z "$display" ] || return 0
    command -v Xvfb >/dev/null || return 1
    CGO_ENABLED=0 "${GO:-go}" build -o "$work/screenshot" ./internal/cmd/screenshot || die "the program for pictures cannot be built"
    Xvfb -displayfd 3 -screen 0 1280x860x24 -nolisten tcp -noreset 3>"$work/display" 2>"$work/xvfb.log" &
    until_true 30 a_line "$work/display" || die "Xvfb does not start"
    display=$(cat "$work/display")
}

# picture FILE COLOURS keeps what the screen shows, which has so many colours at
# least where a window is drawn.
picture() { "$work/screenshot" -display ":$display" -colours "$2" "$1" 2>>"$work/screenshot.log"; }
