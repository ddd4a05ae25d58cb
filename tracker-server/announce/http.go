package announce

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"neuron/engine/protocol"
)

// HandlerOptions of Mount; all are required.
type HandlerOptions struct {
	Table *Table
	// Find returns the peers of a torrent that the caller knows otherwise. The
	// token is the client's, "" for none; it decides about private torrents.
	// Errors are coded.
	Find func(h Hash, token string) (known []Peer, err error)
	// Count is told of each request: announce or scrape, and "ok" or a code.
	Count  func(kind, result string)
	Logger *slog.Logger
}

// handler answers BitTorrent clients. They want an answer of status 200, errors
// too.
type handler struct{ o HandlerOptions }

// Mount adds /announce and /scrape to mux, each with and without a token as the
// last element of its path.
func Mount(mux *http.ServeMux, o HandlerOptions) {
	h := handler{o}
	for kind, answer := range map[string]func(*http.Request, netip.Addr) ([]byte, error){"announce": h.announce, "scrape": h.scrape} {
		mux.HandleFunc("GET /"+kind, h.serve(kind, answer))
		mux.HandleFunc("GET /"+kind+"/{token}", h.serve(kind, answer))
	}
}

func (h handler) serve(kind string, answer func(r *http.Request, from netip.Addr) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/plain; charset=iso-8859-1")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // none in tests without a connection
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		var raw []byte
		if err == nil {
			if err = h.o.Table.Admit(from.Addr()); err == nil {
				raw, err = answer(r, from.Addr())
			}
		}
		result := "ok"
		if err != nil {
			coded := protocol.AsError(err)
			if result = string(coded.Code); coded.Code == protocol.CodeInternal {
				h.o.Logger.Error("answer an announce", "err", err)
			}
			raw = EncodeFailure(err)
		}
		h.o.Count(kind, result)
		_, _ = w.Write(raw) // the client may be gone
	}
}

// tokenOf is the last element of the announce URL; ordinary clients overwrite
// the parameter "key" of BEP 7, so the token has a name of its own there.
func tokenOf(r *http.Request, parameter string) string {
	if t := r.PathValue("token"); t != "" {
		return t
	}
	return parameter
}

func (h handler) announce(r *http.Request, from netip.Addr) ([]byte, error) {
	q, err := ParseAnnounce(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	known, err := h.o.Find(q.InfoHash, tokenOf(r, q.Token))
	if err != nil {
		return nil, err
	}
	reply, err := h.o.Table.Announce(from, q, known)
	if err != nil {
		return nil, err
	}
	return reply.Encode(q), nil
}

func (h handler) scrape(r *http.Request, _ netip.Addr) ([]byte, error) {
	hashes, token, err := ParseScrape(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	files := make(map[Hash]Counts)
	for _, hash := range hashes {
		known, err := h.o.Find(hash, tokenOf(r, token))
		switch {
		case err == nil:
			files[hash] = h.o.Table.ScrapeWith(hash, known)
		case errors.Is(err, &protocol.Error{Code: protocol.CodeInternal}):
			return nil, err
		}
		// BEP 48: what the tracker does not know, or not for this client, is
		// left out.
	}
	return EncodeScrape(files), nil
}
