package announce

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"neuron/engine/protocol"
)

// The answers are bencoded dictionaries; their keys are sorted, as BEP 3 asks.

func str(b *bytes.Buffer, s string) {
	b.WriteString(strconv.Itoa(len(s)))
	b.WriteByte(':')
	b.WriteString(s)
}

func number(b *bytes.Buffer, key string, n int) {
	str(b, key)
	b.WriteByte('i')
	b.WriteString(strconv.Itoa(n))
	b.WriteByte('e')
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// Encode is the answer to r: compact (BEP 23, with peers6 of BEP 7) unless the
// client refused that.
func (a *Reply) Encode(r *Request) []byte {
	var b bytes.Buffer
	b.WriteByte('d')
	number(&b, "complete", a.Seeds)
	number(&b, "incomplete", a.Leechers)
	number(&b, "interval", seconds(a.Interval))
	number(&b, "min interval", seconds(a.MinInterval))
	str(&b, "peers")
	if !r.Compact {
		b.WriteByte('l')
		for _, p := range a.Peers {
			b.WriteByte('d')
			str(&b, "ip")
			str(&b, p.Addr.Addr().String())
			if !r.NoPeerID && p.ID != (PeerID{}) {
				str(&b, "peer id")
				str(&b, string(p.ID[:]))
			}
			number(&b, "port", int(p.Addr.Port()))
			b.WriteByte('e')
		}
		b.WriteString("ee")
		return b.Bytes()
	}
	var v4, v6 []byte
	for _, p := range a.Peers {
		port := []byte{byte(p.Addr.Port() >> 8), byte(p.Addr.Port())}
		if ip := p.Addr.Addr(); ip.Is4() {
			v4 = append(append(v4, ip.AsSlice()...), port...)
		} else {
			v6 = append(append(v6, ip.AsSlice()...), port...)
		}
	}
	str(&b, string(v4))
	if len(v6) > 0 {
		str(&b, "peers6")
		str(&b, string(v6))
	}
	b.WriteByte('e')
	return b.Bytes()
}

// EncodeScrape is the answer to a scrape.
func EncodeScrape(files map[Hash]Counts) []byte {
	hashes := make([]Hash, 0, len(files))
	for h := range files {
		hashes = append(hashes, h)
	}
	slices.SortFunc(hashes, func(x, y Hash) int { return bytes.Compare(x[:], y[:]) })
	var b bytes.Buffer
	b.WriteByte('d')
	str(&b, "files")
	b.WriteByte('d')
	for _, h := range hashes {
		c := files[h]
		str(&b, string(h[:]))
		b.WriteByte('d')
		number(&b, "complete", c.Seeds)
		number(&b, "downloaded", c.Completed)
		number(&b, "incomplete", c.Leechers)
		b.WriteByte('e')
	}
	b.WriteString("ee")
	return b.Bytes()
}

// EncodeFailure tells a client why it gets no answer, in the form that clients
// show to people. Where trying again helps it says when (BEP 31).
func EncodeFailure(err error) []byte {
	e := protocol.AsError(err)
	var b bytes.Buffer
	b.WriteByte('d')
	str(&b, "failure reason")
	str(&b, e.Message)
	str(&b, "retry in")
	switch e.Code {
	case protocol.CodeInvalidRequest:
		str(&b, "never")
	case protocol.CodeRateLimited, protocol.CodeUnavailable, protocol.CodeInternal:
		b.WriteString("i1e") // minutes
	default: // the catalog may get the torrent, the node its token
		b.WriteString("i2e")
	}
	b.WriteByte('e')
	return b.Bytes()
}
