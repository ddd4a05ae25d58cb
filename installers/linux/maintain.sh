#!/bin/sh
# What an installation does with its own programs while they run:
#
#   maintain finish    engines finish their sessions and end (before an upgrade)
#   maintain restart   trays start anew, from the new files (after it)
#   maintain end       everything ends in order (before a removal)
#
# It lies beside the programs and knows them by that folder. As root it does so
# for every user who runs them, with that user's rights; else for this one. Ends
# with 1 when something still runs; nothing is ever killed.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
me=$(id -u)
status=0

# as PID COMMAND... runs a program of ours for the one that process PID is: its
# user, home, folder and data folder.
as() {
	pid=$1
	shift
	uid=$(stat -c %u "/proc/$pid") gid=$(stat -c %g "/proc/$pid")
	home=$(variable "$pid" HOME) data=$(variable "$pid" XDG_DATA_HOME) given=$(flag "$pid")
	set -- env HOME="$home" XDG_DATA_HOME="$data" "$@"
	[ -z "$given" ] || set -- "$@" --data "$given"
	[ "$me" = "$uid" ] || set -- setpriv --reuid "$uid" --regid "$gid" --clear-groups -- "$@"
	(cd "/proc/$pid/cwd" 2>/dev/null || cd /; exec "$@")
}

# variable PID NAME prints what the process has in its environment.
variable() { tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n "s/^$2=//p" | head -n 1; }

# flag PID prints the data folder of its command line.
flag() {
	tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | awk '
		after { print; exit }
		sub(/^--?data=/, "") { print; exit }
		/^--?data$/ { after = 1 }'
}

# running PROGRAM lists its processes, those of containers not; a program whose
# file was replaced counts too. The parts of an engine end with it.
running() {
	for dir in /proc/[0-9]*; do
		exe=$(readlink "$dir/exe" 2>/dev/null) || continue
		case ${exe%" (deleted)"} in
		"$here/$1" | "$here.old/$1") ;;
		*) continue ;;
		esac
		[ "$me" -ne 0 ] || [ "$(stat -Lc %d:%i "$dir/root")" = "$(stat -Lc %d:%i /)" ] || continue
		case $(tr '\0' '\n' <"$dir/cmdline" 2>/dev/null | sed -n 2p) in
		stage | swarm) continue ;;
		esac
		echo "${dir#/proc/}"
	done
}

# engines lists those that can be told to stop. Somebody's command that asks an
# engine, a moment before, is none.
engines() {
	for one in $(running neuron-engine); do
		case $(tr '\0' '\n' <"/proc/$one/cmdline" 2>/dev/null | sed -n '2,$ { /^-/! { p; q; } }') in
		run | desktop) echo "$one" ;;
		esac
	done
}

# told PID COMMAND... runs a command for a process; one that has ended meanwhile
# needs none.
told() {
	as "$@" || [ ! -e "/proc/$1" ] || status=1
}

# each LIST COMMAND... runs a command for each process of a list.
each() {
	list=$1
	shift
	for one in $list; do
		told "$one" "$@"
	done
}

# alone PROGRAM SECONDS waits until none of its processes is left.
alone() {
	i=0
	while [ -n "$(running "$1")" ]; do
		[ "$i" -lt "$2" ] || {
			echo "neuron: $1 still runs (process $(running "$1" | tr '\n' ' '))" >&2
			status=1
			return
		}
		i=$((i + 1))
		sleep 1
	done
}

case ${1:-} in
finish)
	each "$(engines)" "$here/neuron-engine" stop --wait 90s
	;;
restart)
	# An engine that came up again meanwhile is one of the replaced files.
	for one in $(engines); do
		[ "$(readlink "/proc/$one/exe")" = "$here/neuron-engine" ] || told "$one" "$here/neuron-engine" stop --wait 90s
	done
	each "$(running neuron-tray)" "$here/neuron-tray" --restart
	;;
end)
	each "$(running neuron-tray)" "$here/neuron-tray" --quit
	each "$(running neuron)" "$here/neuron-tray" --quit
	each "$(engines)" "$here/neuron-engine" stop --wait 90s
	alone neuron-tray 10
	alone neuron 10
	alone neuron-engine 10
	;;
*)
	echo "usage: maintain finish | restart | end" >&2
	exit 2
	;;
esac
exit $status
