#!/usr/bin/env bash
# Collects the licences of everything that is delivered, and writes the lists of
# its parts (SPDX), from the programs in bin/ themselves:
#
#   scripts/licences.sh
#
# writes build/package/licences: THIRD-PARTY.txt for people, neuron-VERSION.spdx.json
# and neuron-tracker-VERSION.spdx.json for machines. A part without a licence is an
# error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"
GO=${GO:-go}
version=${VERSION:-$(cat build/version)} version=${version#v}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
readonly out=build/package/licences
case $(uname -s)/$(uname -m) in
Linux/x86_64) native=linux-x64 ;;
Linux/aarch64) native=linux-arm64 ;;
Darwin/arm64) native=mac-arm64-metal ;;
Darwin/x86_64) native=mac-x64 ;;
*) echo "licences: no native libraries for $(uname -s)/$(uname -m)" >&2 && exit 1 ;;
esac
rm -rf "$out"
mkdir -p "$out" build/tools
CGO_ENABLED=0 "$GO" build -o build/tools/bom ./internal/cmd/bom
desktop=(bin/neuron-engine bin/neuron-tray)
[ ! -e bin/neuron ] || desktop=(bin/neuron "${desktop[@]}")
common=(-go "$GO" -version "$version")
build/tools/bom "${common[@]}" -native "build/native/$native" -licences "$out/THIRD-PARTY.txt" "${desktop[@]}" bin/neuron-tracker
build/tools/bom "${common[@]}" -native "build/native/$native" -model assets/model/guide-q8_0.gguf -spdx "$out/neuron-$version.spdx.json" "${desktop[@]}"
build/tools/bom "${common[@]}" -name neuron-tracker -spdx "$out/neuron-tracker-$version.spdx.json" bin/neuron-tracker
