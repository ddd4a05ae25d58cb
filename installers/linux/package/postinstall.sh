#!/bin/sh
# deb: configure [VERSION BEFORE]; rpm: how many versions there are now.
set -e
case "${1:-}:${2:-}" in
configure:?* | [2-9]:*)
	# An upgrade: the trays that run are still those of the version before. That
	# one cannot be started anew is no fault of the package.
	/usr/lib/neuron/maintain restart || echo "neuron: log out and in again, or start Neuron, to run the new version" >&2
	;;
esac
