#!/usr/bin/env bash
# Signs programs for Windows (Authenticode, SHA-256) in place, when a key is set:
#
#   scripts/sign-windows.sh FILE.exe...
#
#   NEURON_AUTHENTICODE_PKCS12         certificate and key in one file, or
#   NEURON_AUTHENTICODE_CERT           certificate with its chain (PEM), and
#   NEURON_AUTHENTICODE_KEY            its key (PEM)
#   NEURON_AUTHENTICODE_PASSWORD_FILE  file with the key's password, if it has one
#   NEURON_AUTHENTICODE_TIMESTAMP      address of a time stamp service (RFC 3161);
#                                      without one a signature ends with its
#                                      certificate
#
# Without a key nothing is done. Passwords are read from a file, since all users
# of a machine see command lines.
set -euo pipefail

key=()
if [ -n "${NEURON_AUTHENTICODE_PKCS12:-}" ]; then
    key=(-pkcs12 "$NEURON_AUTHENTICODE_PKCS12")
elif [ -n "${NEURON_AUTHENTICODE_CERT:-}" ] && [ -n "${NEURON_AUTHENTICODE_KEY:-}" ]; then
    key=(-certs "$NEURON_AUTHENTICODE_CERT" -key "$NEURON_AUTHENTICODE_KEY")
else
    exit 0
fi
[ -z "${NEURON_AUTHENTICODE_PASSWORD_FILE:-}" ] || key+=(-readpass "$NEURON_AUTHENTICODE_PASSWORD_FILE")
[ -z "${NEURON_AUTHENTICODE_TIMESTAMP:-}" ] || key+=(-ts "$NEURON_AUTHENTICODE_TIMESTAMP")
command -v osslsigncode >/dev/null || {
    echo "sign-windows: osslsigncode is needed to sign: apt-get install osslsigncode" >&2
    exit 1
}

for file; do
    osslsigncode sign "${key[@]}" -h sha256 -n Neuron -in "$file" -out "$file.signed" >/dev/null || {
        rm -f "$file.signed"
        echo "sign-windows: $file cannot be signed" >&2
        exit 1
    }
    mv "$file.signed" "$file"
done
