package server

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/announce"
)

// swarmEvery bounds how often the nodes' addresses are put together for the
// announce.
const swarmEvery = time.Second

// swarmPeers are the nodes that share each model, as the announce tells them.
type swarmPeers map[protocol.ModelID][]announce.Peer

// refreshSwarmLocked follows the registry.
func (c *core) refreshSwarmLocked(now time.Time) {
	v := c.reg.Version()
	if v == c.swarmVersion || now.Sub(c.swarmAt) < swarmEvery {
		return
	}
	c.swarmVersion, c.swarmAt = v, now
	next := make(swarmPeers)
	for id, nodes := range c.reg.Swarm() {
		for _, n := range nodes {
			next[id] = append(next[id], announce.Peer{Addr: n.Addr, Seed: n.Whole})
		}
	}
	c.swarm.Store(&next)
}

// swarmCounts are the BitTorrent peers of a model: the announced ones, and the
// nodes that have not announced themselves.
func (c *core) swarmCounts(p *published) (seeders, leechers int) {
	n := c.announced.Scrape(p.hash)
	for _, k := range (*c.swarm.Load())[p.Model] {
		switch {
		case c.announced.Has(p.hash, k.Addr):
		case k.Seed:
			n.Seeds++
		default:
			n.Leechers++
		}
	}
	return n.Seeds, n.Leechers
}

// announceHandler answers BitTorrent clients. They want an answer of status
// 200, errors too.
type announceHandler struct{ *core }

func (h announceHandler) mount(mux *http.ServeMux) {
	for kind, answer := range map[string]func(*http.Request, netip.Addr) ([]byte, error){"announce": h.announce, "scrape": h.scrape} {
		mux.HandleFunc("GET /"+kind, h.serve(kind, answer))
		mux.HandleFunc("GET /"+kind+"/{token}", h.serve(kind, answer))
	}
}

func (h announceHandler) serve(kind string, answer func(r *http.Request, from netip.Addr) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/plain; charset=iso-8859-1")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // none in tests without a connection
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		var raw []byte
		if err == nil {
			if err = h.announced.Admit(from.Addr()); err == nil {
				raw, err = answer(r, from.Addr())
			}
		}
		result := "ok"
		if err != nil {
			coded := protocol.AsError(err)
			if result = string(coded.Code); coded.Code == protocol.CodeInternal {
				h.o.Logger.Error("answer an announce", "err", err)
			}
			raw = announce.EncodeFailure(err)
		}
		h.metrics.announced(kind, result)
		_, _ = w.Write(raw) // the client may be gone
	}
}

// token is the last element of the announce URL; ordinary clients overwrite
// the parameter "key" of BEP 7, so the token has a name of its own there.
func tokenOf(r *http.Request, parameter string) string {
	if t := r.PathValue("token"); t != "" {
		return t
	}
	return parameter
}

func (h announceHandler) announce(r *http.Request, from netip.Addr) ([]byte, error) {
	q, err := announce.ParseAnnounce(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	p, err := h.torrent(q.InfoHash, tokenOf(r, q.Token))
	if err != nil {
		return nil, err
	}
	reply, err := h.announced.Announce(from, q, (*h.swarm.Load())[p.Model])
	if err != nil {
		return nil, err
	}
	return reply.Encode(q), nil
}

func (h announceHandler) scrape(r *http.Request, _ netip.Addr) ([]byte, error) {
	hashes, token, err := announce.ParseScrape(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	files := make(map[announce.Hash]announce.Counts)
	for _, hash := range hashes {
		p, err := h.torrent(hash, tokenOf(r, token))
		switch {
		case err == nil:
			counts := h.announced.Scrape(hash)
			counts.Seeds, counts.Leechers = h.swarmCounts(p)
			files[hash] = counts
		case errors.Is(err, &protocol.Error{Code: protocol.CodeInternal}):
			return nil, err
		}
		// BEP 48: what the tracker does not know, or not for this client, is
		// left out.
	}
	return announce.EncodeScrape(files), nil
}

var errNoTorrent = protocol.Errorf(protocol.CodeModelUnknown, "this tracker does not have the torrent in its catalog")

func (h announceHandler) torrent(hash announce.Hash, token string) (*published, error) {
	p := h.catalog.Load().byHash[hash]
	if p == nil {
		return nil, errNoTorrent
	}
	return p, h.allowed(p, token)
}
