package seam

import (
	"net/http"

	"neuron/engine/protocol"
)

// Taps see the row frames of public sessions where they pass this hop; frames
// of private sessions are never shown. The methods are called in the order of
// the frames and must not block, change or keep f.
type Taps interface {
	// Received is called before a frame goes to the stage, Sent before one goes
	// to the next hop.
	Received(s protocol.SessionID, f *protocol.Frame)
	Sent(s protocol.SessionID, f *protocol.Frame)
}

// AuditHandler takes what a keeper sends to an auditor. audit and side are of
// the request's path and not checked.
type AuditHandler func(w http.ResponseWriter, r *http.Request, peer protocol.NodeID, audit, side string) *protocol.Error

func (s *Server) serveAudit(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	if s.o.Audits == nil {
		return errorf(protocol.CodeUnsupported, "this node re-executes nothing")
	}
	return s.o.Audits(w, r, peer, r.PathValue("audit"), r.PathValue("side"))
}

// tapped shows a row frame of a public session to the taps.
func (s *session) tapped(f *protocol.Frame, show func(Taps, protocol.SessionID, *protocol.Frame)) {
	if t := s.srv.o.Taps; t != nil && s.lease.Policy == protocol.PolicyPublic && f.Kind.Rows() {
		show(t, s.id, f)
	}
}
