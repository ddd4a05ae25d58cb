package seam

import (
	"bytes"
	"context"
	"net/http"
	"time"

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

const pathAudits = pathPrefix + "audits"

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

// auditWait bounds the sending of kept frames: a few tens of megabytes over a
// home connection.
const auditWait = 60 * time.Second

// SendAudit sends kept frames to an auditor and returns when it has taken them.
// Frames have any slot and are not changed. Errors are coded.
func (c *Client) SendAudit(ctx context.Context, to protocol.Peer, audit protocol.AuditID, side protocol.AuditSide, frames []*protocol.Frame) error {
	var body []byte
	for _, f := range frames {
		var err error
		if body, err = protocol.AppendFrame(body, f, protocol.SeamLimits()); err != nil {
			return err
		}
	}
	hop := protocol.Hop{Node: to.Node, Addr: to.Addr}
	t, err := c.transport(to.Node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	url := "https://" + to.Addr + pathAudits + "/" + string(audit) + "/" + string(side)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return errorf(protocol.CodeInvalidRequest, "address %.100q: %w", to.Addr, err)
	}
	req.Header.Set("Content-Type", contentFrames)
	resp, err := t.RoundTrip(req)
	if err != nil {
		return c.lost(ctx, hop, protocol.CodeUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return readError(resp)
	}
	return nil
}
