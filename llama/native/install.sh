#!/bin/sh
# Installs the libllama build of one platform:
#
#   sh llama/native/install.sh [PLATFORM [DEST]]
#
# PLATFORM is the part of the npm package name after @node-llama-cpp/ (default:
# this machine's); DEST is the folder that gets the libraries and their licence
# (default: build/native/PLATFORM at the repository root). The version and its
# integrity hash come from ../package-lock.json. Nothing is done when DEST has
# that very build. npm removes what does not fit --os and --cpu from a tree, so
# every platform is installed in a temporary folder of its own.
set -eu

die() {
	echo "install.sh: $*" >&2
	exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
lock=$here/../package-lock.json

host_platform() {
	case "$(uname -s)/$(uname -m)" in
	Linux/x86_64) echo linux-x64 ;;
	Linux/aarch64 | Linux/arm64) echo linux-arm64 ;;
	Darwin/arm64) echo mac-arm64-metal ;;
	Darwin/x86_64) echo mac-x64 ;;
	MINGW*/x86_64 | MSYS*/x86_64 | CYGWIN*/x86_64) echo win-x64 ;;
	MINGW*/aarch64 | MSYS*/aarch64) echo win-arm64 ;;
	*) die "no native package for $(uname -s)/$(uname -m); name a platform" ;;
	esac
}

platform=${1:-$(host_platform)}
case $platform in
linux-x64 | linux-x64-vulkan) os=linux cpu=x64 ;;
linux-arm64) os=linux cpu=arm64 ;;
mac-arm64-metal) os=darwin cpu=arm64 ;;
mac-x64) os=darwin cpu=x64 ;;
win-x64 | win-x64-vulkan) os=win32 cpu=x64 ;;
win-arm64) os=win32 cpu=arm64 ;;
*) die "unknown platform '$platform'" ;;
esac
dest=${2:-$root/build/native/$platform}
name=@node-llama-cpp/$platform

# The lock is written by npm, one field a line.
integrity=$(sed -n "/\"node_modules\/@node-llama-cpp\/$platform\": {/,/}/s/.*\"integrity\": \"\(.*\)\".*/\1/p" "$lock")
version=$(sed -n "/\"node_modules\/@node-llama-cpp\/$platform\": {/,/}/s/.*\"version\": \"\(.*\)\".*/\1/p" "$lock")
[ -n "$integrity" ] && [ -n "$version" ] || die "$name is not in $lock"

stamp=$dest/.installed
want="$name $version $integrity"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then
	exit 0
fi

command -v npm >/dev/null 2>&1 || die "npm is needed to fetch $name $version (install Node.js 20 or later)"

if [ -e "$dest" ] && [ ! -f "$stamp" ] && [ -n "$(ls -A "$dest")" ]; then
	die "$dest is not empty and was not made by this script"
fi
mkdir -p "$(dirname -- "$dest")"
work=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The same lock entry, alone: npm would also install the other packages that fit
# this os and cpu. It stays optional, since npm takes --os and --cpu only for those;
# so npm may pass over a failure, and the folder is checked below.
node - "$lock" "$name" "$work" <<'JS' || die "cannot read $lock"
const fs = require("fs");
const [lockFile, name, work] = process.argv.slice(2);
const entry = JSON.parse(fs.readFileSync(lockFile, "utf8")).packages["node_modules/" + name];
// Its wish for a newest Node.js is for its own loader, which is left out here.
delete entry.engines;
const root = { name: "neuron-native-one", version: "0.0.0", optionalDependencies: { [name]: entry.version } };
fs.writeFileSync(work + "/package.json", JSON.stringify({ ...root, private: true }));
fs.writeFileSync(work + "/package-lock.json", JSON.stringify({
	name: root.name, version: root.version, lockfileVersion: 3, requires: true,
	packages: { "": root, ["node_modules/" + name]: entry },
}));
JS

if ! (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error \
	--os="$os" --cpu="$cpu" --libc=glibc >npm.log 2>&1); then
	sed 's/^/  /' "$work/npm.log" >&2
	die "npm could not install $name $version: is the network there, and does the hash fit?"
fi

from=$work/node_modules/$name
if [ ! -d "$from/bins/$platform" ]; then
	sed 's/^/  /' "$work/npm.log" >&2
	die "npm did not install $name $version: is the network there, and does the hash fit?"
fi
rm -rf "$work/out"
mkdir "$work/out"
# llama-addon and libllama-common belong to Node.js, not to us.
for f in "$from/bins/$platform"/*; do
	case ${f##*/} in
	llama-addon.* | *llama-common.* | _nlc*) ;;
	*) cp "$f" "$work/out/" ;;
	esac
done
cp "$from/LICENSE" "$work/out/LICENSE"
printf '%s\n' "$want" >"$work/out/.installed"
rm -rf "$dest"
mv "$work/out" "$dest"
echo "$name $version installed in $dest"
