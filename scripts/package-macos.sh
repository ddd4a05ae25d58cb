#!/usr/bin/env bash
# Makes Neuron.app and a disk image of it, on a Mac:
#
#   scripts/package-macos.sh          DIST/neuron-VERSION-macos-ARCH.dmg
#   scripts/package-macos.sh layout   build/package/macos/Neuron.app alone, of
#                                     programs that are there already (any system)
#
#   VERSION   the version [what scripts/version.sh says]
#   DIST      [dist]
#   ARCH      arm64 or x64 [this Mac's]
#   PROGRAMS  layout: folder with neuron, neuron-tray and neuron-engine
#   NATIVE    layout: folder with the llama.cpp libraries
#   LICENCES  folder with the licences of all parts [build/package/licences]
#
#   NEURON_CODESIGN_IDENTITY  signs with it, by its name in the keychain
#                             ("Developer ID Application: ..."), else ad hoc
#   NEURON_NOTARY_PROFILE     has Apple notarise the image, with the credentials
#                             that xcrun notarytool store-credentials has kept
#                             under this name
#
# NOT TRIED ON A MAC YET: there is none among the machines that build Neuron. The
# layout is (installers/macos). The script keeps to bash 3.2, which Macs have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
export GOFLAGS="-tags=nosqlite -trimpath" # as in the Makefile

version=${VERSION:-$(scripts/version.sh)}
version=${version#v}
numbers=$(printf '%s\n' "$version" | sed -n 's/^\([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p')
[ -n "$numbers" ] || {
    echo "package-macos: the version '$version' does not begin with three numbers" >&2
    exit 1
}
dist=${DIST:-dist} work=${WORK:-build/package/macos} licences=${LICENCES:-build/package/licences}
app=$work/Neuron.app

# layout puts the bundle together: programs beside each other, where they look
# for each other; libraries and resources where the engine looks for them.
layout() { # PROGRAMS NATIVE
    rm -rf "$work/Neuron.app"
    mkdir -p "$app/Contents/MacOS" "$app/Contents/Frameworks" "$app/Contents/Resources/licences"
    for program in neuron neuron-tray neuron-engine; do
        cp "$1/$program" "$app/Contents/MacOS/$program"
        chmod 755 "$app/Contents/MacOS/$program"
    done
    for library in "$2"/*.dylib "$2"/*.so; do
        [ ! -e "$library" ] || cp "$library" "$app/Contents/Frameworks/"
    done
    cp assets/icons/app.icns assets/model/guide-q8_0.gguf "$app/Contents/Resources/"
    cp LICENSE "$app/Contents/Resources/licences/Neuron.txt"
    cp "$2/LICENSE" "$app/Contents/Resources/licences/llama.cpp.txt"
    if [ -d "$licences" ]; then
        cp "$licences"/*.txt "$app/Contents/Resources/licences/"
    else
        echo "package-macos: WITHOUT THE LICENCES of the Go modules ($licences is missing)"
    fi
    sed -e "s/@VERSION@/$version/" -e "s/@NUMBERS@/$numbers/" installers/macos/Info.plist >"$app/Contents/Info.plist"
    printf 'APPL????' >"$app/Contents/PkgInfo"
}

if [ "${1:-}" = layout ]; then
    layout "${PROGRAMS:?names the folder with the programs}" "${NATIVE:?names the folder with the libraries}"
    exit 0
fi
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"
[ "$(uname -s)" = Darwin ] || {
    echo "package-macos: NOT BUILT: Neuron.app (window and tray are built on a Mac, with Apple's SDK)"
    exit 0
}

case ${ARCH:-$(uname -m)} in
arm64) arch=arm64 goarch=arm64 native=mac-arm64-metal ;;
x64 | x86_64) arch=x64 goarch=amd64 native=mac-x64 ;;
*) echo "package-macos: unknown processor '${ARCH:-$(uname -m)}'" >&2 && exit 1 ;;
esac
sh llama/native/install.sh "$native"
programs=$work/programs
rm -rf "$work"
mkdir -p "$programs" "$dist"
# The oldest system that Go's own code runs on; clang must not ask for more.
export MACOSX_DEPLOYMENT_TARGET=12.0
stamp="-s -w -X neuron/internal/version.stamp=$version $(cat build/release 2>/dev/null || true)"
GOARCH=$goarch CGO_ENABLED=1 "$GO" build -buildvcs=false -tags nosqlite,migrated_fynedo -ldflags "$stamp" -o "$programs/neuron" ./app
GOARCH=$goarch CGO_ENABLED=1 "$GO" build -buildvcs=false -ldflags "$stamp" -o "$programs/neuron-tray" ./tray
GOARCH=$goarch CGO_ENABLED=0 "$GO" build -buildvcs=false -ldflags "$stamp" -o "$programs/neuron-engine" ./engine
layout "$programs" "build/native/$native"

# From the inside out. Programs for Apple's own processors do not run unsigned.
identity=${NEURON_CODESIGN_IDENTITY:--}
options=""
[ "$identity" = - ] || options="--timestamp --options runtime"
for part in "$app"/Contents/Frameworks/* "$app"/Contents/MacOS/neuron-engine "$app"/Contents/MacOS/neuron-tray "$app"; do
    # shellcheck disable=SC2086 # $options are several words, or none
    codesign --force --sign "$identity" $options "$part"
done
codesign --verify --deep --strict "$app"

image=$dist/neuron-$version-macos-$arch.dmg
rm -rf "$work/image" "$image"
mkdir "$work/image"
cp -R "$app" "$work/image/"
ln -s /Applications "$work/image/Applications"
hdiutil create -quiet -volname Neuron -srcfolder "$work/image" -format UDZO -ov "$image"
if [ "$identity" != - ]; then
    codesign --force --sign "$identity" --timestamp "$image"
fi
if [ -n "${NEURON_NOTARY_PROFILE:-}" ]; then
    xcrun notarytool submit "$image" --keychain-profile "$NEURON_NOTARY_PROFILE" --wait
    xcrun stapler staple "$image"
else
    echo "package-macos: not notarised (NEURON_NOTARY_PROFILE names no credentials)"
fi
echo "package-macos: $image"
