#!/usr/bin/env python3
"""What a tracker owes for its sessions, computed from its public pages alone.

    paid.py TRACKER_URL SESSION...

It reads the receipts, manifests and prices that the tracker publishes, checks
every signature and the chain of roots, and prints JSON: per node what its owner
gets, and what the payers of all sessions pay, in micro-credits. It shares no
code with the tracker: docs/protocol/receipts.md and docs/protocol/ledger.md are
all that it was written from. It needs Python 3.9 and nothing else.
"""
import base64
import hashlib
import json
import struct
import sys
import urllib.request

# Ed25519, from RFC 8032 section 5.1.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def recover(y, sign):
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        raise ValueError("not a point")
    return P - x if x & 1 != sign else x


def point(b):
    n = int.from_bytes(b, "little")
    y = n & (2**255 - 1)
    x = recover(y, n >> 255)
    return x, y, 1, x * y % P


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, p):
    out = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = add(out, p)
        p, n = add(p, p), n >> 1
    return out


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def signed(key, message, sig):
    """Whether sig is the signature of key over message."""
    try:
        a, r = point(key), point(sig[:32])
    except ValueError:
        return False
    s = int.from_bytes(sig[32:], "little")
    k = int.from_bytes(hashlib.sha512(sig[:32] + key + message).digest(), "little") % ORDER
    left, right = times(s, BASE), add(r, times(k, a))
    return s < ORDER and not (
        (left[0] * right[2] - right[0] * left[2]) % P or (left[1] * right[2] - right[1] * left[2]) % P
    )


# Receipts, from docs/protocol/receipts.md.

BODY, FULL = 372, 564


class Receipt:
    def __init__(self, raw):
        if len(raw) != FULL or raw[:5] != b"NRNr\x01":
            raise ValueError("not a receipt")
        self.raw, body = raw, raw[:BODY]
        self.kind = raw[5]
        self.lease, self.model = raw[24:56], raw[56:88].hex()
        self.node, self.receiver = raw[88:120], raw[120:152]
        self.hop = struct.unpack_from("<H", raw, 152)[0]
        self.first_layer, self.last_layer, self.seq = struct.unpack_from("<III", raw, 156)
        self.epoch = struct.unpack_from("<I", raw, 172)[0]
        self.first, self.last, self.rows = struct.unpack_from("<III", raw, 176)
        self.input, self.output = raw[196:228], raw[228:260]
        key, sig, key2, sig2 = raw[372:404], raw[404:468], raw[468:500], raw[500:564]
        self.both = (
            hashlib.sha256(key).digest() == self.node
            and hashlib.sha256(key2).digest() == self.receiver
            and signed(key, b"neuron-receipt-v1\0" + body, sig)
            and signed(key2, b"neuron-receipt-receiver-v1\0" + body, sig2)
        )

    def shape(self):
        return self.kind, self.seq, self.epoch, self.first, self.last, self.rows


def node_id(b):
    """A node id as text: the hash in base32."""
    return base64.b32encode(b).decode().lower().rstrip("=")


def backed(by_hop, hops, seq):
    """The hops whose receipts for a span are vouched for up to the driver."""
    out, behind = [], None
    for hop in reversed(range(hops)):
        r = by_hop.get((hop, seq))
        if r is None or not r.both:
            break
        if behind is not None and (r.shape() != behind.shape() or r.output != behind.input):
            break
        out.append(r)
        behind = r
    return out


# Prices, from docs/protocol/ledger.md.


def weights(manifest, first, last):
    layers, total = manifest["layers"], 0
    for t in manifest["tensors"]:
        head, tail = first == 0, last == layers
        use = t["use"]
        if (
            use == "all"
            or use == "layer" and first <= t["layer"] < last
            or use == "head" and head
            or use == "tail" and tail
            or use == "ends" and (head or tail)
        ):
            total += t["bytes"]
    return total


def row_prices(prices, size):
    decode = size * prices["decode_per_mib"] // 2**20
    return decode * prices["prefill_ppm"] // 10**6, decode


def main(tracker, sessions):
    def get(path):
        with urllib.request.urlopen(tracker.rstrip("/") + path, timeout=20) as r:
            return json.load(r)

    prices = [p for p in get("/v1/prices")["prices"]][-1]
    owners, cost, rows, count, manifests = {}, 0, {}, 0, {}
    for s in sessions:
        info = get("/v1/sessions/" + s)
        model, hops = info["model"], info["hops"]
        if model not in manifests:
            manifests[model] = get("/v1/models/" + model + "/manifest")["manifest"]
        by_hop = {}
        for text in get("/v1/sessions/" + s + "/receipts")["receipts"]:
            r = Receipt(base64.b64decode(text))
            count += 1
            use = hops[r.hop]["use"]
            if node_id(r.node) != hops[r.hop]["node"] or (r.first_layer, r.last_layer) != (use["first"], use["last"]) or r.model != model:
                raise SystemExit("a receipt is not for what was leased")
            old = by_hop.get((r.hop, r.seq))
            if old is None or r.both:
                by_hop[r.hop, r.seq] = r
        end = info.get("end") or {}
        error = end.get("error") or {}
        if error and error["code"] != "cancelled" and "by_driver" not in error.get("detail", {}):
            continue  # a failed session pays nobody
        for seq in sorted({seq for _, seq in by_hop}):
            for r in backed(by_hop, len(hops), seq):
                prefill, decode = row_prices(prices, weights(manifests[model], r.first_layer, r.last_layer))
                price = prefill if r.kind == 1 else decode
                stood = r.last - r.first
                node = node_id(r.node)
                owners[node] = owners.get(node, 0) + stood * (price - price * prices["fee_ppm"] // 10**6)
                cost += stood * price
                rows[node] = rows.get(node, 0) + stood
    json.dump({"owners": owners, "cost": cost, "rows": rows, "receipts": count}, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2:])
