#!/usr/bin/env bash
# Prints what the desktop of a data folder takes while nobody does anything:
#
#   scripts/desktop-figures.sh DATA [SECONDS]
#
# Memory is resident memory, the share of a core is the CPU time of SECONDS (60)
# that the system has counted for each process: other programs do not change it.
# Linux only. Start Neuron, close the window, wait a minute, run it.
set -euo pipefail

data=${1:?usage: scripts/desktop-figures.sh DATA [SECONDS]}
seconds=${2:-60}
data=$(cd -- "$data" && pwd)
ticks=$(getconf CLK_TCK)

# parent PID, and user and system time in ticks, of a process.
stat_of() { sed 's/.*) //' "/proc/$1/stat" | awk '{print $2, $12 + $13}'; }

# The programs of the data folder, and what they have started.
pids=()
for p in /proc/[0-9]*; do
    { args=$(tr "\0" " " <"$p/cmdline"); } 2>/dev/null || continue
    case $args in
    *neuron*"--data $data "*) pids+=("${p##*/}") ;;
    esac
done
for p in /proc/[0-9]*; do
    pid=${p##*/}
    parent=$(stat_of "$pid" 2>/dev/null | cut -d' ' -f1) || continue
    for x in "${pids[@]}"; do
        [ "$parent" != "$x" ] || case " ${pids[*]} " in
        *" $pid "*) ;;
        *) pids+=("$pid") ;;
        esac
    done
done
[ "${#pids[@]}" -gt 0 ] || {
    echo "desktop-figures: nothing runs on $data" >&2
    exit 1
}

declare -A before
for p in "${pids[@]}"; do before[$p]=$(stat_of "$p" | cut -d' ' -f2); done
sleep "$seconds"
printf '%-8s %-34s %10s %10s\n' pid program 'memory MB' 'core %'
sum=0
for p in "${pids[@]}"; do
    now=$(stat_of "$p" 2>/dev/null | cut -d' ' -f2) || continue # it has ended
    used=$((now - before[$p]))
    sum=$((sum + used))
    memory=$(awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$p/status")
    name=$(tr '\0' ' ' <"/proc/$p/cmdline" | awk '{n = split($1, a, "/"); print a[n], $2}')
    printf '%-8s %-34s %10s %10s\n' "$p" "$name" "$memory" "$(awk -v u="$used" -v t="$ticks" -v s="$seconds" 'BEGIN {printf "%.2f", 100 * u / t / s}')"
done
awk -v u="$sum" -v t="$ticks" -v s="$seconds" 'BEGIN {printf "together %.2f %% of a core over %d s\n", 100 * u / t / s, s}'
