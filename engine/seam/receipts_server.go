package seam

import (
	"encoding/json"
	"net/http"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// Bounds of requests about receipts, in bytes. One receipt is 564 bytes, in
// base64 752; Complete takes as many as one answer of Pending holds.
const (
	maxSignBody     = 2 << 10
	maxCompleteBody = 1 << 20
	maxMarkBody     = 256
)

// handleReceipts serves what the previous hop and the driver ask about
// receipts. It goes on after a session's end for as long as the book keeps it.
func (s *Server) handleReceipts() {
	s.mux.HandleFunc("POST "+wire.PathSessions+"/{id}/receipts/sign", s.handle(s.serveSign))
	s.mux.HandleFunc("GET "+wire.PathSessions+"/{id}/receipts/mark", s.handle(s.serveMark))
	s.mux.HandleFunc("GET "+wire.PathSessions+"/{id}/receipts", s.handle(s.servePending))
	s.mux.HandleFunc("POST "+wire.PathSessions+"/{id}/receipts", s.handle(s.serveComplete))
	s.mux.HandleFunc("POST "+wire.PathSessions+"/{id}/receipts/end", s.handle(s.serveEnd))
}

// receiptsOf finds a session's receipts for the previous hop, or for the driver
// on the tail. sess is nil when the session has ended.
func (s *Server) receiptsOf(r *http.Request, peer protocol.NodeID, byDriver bool) (rec HopReceipts, sess *session, _ *protocol.Error) {
	sess, tomb, e := s.lookup(r)
	if e != nil {
		return nil, nil, e
	}
	var who tombstone
	if sess != nil {
		who = tombstone{driver: sess.lease.Driver, prev: sess.prev, hop: sess.hop, tail: sess.tail}
	} else {
		who = *tomb
	}
	switch {
	case byDriver && peer != who.driver:
		return nil, nil, errorf(protocol.CodeForbidden, "only the session's driver gets the tail's receipts")
	case byDriver && !who.tail:
		return nil, nil, errorf(protocol.CodeUnsupported, "hop %d is not the tail", who.hop).AtHop(who.hop)
	case !byDriver && (peer != who.prev || who.hop == 0):
		return nil, nil, errorf(protocol.CodeForbidden, "only the previous hop's receipts are signed here")
	}
	if sess != nil {
		return sess.rec, sess, nil
	}
	if s.o.Receipts == nil {
		return nil, nil, errNoReceipts
	}
	rec, err := s.o.Receipts.Find(protocol.SessionID(r.PathValue("id")), who.hop)
	if err != nil {
		return nil, nil, protocol.AsError(err)
	}
	return rec, nil, nil
}

// serveSign is POST .../receipts/sign: one receipt of the previous hop comes
// with one signature and goes back with both.
func (s *Server) serveSign(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	rec, _, e := s.receiptsOf(r, peer, false)
	if e != nil {
		return e
	}
	b, e := readBody(w, r, maxSignBody)
	if e != nil {
		return e
	}
	list, e := parseReceipts(b, 1)
	if e != nil {
		return e
	}
	full, err := rec.Countersign(list[0])
	if err != nil {
		return protocol.AsError(err)
	}
	writeJSON(w, http.StatusOK, protocol.Receipts{Receipts: [][]byte{full}})
	return nil
}

// serveMark is GET .../receipts/mark.
func (s *Server) serveMark(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	rec, _, e := s.receiptsOf(r, peer, false)
	if e != nil {
		return e
	}
	m, err := rec.Mark()
	if err != nil {
		return protocol.AsError(err)
	}
	writeJSON(w, http.StatusOK, m)
	return nil
}

// servePending is GET .../receipts.
func (s *Server) servePending(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	rec, _, e := s.receiptsOf(r, peer, true)
	if e != nil {
		return e
	}
	list := rec.Pending()
	writeJSON(w, http.StatusOK, protocol.Receipts{Receipts: append([][]byte{}, list[:min(len(list), wire.MaxPending)]...)})
	return nil
}

// serveComplete is POST .../receipts. One that does not wait here any more was
// completed before: the driver may repeat itself.
func (s *Server) serveComplete(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	rec, _, e := s.receiptsOf(r, peer, true)
	if e != nil {
		return e
	}
	b, e := readBody(w, r, maxCompleteBody)
	if e != nil {
		return e
	}
	list, e := parseReceipts(b, wire.MaxPending)
	if e != nil {
		return e
	}
	for _, full := range list {
		if err := rec.Complete(full); err != nil && !isCode(err, protocol.CodeNotFound) {
			return protocol.AsError(err)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// serveEnd is POST .../receipts/end: the session is over, and this is how far
// the driver has come. The answer comes when the last receipt can be fetched.
func (s *Server) serveEnd(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	rec, sess, e := s.receiptsOf(r, peer, true)
	if e != nil {
		return e
	}
	b, e := readBody(w, r, maxMarkBody)
	if e != nil {
		return e
	}
	m, e := parseMark(b)
	if e != nil {
		return e
	}
	if sess != nil {
		sess.end(nil, "")
		select {
		case <-sess.over:
		case <-r.Context().Done():
			return errorf(protocol.CodeTimeout, "the session has not ended yet").AtHop(sess.hop)
		}
	}
	rec.CloseTail(m)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// parseReceipts decodes a list of one to most receipts. What is in them is
// checked by those who sign.
func parseReceipts(b []byte, most int) ([][]byte, *protocol.Error) {
	var list protocol.Receipts
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, errorf(protocol.CodeInvalidRequest, "not a list of receipts: %w", err)
	}
	if n := len(list.Receipts); n < 1 || n > most {
		return nil, errorf(protocol.CodeInvalidRequest, "%d receipts, want 1 to %d", n, most)
	}
	for _, raw := range list.Receipts {
		if len(raw) != protocol.SignedReceiptSize {
			return nil, errorf(protocol.CodeReceiptInvalid, "signed receipt of %d bytes, want %d", len(raw), protocol.SignedReceiptSize)
		}
	}
	return list.Receipts, nil
}

func parseMark(b []byte) (m protocol.ReceiptMark, _ *protocol.Error) {
	if err := json.Unmarshal(b, &m); err != nil {
		return m, errorf(protocol.CodeInvalidRequest, "not a mark: %w", err)
	}
	return m, nil
}
