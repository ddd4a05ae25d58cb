#!/bin/sh
# deb: upgrade | remove | deconfigure | failed-upgrade; rpm: how many versions
# will be left. Files of an rpm are replaced before the old one's script runs.
set -e
case "${1:-}" in
upgrade | failed-upgrade) /usr/lib/neuron/maintain finish || true ;;
remove | deconfigure | 0) /usr/lib/neuron/maintain end || true ;;
esac
