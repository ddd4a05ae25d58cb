package swarmtest

import (
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/anacrolix/torrent/bencode"
)

// Tracker is a BitTorrent tracker for IPv4 peers of the same computer.
type Tracker struct {
	URL string

	mu    sync.Mutex
	peers map[string][]netip.AddrPort // by info hash; guarded by mu
}

// StartTracker runs a tracker that ends with the test.
func StartTracker(t testing.TB) *Tracker {
	tr := &Tracker{peers: map[string][]netip.AddrPort{}}
	srv := httptest.NewServer(tr)
	t.Cleanup(srv.Close)
	tr.URL = srv.URL + "/announce"
	return tr
}

// Peers are those that have announced a torrent and not left.
func (tr *Tracker) Peers(infoHash string) []netip.AddrPort {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.peers[infoHash])
}

// ServeHTTP implements http.Handler.
func (tr *Tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	port, err := strconv.ParseUint(q.Get("port"), 10, 16)
	host, _, err2 := net.SplitHostPort(r.RemoteAddr)
	ip, err3 := netip.ParseAddr(host)
	hash := hexOf(q.Get("info_hash"))
	if err != nil || err2 != nil || err3 != nil || len(hash) != 40 {
		http.Error(w, "bad announce", http.StatusBadRequest)
		return
	}
	self := netip.AddrPortFrom(ip.Unmap(), uint16(port))
	tr.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(tr.peers[hash]), func(a netip.AddrPort) bool { return a == self })
	tr.peers[hash] = others
	if q.Get("event") != "stopped" {
		tr.peers[hash] = append(slices.Clone(others), self)
	}
	tr.mu.Unlock()
	compact := []byte{}
	for _, a := range others {
		b := a.Addr().As4()
		compact = binary.BigEndian.AppendUint16(append(compact, b[:]...), a.Port())
	}
	_, _ = w.Write(bencode.MustMarshal(map[string]any{"interval": 60, "peers": string(compact)}))
}

func hexOf(s string) string {
	const digits = "0123456789abcdef"
	var b []byte
	for i := range len(s) {
		b = append(b, digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}
