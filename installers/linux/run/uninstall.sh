#!/bin/sh
# Removes what install.sh has installed for this user:
#
#   uninstall [--keep-data | --remove-data]
#
# Asks about the data (models, chats, settings and the keys that balances hang
# on) and shows its size. Without a terminal to ask on, the data is kept.
set -eu

say() { printf '%s\n' "$*"; }
die() {
	say "Neuron was not removed: $*" >&2
	exit 1
}

data_too=
ask=yes
for arg; do
	case $arg in
	--keep-data) ask='' ;;
	--remove-data) ask='' data_too=yes ;;
	*) die "unknown option $arg (there are --keep-data and --remove-data)" ;;
	esac
done

app=$HOME/.local/lib/neuron
bin=$HOME/.local/bin
share=${XDG_DATA_HOME:-$HOME/.local/share}
config=${XDG_CONFIG_HOME:-$HOME/.config}
cache=${XDG_CACHE_HOME:-$HOME/.cache}
data=$share/neuron

[ -d "$app" ] || die "it is not in $app"
"$app/maintain" end || die "it still runs; quit it and try again"

if [ -n "$ask" ] && [ -d "$data" ]; then
	say "Your data (models, chats, settings, keys) takes $(du -sh "$data" | cut -f 1) in $data."
	if [ -t 0 ]; then
		say "Without its keys, a balance of credits is lost for ever, unless you have exported them."
		printf 'Remove the data, too? [y/N] '
		read -r answer || answer=
		case $answer in
		[yYjJoO]*) data_too=yes ;;
		esac
	fi
fi

# Only what points to this installation.
for program in neuron neuron-engine neuron-tray; do
	[ "$(readlink "$bin/$program" || true)" != "$app/$program" ] || rm -f "$bin/$program"
done
login=$config/autostart/neuron.desktop
real=$(CDPATH='' cd -- "$app" && pwd -P)
if grep -q -s -F -e "$app/" -e "$real/" "$login"; then rm -f "$login"; fi
while read -r file; do
	rm -f "$share/$file"
done <"$app/installed"
sh "$app/refresh" "$share"
while read -r file; do
	dir=$(dirname "$file")
	while [ "$dir" != . ] && rmdir "$share/$dir" 2>/dev/null; do
		dir=$(dirname "$dir")
	done
done <"$app/installed"
# The last one is the toolkit's list of fonts, which it makes again for any other
# program that wants one.
rm -rf "$config/fyne/network.neuron.app" "$cache/fyne/network.neuron.app" "$cache"/font_index_v[0-9]*.cache
[ -z "$data_too" ] || rm -rf "$data"
rm -rf "$app" "$app.old" "$app.new"
# Folders that were made for it and are empty.
for dir in "$config/autostart" "$config/fyne" "$config" "$cache/fyne" "$cache" "$bin" "$HOME/.local/lib" "$share" "$HOME/.local"; do
	rmdir "$dir" 2>/dev/null || true
done
if [ -z "$data_too" ] && [ -d "$data" ]; then
	say "Neuron is removed. Your data is kept in $data."
else
	say "Neuron is removed."
fi
