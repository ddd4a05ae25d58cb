package seam

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// maxOpenBody bounds an open request, in bytes.
const maxOpenBody = 1 << 20

// serveOpen is POST /seam/v1/sessions. Nothing runs and nothing is reserved
// before every check has passed.
func (s *Server) serveOpen(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	req, e := readOpen(w, r)
	if e != nil {
		return e.InPhase(protocol.PhaseOpening)
	}
	quiet := s.signs(w)
	sess, e := s.open(r.Context(), req, peer)
	quiet()
	if e != nil {
		return e.AtHop(req.Hop).InPhase(protocol.PhaseOpening)
	}
	writeJSON(w, http.StatusCreated, protocol.OpenReply{Session: sess.id, Hop: sess.hop, Report: sess.capab, Cells: sess.cells, Kept: sess.st.Kept()})
	return nil
}

func readOpen(w http.ResponseWriter, r *http.Request) (*protocol.OpenRequest, *protocol.Error) {
	b, e := readBody(w, r, maxOpenBody)
	if e != nil {
		return nil, e
	}
	var req protocol.OpenRequest
	if err := json.Unmarshal(b, &req); err != nil {
		return nil, errorf(protocol.CodeInvalidRequest, "request body is not an open request: %w", err)
	}
	if req.Lease == nil {
		return nil, errorf(protocol.CodeInvalidRequest, "request without a lease")
	}
	if req.Hop < 0 || req.Hop >= protocol.MaxHops {
		return nil, errorf(protocol.CodeInvalidRequest, "hop %d", req.Hop)
	}
	return &req, nil
}

// signs sends an interim response (102, RFC 2518 section 10.1) every PingEvery
// while the final one takes its time, so that its client can tell a busy node
// from a frozen one. The returned function ends that; it must be called before
// anything else is written.
func (s *Server) signs(w http.ResponseWriter) (quiet func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(s.o.PingEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.WriteHeader(http.StatusProcessing)
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(stop) })
		<-done
	}
}

// open checks req and reserves the session.
func (s *Server) open(ctx context.Context, req *protocol.OpenRequest, peer protocol.NodeID) (*session, *protocol.Error) {
	if s.o.TrackerKey == nil || len(s.o.TrackerKey()) == 0 {
		return nil, errorf(protocol.CodeUnavailable, "this node has no tracker yet")
	}
	lease, err := req.Lease.Verify(s.o.TrackerKey(), s.o.Now())
	if err != nil {
		return nil, protocol.AsError(err)
	}
	if req.Hop >= len(lease.Hops) || lease.Hops[req.Hop].Node != s.o.Identity.ID() {
		return nil, errorf(protocol.CodeLeaseInvalid, "this node is not hop %d of the lease", req.Hop)
	}
	if peer != lease.Driver {
		return nil, errorf(protocol.CodeLeaseInvalid, "only the lease's driver may open the session")
	}
	stage := s.o.Stage()
	if stage == nil {
		return nil, errorf(protocol.CodeUnavailable, "no shard is ready on this node")
	}
	capab := stage.Capability()
	if e := checkLease(lease, req, capab); e != nil {
		return nil, e
	}
	keys, err := prefix.Parse(req.Prefix)
	if err != nil {
		return nil, protocol.AsError(err)
	}
	if e := s.reserve(lease.Session); e != nil {
		return nil, e
	}
	ctx, cancel := context.WithTimeout(ctx, wire.OpenWait)
	defer cancel()
	out := newOutbox()
	st, err := stage.Open(ctx, StageOpen{
		Session: lease.Session, Use: lease.Hops[req.Hop].Use, Context: lease.Context,
		Sampler: req.Sampler, Prompt: req.Prompt, Prefix: prefixOf(lease, req.Hop, keys),
		DType: lease.DType, In: capab.Crosses(lease.Hops, req.Hop), Out: capab.Crosses(lease.Hops, req.Hop+1),
		Deliver: out.deliver,
	})
	if err != nil {
		s.forget(lease.Session)
		return nil, protocol.AsError(err)
	}
	rec, err := s.openReceipts(lease, req.Lease, req.Hop, capab)
	if err != nil {
		s.forget(lease.Session)
		return nil, protocol.AsError(errors.Join(err, st.Close()))
	}
	sess := newSession(s, lease, req.Hop, capab, st, out, rec)
	s.mu.Lock()
	s.sessions[lease.Session] = sess
	closed := s.closed
	s.work.Add(1) // the handler's own count keeps Wait from passing
	s.mu.Unlock()
	sess.start()
	if closed {
		e := errorf(protocol.CodeShutdown, "the node is stopping")
		sess.end(e, "")
		return nil, e
	}
	s.log.Info("seam session opened", "session", sess.id, "hop", sess.hop, "range", sess.use().String(), "cells", sess.cells)
	return sess, nil
}

// checkLease holds the rules between a lease and a stage.
func checkLease(l *protocol.Lease, req *protocol.OpenRequest, c protocol.Capability) *protocol.Error {
	use, last := l.Hops[req.Hop].Use, req.Hop == len(l.Hops)-1
	switch {
	case l.EngineBuild.Protocol != protocol.Version:
		return errorf(protocol.CodeProtocolVersion, "the lease is for protocol %d, this build speaks %d", l.EngineBuild.Protocol, protocol.Version)
	case l.EngineBuild.Llama != c.Build.Llama:
		return errorf(protocol.CodeBuildMismatch, "the lease is for llama.cpp %.40q, this node runs %q", l.EngineBuild.Llama, c.Build.Llama)
	case l.Model != c.Model:
		return errorf(protocol.CodeModelUnknown, "model %s is not loaded here", l.Model.Short())
	case l.Layers != c.Layers:
		return errorf(protocol.CodeLeaseInvalid, "the lease counts %d layers, the model has %d", l.Layers, c.Layers)
	case use.First != c.Loaded.First || use.Last != c.Loaded.Last && !slices.Contains(c.Exits, use.Last):
		return errorf(protocol.CodeRangeInvalid, "layers %s cannot run here, %s are loaded", use, c.Loaded)
	case req.Hop == 0 && !c.Head:
		return errorf(protocol.CodeRangeInvalid, "this shard takes no token ids")
	case last && !c.Tail:
		return errorf(protocol.CodeRangeInvalid, "this shard does not sample")
	case len(l.Hops) > 1 && c.WholeOnly != "":
		return errorf(protocol.CodeModelUncut, "this model is served whole only: %s", c.WholeOnly)
	case len(l.Hops) > 1 && !slices.Contains(c.DTypes, l.DType.String()):
		return errorf(protocol.CodeUnsupported, "hidden states of %s are not served here", l.DType)
	case c.MaxContext > 0 && l.Context > c.MaxContext:
		return errorf(protocol.CodeContextExceeded, "context of %d, this shard serves %d", l.Context, c.MaxContext)
	case last && req.Sampler == nil:
		return errorf(protocol.CodeInvalidRequest, "the tail needs sampler settings")
	case !last && (req.Sampler != nil || len(req.Prompt) > 0):
		return errorf(protocol.CodeInvalidRequest, "sampler settings and prompt are for the tail only")
	}
	return nil
}

// reserve claims a session id, so that an id is opened once however many
// requests come at a time.
func (s *Server) reserve(id protocol.SessionID) *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, live := s.sessions[id]
	_, ended := s.ended[id]
	switch {
	case s.closed:
		return errorf(protocol.CodeShutdown, "the node is stopping")
	case s.draining:
		return errorf(protocol.CodeUnavailable, "the node takes no new sessions now")
	case live || ended:
		return errorf(protocol.CodeSessionExists, "session %s was opened before", id)
	}
	s.sessions[id] = nil
	return nil
}

func (s *Server) forget(id protocol.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}
