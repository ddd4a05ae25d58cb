#!/bin/sh
# deb: remove | upgrade | ...; rpm: how many versions will be left.
set -e
[ -d /run/systemd/system ] || exit 0
case "${1:-}" in
remove | 0) systemctl disable --now neuron-tracker.service || true ;;
esac
