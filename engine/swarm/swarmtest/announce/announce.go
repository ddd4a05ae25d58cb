// Package announce is a BitTorrent tracker (BEP 3 and 23) for IPv4 peers of
// the same computer. Only tests and measuring tools may import it; the real
// one answers from the tracker's registry.
package announce

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/anacrolix/torrent/bencode"
)

// Tracker answers announces of any torrent. It is safe for concurrent use.
type Tracker struct {
	mu    sync.Mutex
	peers map[string][]netip.AddrPort // by info hash; guarded by mu
}

// New returns a tracker that knows nobody.
func New() *Tracker { return &Tracker{peers: map[string][]netip.AddrPort{}} }

// Peers are those that have announced a torrent (40 hex digits) and not left.
func (tr *Tracker) Peers(infoHash string) []netip.AddrPort {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.peers[infoHash])
}

// ServeHTTP implements http.Handler.
func (tr *Tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	port, portErr := strconv.ParseUint(q.Get("port"), 10, 16)
	host, _, hostErr := net.SplitHostPort(r.RemoteAddr)
	ip, ipErr := netip.ParseAddr(host)
	hash := hex.EncodeToString([]byte(q.Get("info_hash")))
	if portErr != nil || hostErr != nil || ipErr != nil || !ip.Unmap().Is4() || len(hash) != 40 {
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
