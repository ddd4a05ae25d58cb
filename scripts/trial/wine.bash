# shellcheck shell=bash
# Wine, for the scripts that try Windows programs; sourced after trial.bash.

# find_wine leaves the command in $wine, or says what is missing and fails.
find_wine() {
    [ "$(uname -s)/$(uname -m)" = Linux/x86_64 ] || {
        not_checked "all of it: Wine is tried on Linux on x64 only"
        return 1
    }
    wine=$(command -v wine64 || command -v wine) && command -v wineserver >/dev/null || {
        not_checked "all of it: wine is not installed; on Debian: apt-get install wine64 gcc-mingw-w64-x86-64"
        return 1
    }
}

# wine_prefix FOLDER uses it as the prefix, and makes it where there is none: no
# question about Mono and Gecko, no desktop files, and the one library that Go
# programs need and Wine 8 lacks. Fails when that cannot be made.
wine_prefix() {
    export WINEPREFIX=$1 WINEARCH=win64 WINEDEBUG=-all
    export WINEDLLOVERRIDES='mscoree,mshtml=;winemenubuilder.exe=d'
    local library=$1/drive_c/windows/system32/bcryptprimitives.dll cc
    mkdir -p "$1"
    if [ ! -e "$1/system.reg" ]; then
        timeout 180 "$wine" wineboot --init >"$work/wineboot.log" 2>&1 || die "the Wine prefix cannot be made"
        timeout 60 wineserver -w || true
    fi
    [ ! -e "$library" ] || return 0
    cc=$(command -v x86_64-w64-mingw32-gcc) || {
        not_checked "all of it: this Wine has no bcryptprimitives.dll, and gcc-mingw-w64-x86-64 to make one is not installed"
        return 1
    }
    "$cc" -shared -s -O2 -nostdlib -Wl,--entry,0 -o "$library" scripts/bcryptprimitives.c -ladvapi32
}

# end_wine ends what runs in the prefix, and in no other.
end_wine() { [ -z "${WINEPREFIX:-}" ] || timeout 20 wineserver -k 2>/dev/null || true; }
