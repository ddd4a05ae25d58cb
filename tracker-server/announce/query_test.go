package announce

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
)

const (
	hash20  = "%00%01%02%ff%fe456789abcdefghi"
	minimum = "info_hash=" + hash20 + "&peer_id=-NN0001-123456789012&port=6881"
)

func TestParseAnnounce(t *testing.T) {
	t.Parallel()
	r, err := ParseAnnounce(minimum + "&uploaded=1&downloaded=2&left=3&event=started&numwant=7&compact=0&no_peer_id=1&ip=::ffff:127.0.0.2&key=9&token=a.b&x=%20&supportcrypto=1")
	if err != nil {
		t.Fatal(err)
	}
	if r.InfoHash[3] != 0xff || string(r.PeerID[:]) != "-NN0001-123456789012" || r.Port != 6881 || r.Uploaded != 1 || r.Downloaded != 2 || r.Left != 3 ||
		r.Event != EventStarted || r.NumWant != 7 || r.Compact || !r.NoPeerID || r.IP != netip.MustParseAddr("127.0.0.2") || r.Token != "a.b" {
		t.Errorf("got %+v", r)
	}
	r, err = ParseAnnounce(minimum + "&left=-1&numwant=-5&event=empty")
	if err != nil || r.Left != 1 || r.NumWant != -1 || !r.Compact || r.Event != EventNone || r.IP.IsValid() {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err = ParseAnnounce(minimum); err != nil || r.Left == 0 {
		t.Errorf("who does not say what is left is no seed: %+v, %v", r, err)
	}
	for _, raw := range []string{
		"", "a", minimum + "&info_hash=" + hash20, strings.Replace(minimum, "port=6881", "port=0", 1), strings.Replace(minimum, "6881", "65536", 1),
		strings.Replace(minimum, "%00", "", 1), strings.Replace(minimum, "%00", "%0", 1), strings.Replace(minimum, "-NN", "%2", 1),
		"info_hash=" + hash20 + "&port=1", minimum + "&left=-2", minimum + "&left=1e3", minimum + "&left=99999999999999999999", minimum + "&event=dance",
		minimum + "&numwant=x", minimum + "&ip=example.org", minimum + "&ip=fe80::1%25eth0", minimum + "&uploaded=", minimum + "&%zz=1",
		minimum + strings.Repeat("&a=b", maxParams), minimum + "&x=" + strings.Repeat("y", maxQuery),
	} {
		if r, err := ParseAnnounce(raw); err == nil {
			t.Errorf("%.60q passed: %+v", raw, r)
		} else {
			wantCode(t, err, protocol.CodeInvalidRequest)
		}
	}
}

func TestParseScrape(t *testing.T) {
	t.Parallel()
	h, token, err := ParseScrape("info_hash=" + hash20 + "&info_hash=aaaaaaaaaaaaaaaaaaaa&token=t&z=1")
	if err != nil || len(h) != 2 || h[1][0] != 'a' || token != "t" {
		t.Errorf("got %v %q %v", h, token, err)
	}
	for _, raw := range []string{"", "info_hash=a", "info_hash=%", strings.Repeat("info_hash="+hash20+"&", MaxScrape+1)} {
		if _, _, err := ParseScrape(raw); err == nil {
			t.Errorf("%.60q passed", raw)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	ap := netip.MustParseAddrPort
	a := &Reply{Interval: time.Minute, MinInterval: 1500 * time.Millisecond, Seeds: 2, Leechers: 1, Peers: []Peer{
		{Addr: ap("1.2.3.4:258"), ID: PeerID([]byte("abcdefghijklmnopqrst"))}, {Addr: ap("[2001:db8::1]:1")}}}
	for want, r := range map[string]*Request{
		"d8:completei2e10:incompletei1e8:intervali60e12:min intervali2e5:peers6:\x01\x02\x03\x04\x01\x026:peers618:\x20\x01\x0d\xb8" +
			strings.Repeat("\x00", 11) + "\x01\x00\x01e": {Compact: true},
		"d8:completei2e10:incompletei1e8:intervali60e12:min intervali2e5:peersld2:ip7:1.2.3.47:peer id20:abcdefghijklmnopqrst4:porti258ee" +
			"d2:ip11:2001:db8::14:porti1eeee": {},
		"d8:completei2e10:incompletei1e8:intervali60e12:min intervali2e5:peersld2:ip7:1.2.3.44:porti258eed2:ip11:2001:db8::14:porti1eeee": {NoPeerID: true},
	} {
		if got := string(a.Encode(r)); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if got := string((&Reply{}).Encode(&Request{Compact: true})); got != "d8:completei0e10:incompletei0e8:intervali0e12:min intervali0e5:peers0:e" {
		t.Errorf("empty: %q", got)
	}
	files := map[Hash]Counts{{2}: {1, 2, 3}, {1}: {}}
	want := "d5:filesd20:\x01" + strings.Repeat("\x00", 19) + "d8:completei0e10:downloadedi0e10:incompletei0ee20:\x02" + strings.Repeat("\x00", 19) +
		"d8:completei1e10:downloadedi3e10:incompletei2eeee"
	if got := string(EncodeScrape(files)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for code, retry := range map[protocol.Code]string{protocol.CodeInvalidRequest: "5:never", protocol.CodeRateLimited: "i1e", protocol.CodeForbidden: "i2e"} {
		if got, want := string(EncodeFailure(protocol.Errorf(code, "no"))), "d14:failure reason2:no8:retry in"+retry+"e"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := EncodeFailure(fmt.Errorf("secret")); bytes.Contains(got, []byte("secret")) {
		t.Errorf("%q", got)
	}
}

// FuzzAnnounce: whatever a query says, nothing panics, what passes keeps its
// limits and can be written again, and no answer names an address that nobody
// can dial.
func FuzzAnnounce(f *testing.F) {
	for _, s := range []string{
		minimum, minimum + "&left=0&compact=0&numwant=9999999&event=completed&ip=127.0.0.1", "info_hash=%", "&&=&=", minimum + "&event=stopped&token=x",
		"info_hash=" + hash20 + "&info_hash=" + hash20,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if h, token, err := ParseScrape(raw); err == nil && (len(h) == 0 || len(h) > MaxScrape || len(token) > maxQuery) {
			t.Fatalf("scrape of %d", len(h))
		}
		r, err := ParseAnnounce(raw)
		if err != nil {
			if e := EncodeFailure(err); len(e) > 4096 {
				t.Fatalf("a failure of %d bytes", len(e))
			}
			return
		}
		if r.Port == 0 || r.Left < 0 || r.Uploaded < 0 || r.Downloaded < 0 || r.NumWant < -1 {
			t.Fatalf("got %+v", r)
		}
		again, err := ParseAnnounce(url.Values{"info_hash": {string(r.InfoHash[:])}, "peer_id": {string(r.PeerID[:])}, "port": {fmt.Sprint(r.Port)}}.Encode())
		if err != nil || again.InfoHash != r.InfoHash || again.PeerID != r.PeerID {
			t.Fatalf("%+v, %v", again, err)
		}
		tab := New(Config{Loopback: true})
		other := *r
		other.Port, other.Left, other.Event, other.IP = 9, 1, EventNone, netip.Addr{}
		for _, from := range []string{"127.0.0.1", "203.0.113.4", "2001:db8::4"} {
			_, _ = tab.Announce(netip.MustParseAddr(from), r, nil) // may be refused
		}
		a, err := tab.Announce(netip.MustParseAddr("127.0.0.9"), &other, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range a.Peers {
			if !Plausible(p.Addr) {
				t.Fatalf("told %s", p.Addr)
			}
		}
		if b := a.Encode(r); b[0] != 'd' || b[len(b)-1] != 'e' {
			t.Fatalf("%q", b)
		}
	})
}
