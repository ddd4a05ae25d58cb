#!/bin/sh
# deb: remove | purge | ...; rpm: how many versions are left.
set -e
case "${1:-}" in
remove | 0)
	[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
	;;
esac
case "${1:-}" in
purge | 0)
	rmdir /etc/neuron 2>/dev/null || true
	# Accounts and keys of a whole network are never removed by a package.
	for data in /var/lib/private/neuron-tracker /var/lib/neuron-tracker; do
		[ -d "$data" ] && [ ! -L "$data" ] || continue
		echo "neuron-tracker: the network's accounts and keys are kept in $data ($(du -sh "$data" | cut -f 1)); remove that folder if nobody needs them"
	done
	;;
esac
