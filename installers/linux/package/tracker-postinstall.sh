#!/bin/sh
# deb: configure [VERSION BEFORE]; rpm: how many versions there are now.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
case "${1:-}:${2:-}" in
configure:?* | [2-9]:*) systemctl try-restart neuron-tracker.service || true ;;
*) echo "neuron-tracker: edit /etc/neuron/tracker.conf, then: systemctl enable --now neuron-tracker" ;;
esac
