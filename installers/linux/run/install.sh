#!/bin/sh
# Installs Neuron for the user who runs it, without any rights of an
# administrator, from the folder in which this script lies:
#
#   install.sh [--no-start]
#
# Programs go to ~/.local/lib/neuron, commands to ~/.local/bin, the menu entry,
# icons and file types to $XDG_DATA_HOME (~/.local/share). Over an older version:
# its engine finishes its sessions first, and what the user has stays as it is.
# ~/.local/lib/neuron/uninstall removes all of it.
set -eu

say() { printf '%s\n' "$*"; }
die() {
	say "Neuron was not installed: $*" >&2
	# Started by a double click, nobody sees what is written.
	if [ ! -t 2 ] && [ -n "${DISPLAY:-}" ]; then
		if command -v zenity >/dev/null 2>&1; then
			zenity --error --title Neuron --text "Neuron was not installed: $*" 2>/dev/null || true
		elif command -v kdialog >/dev/null 2>&1; then
			kdialog --title Neuron --error "Neuron was not installed: $*" || true
		fi
	fi
	exit 1
}

start=yes
for arg; do
	case $arg in
	--no-start) start= ;;
	*) die "unknown option $arg (there is --no-start)" ;;
	esac
done

from=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
[ -n "${HOME:-}" ] && [ -d "$HOME" ] || die "there is no home folder"
[ "$(id -u)" -ne 0 ] || [ "$HOME" != /root ] || [ -n "${NEURON_INSTALL_AS_ROOT:-}" ] ||
	die "this installs for one person: run it as yourself, without sudo (for all users there are the .deb and the .rpm)"
[ "$(uname -m)" = "$(cat "$from/machine")" ] || die "this is for $(cat "$from/machine") processors, this computer has $(uname -m)"

app=$HOME/.local/lib/neuron
bin=$HOME/.local/bin
share=${XDG_DATA_HOME:-$HOME/.local/share}

# What a desktop always has, and a server may not. The version of the C library
# is asked of the program that is going to use it.
if ! said=$("$from/app/neuron-engine" --version 2>&1); then
	case $said in
	*GLIBC*) die "this system is too old: it needs glibc 2.34 or newer (Ubuntu 22.04, Debian 12, Fedora 35 and later)" ;;
	*) die "the engine does not start here: $said" ;;
	esac
fi
absent=$(LD_LIBRARY_PATH='' ldd "$from/app/neuron" "$from"/app/lib/*.so 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p' | sort -u | tr '\n' ' ')
[ -z "$absent" ] || say "Missing on this system, install them with its packages: $absent"

need=$(du -sk "$from/app" | cut -f 1)
mkdir -p "$HOME/.local/lib"
free=$(df -Pk "$HOME/.local/lib" | awk 'NR == 2 { print $4 }')
[ "$free" -gt $((need + 20480)) ] || die "$((need / 1024 + 20)) MB are needed in $HOME, $((free / 1024)) are free"

rm -rf "$app.new"
cp -R "$from/app" "$app.new"
was=
if [ -d "$app" ]; then
	was=$("$app/neuron-engine" --version 2>/dev/null | sed 's/.*version //; s/ .*//') || true
	[ ! -x "$app/maintain" ] || "$app/maintain" finish || die "running work did not end; quit Neuron and try again"
	rm -rf "$app.old"
	mv "$app" "$app.old"
fi
mv "$app.new" "$app"
if [ -n "$was" ]; then
	# The tray comes up anew; where none runs, nothing does.
	"$app/maintain" restart || say "Log out and in again to run the new version."
fi
rm -rf "$app.old"

mkdir -p "$bin"
for program in neuron neuron-engine neuron-tray; do
	ln -sfn "$app/$program" "$bin/$program"
done
# A menu finds programs in the PATH of the session, in which ~/.local/bin may
# not be.
(cd "$from/share" && find . -type f | sort) >"$app/installed"
while read -r file; do
	mkdir -p "$share/$(dirname "$file")"
	cp "$from/share/$file" "$share/$file"
done <"$app/installed"
entry=$share/applications/network.neuron.app.desktop
quoted=$(printf '%s' "$app/neuron" | sed 's/[\\"`$]/\\\\&/g; s/[&|\\]/\\&/g')
sed "s|^Exec=neuron|Exec=\"$quoted\"|; s|^TryExec=neuron|TryExec=$(printf '%s' "$app/neuron" | sed 's/[&|\\]/\\&/g')|" "$from/share/applications/network.neuron.app.desktop" >"$entry"
sh "$app/refresh" "$share"

now=$("$app/neuron-engine" --version | sed 's/.*version //; s/ .*//')
if [ -n "$was" ]; then say "Neuron $now is installed (it was $was)."; else say "Neuron $now is installed."; fi
say "It is in the menu of your desktop. To remove it: $app/uninstall"
case :${PATH:-}: in
*:"$bin":*) ;;
*) say "For the command line, add $bin to your PATH." ;;
esac

if [ -n "$start" ] && [ -z "$was" ] && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
	# Not bound to this terminal.
	cd "$HOME"
	setsid "$app/neuron" >/dev/null 2>&1 </dev/null &
fi
