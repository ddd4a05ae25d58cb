#!/bin/sh
# rpm alone: how many versions there will be. With deb the old version's script
# does this before.
set -e
case "${1:-}" in
[2-9])
	[ ! -x /usr/lib/neuron/maintain ] || /usr/lib/neuron/maintain finish || true
	;;
esac
