#!/usr/bin/env bash
# Makes what can be packaged on this machine into dist/:
#
#   scripts/package.sh
#
# make package calls it when the programs are built. First the licences and the
# list of parts, then the packages of each system, then their sums. What cannot be
# made here is named.
#
#   FORMATS              which packages [deb rpm tar run tracker setup app]; setup is
#                        Windows', app that of macOS, the others are Linux'
#   NEURON_GPG_KEY       key that signs SHA256SUMS (an argument of gpg -u)
#   NEURON_GPG_KEY_FILE  private key that signs .deb and .rpm, see package-linux.sh
#
# The setup for Windows is signed by scripts/sign-windows.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"
export GO=${GO:-go} DIST=${DIST:-$PWD/dist} VERSION
VERSION=$(cat build/version) VERSION=${VERSION#v}
# The time of the commit: the same tree gives the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
started=$SECONDS
readonly all=" deb rpm tar run tracker setup app "
for format in ${FORMATS:=$all}; do
    case $all in
    *" $format "*) ;;
    *) echo "package: there is no format $format, but:$all" >&2 && exit 1 ;;
    esac
done
export FORMATS

rm -rf "$DIST"
mkdir -p "$DIST"
scripts/licences.sh

scripts/package-linux.sh
case " $FORMATS " in *" setup "*) scripts/package-windows.sh ;; esac
case " $FORMATS " in *" app "*) scripts/package-macos.sh ;; esac

cp build/package/licences/*.spdx.json "$DIST/"
(
    cd "$DIST"
    find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' -printf '%f\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS
    if [ -n "${NEURON_GPG_KEY:-}" ]; then
        gpg --batch --yes --local-user "$NEURON_GPG_KEY" --armor --detach-sign --output SHA256SUMS.asc SHA256SUMS
    else
        echo "package: SHA256SUMS is not signed (NEURON_GPG_KEY names no key)"
    fi
)
echo "package: $VERSION in dist/ after $((SECONDS - started)) s"
(cd "$DIST" && ls -l --time-style=+ | awk 'NR > 1 { printf "  %6.1f MB  %s\n", $5 / 1e6, $NF }')
