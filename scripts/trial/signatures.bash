# shellcheck shell=bash
# What a release does with its GPG key, with one that is thrown away. Sourced by
# package-test-linux.sh.

test_signatures() {
    command -v gpg >/dev/null || {
        not_checked "signatures (gpg is not installed)"
        return 0
    }
    local keys=$work/keys made=$work/signed deb rpm
    mkdir -m 700 "$keys"
    mkdir "$made"
    export GNUPGHOME=$keys
    gpg --batch --quiet --passphrase '' --quick-gen-key 'Neuron test <test@neuron.invalid>' rsa2048 sign 1d 2>"$work/gpg.log" || die "signatures: no key"
    gpg --batch --quiet --export-secret-keys --armor >"$keys/private.asc" 2>>"$work/gpg.log"
    gpg --batch --quiet --export --armor >"$keys/public.asc"
    VERSION=$version DIST=$made FORMATS=tracker SOURCE_DATE_EPOCH=1 NEURON_GPG_KEY_FILE=$keys/private.asc scripts/package-linux.sh 2>"$work/signed.log" || die "signatures: packages cannot be signed"
    deb=$(package tracker-deb "$made") rpm=$(package tracker-rpm "$made")
    ar t "$deb" | grep -q '^_gpgorigin$' || die "signatures: the .deb has none"
    if command -v rpmkeys >/dev/null; then
        rpmkeys --dbpath "$work/rpmdb" --initdb 2>/dev/null || mkdir -p "$work/rpmdb"
        rpmkeys --dbpath "$work/rpmdb" --import "$keys/public.asc"
        rpmkeys --dbpath "$work/rpmdb" --checksig "$rpm" | grep -q 'signatures OK' || die "signatures: the .rpm's does not fit"
    else
        not_checked "the signature of the .rpm (rpmkeys is not installed)"
    fi
    (cd "$dist" && sha256sum --quiet -c SHA256SUMS) || die "signatures: SHA256SUMS does not fit dist/"
    gpg --batch --quiet --local-user test@neuron.invalid --armor --detach-sign --output "$work/SHA256SUMS.asc" "$dist/SHA256SUMS"
    gpg --batch --quiet --verify "$work/SHA256SUMS.asc" "$dist/SHA256SUMS" 2>>"$work/gpg.log" || die "signatures: that of SHA256SUMS does not fit"
    gpgconf --kill all || true # the agent that gpg has started for these keys
    unset GNUPGHOME
    said "signatures: .deb, .rpm and SHA256SUMS are signed, sums fit"
}
