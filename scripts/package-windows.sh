#!/usr/bin/env bash
# Makes the setup program for Windows on x64:
#
#   scripts/package-windows.sh
#
# writes neuron-VERSION-windows-x64-setup.exe into the folder DIST. Wants makensis
# and the mingw-w64 compiler (Debian: nsis, gcc-mingw-w64-x86-64); without them it
# says so and makes nothing. `make package` calls it and makes the licences first.
#
#   VERSION            the version [what scripts/version.sh says]
#   DIST               [dist]
#   SOURCE_DATE_EPOCH  time stamp of the result [0]
#   LICENCES           folder with the licences of all parts [build/package/licences]
#   QUICK              anything: compress quickly, for tests (twice as large)
#
# The programs and the setup are signed when scripts/sign-windows.sh has a key.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/alone.bash
. scripts/alone.bash
alone "$@"
GO=${GO:-go}
export GOFLAGS="-tags=nosqlite -trimpath" # as in the Makefile

dist=${DIST:-dist}
readonly work=build/package/windows stage=build/package/windows/stage
version=${VERSION:-$(scripts/version.sh)} version=${version#v}
readonly licences=${LICENCES:-build/package/licences}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
began=$SECONDS

# Windows wants four numbers; what stands behind the third is in the texts.
version4=$(sed -n 's/^\([0-9]*\.[0-9]*\.[0-9]*\).*/\1.0/p' <<<"$version")
[ -n "$version4" ] || {
    echo "package-windows: the version '$version' does not begin with three numbers" >&2
    exit 1
}

mingw=x86_64-w64-mingw32-gcc windres=x86_64-w64-mingw32-windres
for tool in makensis "$mingw" "$windres"; do
    command -v "$tool" >/dev/null || {
        echo "package-windows: NOT BUILT: the setup for Windows ($tool is not installed; on Debian: apt-get install nsis gcc-mingw-w64-x86-64)"
        exit 0
    }
done

# Resources are linked where they lie in the program's own folder, and into
# programs for Windows on x64 alone: the name says so.
sources=()
trap 'rm -f "${sources[@]}"' EXIT
trap 'exit 1' HUP INT TERM

# resources NAME FOLDER DESCRIPTION makes icon, version and manifest.
resources() {
    local rc=$work/$1.rc syso=$2/resources_windows_amd64.syso
    cat >"$rc" <<RC
#include <winver.h>
1 24 "installers/windows/program.manifest"
GLFW_ICON ICON "assets/icons/app.ico"
1 VERSIONINFO
FILEVERSION ${version4//./,}
PRODUCTVERSION ${version4//./,}
FILEOS VOS_NT_WINDOWS32
FILETYPE VFT_APP
BEGIN
  BLOCK "StringFileInfo"
  BEGIN
    BLOCK "040904B0"
    BEGIN
      VALUE "CompanyName", "The Neuron project"
      VALUE "FileDescription", "$3"
      VALUE "FileVersion", "$version"
      VALUE "InternalName", "$1"
      VALUE "LegalCopyright", "Apache-2.0"
      VALUE "OriginalFilename", "$1.exe"
      VALUE "ProductName", "Neuron"
      VALUE "ProductVersion", "$version"
    END
  END
  BLOCK "VarFileInfo"
  BEGIN
    VALUE "Translation", 0x409, 1200
  END
END
RC
    sources+=("$syso")
    "$windres" -O coff -i "$rc" -o "$syso"
}

# build NAME FOLDER DESCRIPTION CGO FLAGS...
build() {
    local name=$1 folder=$2 what=$3 cgo=$4
    shift 4
    echo "build $name.exe"
    resources "$name" "$folder" "$what"
    env GOOS=windows GOARCH=amd64 CGO_ENABLED="$cgo" CC="$mingw" "$GO" build -buildvcs=false "${@:2}" \
        -ldflags "-s -w $1 -X neuron/internal/version.stamp=$version $(cat build/release 2>/dev/null || true)" -o "$stage/$name.exe" "./$folder"
}

rm -rf "$work"
mkdir -p "$stage/lib" "$stage/licences" "$dist"
sh llama/native/install.sh win-x64
build neuron app "Neuron" 1 -H=windowsgui -tags nosqlite,migrated_fynedo
build neuron-tray tray "Neuron (tray icon)" 0 -H=windowsgui
build neuron-engine engine "Neuron (engine)" 0 ""
scripts/sign-windows.sh "$stage"/*.exe

cp build/native/win-x64/*.dll "$stage/lib/"
cp build/native/win-x64/LICENSE "$stage/licences/llama.cpp.txt"
cp assets/model/guide-q8_0.gguf "$stage/"
cp LICENSE "$stage/licences/Neuron.txt"
if [ -d "$licences" ]; then
    cp "$licences"/*.txt "$stage/licences/"
else
    echo "package-windows: WITHOUT THE LICENCES of the Go modules ($licences is missing)"
fi

# Every file by its name: the uninstaller removes these and nothing else, and the
# next version's setup removes what it does not bring itself.
lists=$work/lists.nsh
(
    cd "$stage"
    touch installed.txt
    find . -type f -printf '%P\n' | LC_ALL=C sort | tr / '\\' | sed 's/$/\r/' >installed.txt
    find . -mindepth 1 -type d -printf '%P\n' | LC_ALL=C sort -r >../folders
)
backslash() { tr / '\\' <<<"$1"; }
{
    printf '!macro UNPACK TO\n'
    (
        cd "$stage"
        find . -type f -printf '%P\n' | LC_ALL=C sort
    ) | while IFS= read -r file; do
        case $file in
        */*) printf '  SetOutPath "${TO}\\%s"\n' "$(backslash "${file%/*}")" ;;
        *) printf '  SetOutPath "${TO}"\n' ;;
        esac
        printf '  File "${STAGE}/%s"\n' "$file"
    done
    printf '!macroend\n!macro MOVE_ALL\n'
    LC_ALL=C sort "$work/folders" | while IFS= read -r folder; do
        printf '  CreateDirectory "$INSTDIR\\%s"\n' "$(backslash "$folder")"
    done
    tr -d '\r' <"$stage/installed.txt" | while IFS= read -r file; do
        printf '  !insertmacro MOVE "%s"\n' "$file"
    done
    printf '!macroend\n!macro REMOVE_ALL\n'
    tr -d '\r' <"$stage/installed.txt" | while IFS= read -r file; do
        printf '  Delete "$INSTDIR\\%s"\n' "$file"
    done
    while IFS= read -r folder; do
        printf '  RMDir "$INSTDIR\\%s"\n' "$(backslash "$folder")"
    done <"$work/folders"
    printf '!macroend\n'
} >"$lists"

setup=$dist/neuron-$version-windows-x64-setup.exe
sign=()
[ -z "${NEURON_AUTHENTICODE_PKCS12:-}${NEURON_AUTHENTICODE_KEY:-}" ] || sign=(-DSIGN="$PWD/scripts/sign-windows.sh")
rm -f "$setup"
echo "build $(basename "$setup")"
makensis -V2 -WX -INPUTCHARSET UTF8 -DVERSION="$version" -DVERSION4="$version4" -DSTAGE="$PWD/$stage" -DLISTS="$PWD/$lists" \
    -DKILOBYTES="$(du -sk --apparent-size "$stage" | cut -f 1)" -DICON="$PWD/assets/icons/app.ico" \
    -DOUTPUT="$(realpath -m "$setup")" ${QUICK:+-DQUICK} "${sign[@]}" "$PWD/installers/windows/neuron.nsi"
signed="not signed, see scripts/sign-windows.sh"
[ ${#sign[@]} -eq 0 ] || signed=signed
echo "package-windows: $setup ($signed; $(($(stat -c %s "$setup") / 1048576)) MB, $((SECONDS - began)) s)"
