package seam

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// serveTokens is GET /seam/v1/sessions/{id}/tokens: tokens and acknowledgements
// of the tail straight to the driver. The handler writes and never reads; that
// the driver left is told by the request's context, for net/http reads on
// behind a request without a body.
func (s *Server) serveTokens(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	sess, tomb, e := s.lookup(r)
	if e != nil {
		return e
	}
	if sess != nil && peer != sess.lease.Driver || tomb != nil && peer != tomb.driver {
		return errorf(protocol.CodeForbidden, "only the session's driver gets its tokens")
	}
	if tomb != nil {
		return tomb.gone()
	}
	if !sess.tail {
		return errorf(protocol.CodeUnsupported, "hop %d is not the tail", sess.hop).AtHop(sess.hop)
	}
	if e := sess.attach(&sess.watching); e != nil {
		return e
	}
	defer sess.work.Done()
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", wire.ContentFrames)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close") // its deadlines would hit the next request
	w.Header().Set(wire.HeaderHop, strconv.Itoa(sess.hop))
	w.WriteHeader(http.StatusOK)
	rc.SetWriteDeadline(time.Now().Add(s.o.Silence))
	if err := rc.Flush(); err != nil {
		sess.driverLeft(err)
		return nil
	}
	stop := context.AfterFunc(r.Context(), func() { sess.driverLeft(context.Cause(r.Context())) })
	defer stop()
	p := &sess.tokPen
	p.Use(protocol.NewFrameWriter(&deadlineWriter{w: w, set: rc.SetWriteDeadline, flush: rc.Flush, wait: s.o.Silence}, protocol.SeamLimits()), roomOf(r))
	if err := writeAll(sess.ctx, p, sess.tok, s.o.PingEvery); err != nil {
		sess.driverLeft(err)
		_ = p.Last() // the handler's end takes the connection
		return nil
	}
	_ = p.Last(sess.lastFrame()) // nobody is left to hear of its failure
	return nil
}

func (s *session) driverLeft(err error) {
	s.end(errorf(protocol.CodeCancelled, "the driver left the token stream: %w", err), "")
}
