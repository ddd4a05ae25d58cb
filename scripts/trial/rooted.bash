# shellcheck shell=bash
# The packages that a system installs: .deb and .rpm, each in a fresh root of its
# own. Sourced by package-test-linux.sh after app.bash.

mounts=()
readonly tar=$out/bookworm.tar

# listing DIR: everything below it but what a system changes by itself.
listing() {
    (cd "$1" && find . -xdev \( -path ./proc -o -path ./tmp -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt \
        -o -path ./var/lib/dpkg/info -o -path ./var/lib/rpm -o -path ./usr/lib/sysimage \) -prune -o -print | sort)
}

# base makes the root that all begin with, once: Debian and the libraries that the
# package asks for.
base() {
    local deb needs
    said "debootstrap (once; kept in ${tar#"$PWD/"})"
    debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log" 2>&1 || return 1
    cp /etc/apt/sources.list.d/* "$work/base/etc/apt/sources.list.d/" 2>/dev/null || true
    deb=$(package deb) || return 1
    needs="libgl1-mesa-dri, $(dpkg-deb -f "$deb" Depends)"
    chroot "$work/base" sh -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get satisfy -y -qq --no-install-recommends '$needs' && apt-get clean" >>"$work/debootstrap.log" 2>&1 || return 1
    tar -C "$work/base" -cf "$tar.new" . && mv "$tar.new" "$tar" && rm -rf "$work/base"
}

# can_root KIND says what this machine lacks for a root of its own, and fails.
can_root() {
    local tool
    [ "$(id -u)" -eq 0 ] || {
        not_checked "the .$1 (wants root's rights, for chroot and mount)"
        return 1
    }
    for tool in debootstrap dpkg-deb; do
        [ -e "$tar" ] || command -v "$tool" >/dev/null || {
            not_checked "the .$1 ($tool is not installed)"
            return 1
        }
    done
    [ -e "$tar" ] || base || {
        tail -n 3 "$work/debootstrap.log"
        not_checked "the .$1 (debootstrap fails: is there a Debian mirror?)"
        return 1
    }
    mkdir -p "$work/$1/proc"
    mount -t proc proc "$work/$1/proc" || {
        not_checked "the .$1 (nothing may be mounted here)"
        return 1
    }
    mounts+=("$work/$1/proc")
}

# fresh KIND: a root in $work/KIND with a user.
fresh() {
    here=$work/$1
    tar -C "$here" -xf "$tar" --exclude=./proc
    chroot "$here" useradd --create-home --uid "$user" --key UID_MAX="$user" tester
    home=$here/home/tester inside=/home/tester folder=$here/usr/lib/neuron guide=/usr/lib/neuron/guide-q8_0.gguf tracker=neuron-tracker
    data=$home/.local/share/neuron
    installed() {
        chroot --userspec="$user:$user" "$here" env -i HOME=/home/tester PATH=/usr/bin:/bin LANG=en_US.UTF-8 \
            DISPLAY="${display:+:$display}" GGML_NO_BACKTRACE=1 "$@"
    }
}

# left KIND: compares the listing of a root with the one before.
left() {
    listing "$here" >"$out/$1-after.txt"
    diff "$out/$1-before.txt" "$out/$1-after.txt" | grep '^[<>]' | grep -v -E '^> \./home/tester(/|$)' >"$out/$1-left.txt" || true
    [ ! -s "$out/$1-left.txt" ] || die "$1: the removal left, or took: $(head -n 20 "$out/$1-left.txt")"
    [ -d "$data" ] || die "$1: the user's data is gone"
    said "$1: nothing is left but the user's own folder ($(du -sh "$data" | cut -f 1))"
}

root_maintain() { chroot "$here" /usr/lib/neuron/maintain "$@"; }
end_trackers() {
    local p
    for p in $(pids neuron-tracker); do kill -TERM "$p"; done
}

test_deb() {
    can_root deb || return 0
    fresh deb
    listing "$here" >"$out/deb-before.txt"
    local before new trackers
    before=$(package deb "$work/old") new=$(package deb) trackers=$(package tracker-deb)
    cp "$before" "$here/tmp/old.deb"
    cp "$new" "$here/tmp/new.deb"
    cp "$trackers" "$here/tmp/tracker.deb"
    chroot "$here" dpkg -i /tmp/old.deb /tmp/tracker.deb >"$work/deb-install.log" 2>&1 || die "deb: dpkg -i fails; are the dependencies those that it names?"
    chroot "$here" sh -c 'ldd /usr/lib/neuron/neuron /usr/lib/neuron/lib/*.so' >"$work/ldd.log"
    ! grep 'not found' "$work/ldd.log" || die "deb: libraries are missing that it does not name"
    echo '# mine' >>"$here/etc/neuron/tracker.conf"
    whole deb deb_upgrade deb_remove root_maintain
    absent "$here/etc/neuron/tracker.conf" || die "deb: purging the tracker left its settings"
    left deb
}
deb_upgrade() {
    chroot "$here" dpkg -i /tmp/new.deb &&
        chroot "$here" dpkg -i /tmp/tracker.deb && grep -q '^# mine$' "$here/etc/neuron/tracker.conf"
}
deb_remove() {
    end_trackers
    chroot "$here" dpkg --purge neuron neuron-tracker
}

test_rpm() {
    command -v rpm >/dev/null || {
        not_checked "the .rpm (rpm is not installed; on Debian: apt-get install rpm)"
        return 0
    }
    can_root rpm || return 0
    fresh rpm
    rpm --root "$here" --initdb
    # Folders that the package "filesystem" has where rpm is at home.
    mkdir -p "$here/usr/share/applications" "$here/usr/share/icons" "$here/usr/share/metainfo"
    listing "$here" >"$out/rpm-before.txt"
    # The libraries of this root are Debian's, of which rpm knows nothing. What the
    # package asks for is compared with the programs by scripts/package-needs.sh.
    local before trackers
    before=$(package rpm "$work/old") trackers=$(package tracker-rpm) new=$(package rpm)
    rpm --root "$here" -i --nodeps "$before" "$trackers" >"$work/rpm-install.log" 2>&1 || die "rpm: rpm -i fails"
    whole rpm rpm_upgrade rpm_remove root_maintain
    left rpm
}
rpm_upgrade() { rpm --root "$here" -U --nodeps "$new"; }
rpm_remove() {
    end_trackers
    rpm --root "$here" -e neuron neuron-tracker
}
