#!/usr/bin/env bash
# Compares what programs and libraries need of a system with what the packages
# say (installers/linux/package/*.yaml, docs/install.md):
#
#   scripts/package-needs.sh APP TRACKER
#
# APP is a folder as it is delivered (programs, lib/), TRACKER a program. Fails
# when a library is needed that no package names, when a newer symbol version is
# needed, and when a package names what nothing needs.
set -euo pipefail
app=$1 tracker=$2
readonly glibc=2.34 glibcxx=3.4.29
# Sonames that the packages name, as libc6, libgcc-s1, libstdc++6, libgl1, libx11-6.
readonly named="libGL.so.1 libX11.so.6 libc.so.6 libgcc_s.so.1 libstdc++.so.6"
# Parts of glibc.
readonly with_libc="libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1"

command -v readelf >/dev/null || {
    echo "package-needs: NOT CHECKED: what the programs need (readelf is not installed; on Debian: binutils)" >&2
    exit 0
}
bad=0
wrong() {
    echo "package-needs: $*" >&2
    bad=1
}
needed() { readelf -d "$@" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u; }
# newest PREFIX FILE... prints the highest version of a symbol.
newest() {
    local prefix=$1
    shift
    readelf -V "$@" 2>/dev/null | grep -o "Name: ${prefix}_[0-9.]*" | sed "s/.*_//" | sort -Vu | tail -n 1
}

mapfile -t files < <(find "$app" -maxdepth 1 -type f -perm -u+x ! -name '*.sh' -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -print | sort)
mapfile -t libraries < <(find "$app/lib" -type f -name '*.so' | sort)
used=""
for lib in $(needed "${files[@]}" "${libraries[@]}"); do
    [ ! -e "$app/lib/$lib" ] || continue
    case " $with_libc " in *" $lib "*) continue ;; esac
    case " $named " in
    *" $lib "*) used+=" $lib" ;;
    *) wrong "$lib is needed, and no package names it" ;;
    esac
done
for lib in $named; do
    case "$used " in *" $lib "*) ;; *) wrong "the packages name $lib, and nothing needs it" ;; esac
done
for pair in "GLIBC $glibc" "GLIBCXX $glibcxx"; do
    is=$(newest "${pair% *}" "${files[@]}" "${libraries[@]}")
    [ "$(printf '%s\n' "$is" "${pair#* }" | sort -V | tail -n 1)" = "${pair#* }" ] || wrong "${pair% *}_$is is needed, the packages say ${pair#* }"
done
for program in "$app/neuron-tray" "$tracker"; do
    [ -z "$(needed "$program")" ] || wrong "$program needs libraries: $(needed "$program" | tr '\n' ' ')"
done
[ "$bad" -eq 0 ] || exit 1
echo "package-needs: glibc $(newest GLIBC "${files[@]}" "${libraries[@]}"), GLIBCXX $(newest GLIBCXX "${files[@]}" "${libraries[@]}"),$used" >&2
