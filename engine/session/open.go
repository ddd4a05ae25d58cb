package session

import (
	"context"
	"slices"

	"neuron/engine/protocol"
)

// open reserves the session on all hops at once and opens both streams. When
// anything fails, close releases what may exist.
func (d *driver) open(signed *protocol.SignedLease) *protocol.Error {
	d.g.setPhase(protocol.PhaseOpening)
	ctx, cancel := context.WithTimeout(d.g.ctx, d.o.OpenTimeout)
	defer cancel()
	replies := make([]*protocol.OpenReply, len(d.hops))
	errs := make([]error, len(d.hops))
	// The first failure ends the others; failed has room for all.
	octx, abort := context.WithCancel(ctx)
	defer abort()
	failed := make(chan int, len(d.hops))
	tail := len(d.hops) - 1
	d.perHop(func(int) bool { return true }, func(i int) {
		r := &protocol.OpenRequest{Lease: signed, Hop: i, Prefix: d.keys}
		if i == tail {
			s := d.g.req.Sampler
			r.Sampler = &s
			if s.NeedsPrompt() {
				r.Prompt = d.g.req.Prompt
			}
		}
		replies[i], errs[i] = d.o.Hops.Open(octx, d.hops[i], r)
		if errs[i] != nil {
			failed <- i
			abort()
		}
	})
	for i, err := range errs {
		d.release[i] = err == nil || unsure(err)
	}
	select {
	case i := <-failed:
		e := d.pick(ctx, errs[i], "opening")
		if e.Code != protocol.CodeCancelled && e.Code != protocol.CodeShutdown {
			e = e.AtHop(i)
		}
		if broke(e) {
			e = d.blame(e)
		}
		return e
	default:
	}
	for i, r := range replies {
		if e := d.checkReply(i, r, replies[0]); e != nil {
			return e.AtHop(i)
		}
	}
	d.head = replies[0].Report
	d.rows = d.chunkRows(replies)
	d.openGuesses(replies)
	d.openPrefix(replies)
	if name := d.head.Name; name != "" && len(name) <= 256 {
		d.g.update(func(t *protocol.Telemetry) { t.Name = name })
	}
	return d.openStreams(ctx)
}

// broke reports whether e says that a hop cannot be reached, as opposed to a
// hop that answered with a reason.
func broke(e *protocol.Error) bool {
	switch e.Code {
	case protocol.CodeHopLost, protocol.CodeTimeout, protocol.CodeUnavailable, protocol.CodeStageFrozen:
		return true
	}
	return false
}

// unsure reports whether a failed open may have left a session behind.
func unsure(err error) bool {
	switch protocol.AsError(err).Code {
	case protocol.CodeTimeout, protocol.CodeCancelled, protocol.CodeHopLost, protocol.CodeUnavailable, protocol.CodeInternal, protocol.CodeStageFrozen:
		return true
	}
	return false
}

// checkReply compares what hop i says of itself with the lease and with hop 0.
func (d *driver) checkReply(i int, r, first *protocol.OpenReply) *protocol.Error {
	bad := func(format string, args ...any) *protocol.Error {
		return protocol.Errorf(protocol.CodeLeaseInvalid, format, args...)
	}
	if r == nil || r.Session != d.g.id || r.Hop != i {
		return bad("the hop answered for another session or place")
	}
	c, use, many := &r.Report, d.hops[i].Use, len(d.hops) > 1
	switch {
	case c.Build != d.lease.EngineBuild:
		return protocol.Errorf(protocol.CodeBuildMismatch, "the hop runs protocol %d with llama %.40q, the lease wants %d with %.40q",
			c.Build.Protocol, c.Build.Llama, d.lease.EngineBuild.Protocol, d.lease.EngineBuild.Llama)
	case c.Model != d.lease.Model || c.Layers != d.lease.Layers:
		return bad("the hop has loaded another model")
	case c.Loaded.First != use.First || !c.Loaded.Contains(use):
		return protocol.Errorf(protocol.CodeRangeInvalid, "the hop holds layers %s, the lease uses %s", c.Loaded, use)
	case use.Last != c.Loaded.Last && !slices.Contains(c.Exits, use.Last):
		return protocol.Errorf(protocol.CodeRangeInvalid, "the hop cannot stop at layer %d", use.Last)
	case i == 0 && !c.Head:
		return bad("hop 0 takes no token ids")
	case i == len(d.hops)-1 && !c.Tail:
		return bad("the last hop does not sample")
	case many && c.WholeOnly != "":
		return protocol.Errorf(protocol.CodeModelUncut, "this model is not cut: %.200s", c.WholeOnly)
	case many && c.Width <= 0:
		return bad("hidden rows of %d elements", c.Width)
	case many && protocol.CheckSeamNeeds(c.Seams, c.Layers) != nil:
		return protocol.CheckSeamNeeds(c.Seams, c.Layers)
	case many && first.Report.SameSeams(c) != nil:
		return first.Report.SameSeams(c)
	case many && !slices.Contains(c.DTypes, d.lease.DType.String()):
		return protocol.Errorf(protocol.CodeUnsupported, "the hop does not take %s rows", d.lease.DType)
	case r.Cells < d.lease.Context:
		return protocol.Errorf(protocol.CodeKVBudget, "the hop reserved %d cells, the lease wants %d", r.Cells, d.lease.Context)
	case c.ChunkRows < 1 || c.ChunkRows > protocol.MaxChunkRows:
		return bad("prefill chunks of %d rows", c.ChunkRows)
	}
	return nil
}

// chunkRows is the most rows of a prefill chunk on this route: what every hop
// takes, and on several hops what a frame of its widest seam may hold.
func (d *driver) chunkRows(replies []*protocol.OpenReply) int {
	most := protocol.MaxChunkRows
	for i, r := range replies {
		c := &r.Report
		most = min(most, c.ChunkRows)
		if i > 0 {
			most = min(most, protocol.SeamRows(most, c.Width, d.lease.DType, c.Crosses(d.hops, i)))
		}
	}
	return most
}

// openStreams opens the tokens on the tail, then the chain from hop 0, so that
// no token can be lost. The streams outlive the session's context, since its
// end still has frames to send.
func (d *driver) openStreams(ctx context.Context) *protocol.Error {
	sctx, drop := context.WithCancel(context.WithoutCancel(d.g.ctx))
	d.dropAll = drop
	stop := context.AfterFunc(ctx, drop)
	tail := len(d.hops) - 1
	fail := func(err error, hop int, what string) *protocol.Error {
		e := d.pick(ctx, err, what)
		if e.Code == protocol.CodeCancelled || e.Code == protocol.CodeShutdown {
			return e
		}
		e = e.AtHop(hop)
		if broke(e) {
			e = d.blame(e)
		}
		return e
	}
	// Assigned only on success: a typed nil in the field would look like a
	// stream to close.
	tokens, err := d.o.Hops.Tokens(sctx, d.hops[tail], d.g.id)
	if err != nil {
		return fail(err, tail, "opening the token stream")
	}
	d.tokens = tokens
	stream, err := d.o.Hops.Stream(sctx, d.hops[0], d.g.id)
	if err != nil {
		return fail(err, 0, "opening the row stream")
	}
	d.stream = stream
	if !stop() {
		return fail(ctx.Err(), 0, "opening the row stream")
	}
	return nil
}
