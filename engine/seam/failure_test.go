package seam_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
)

// started runs f on a route of 3 hops over both carriers, after a prefill and
// one decode step.
func started(t *testing.T, f func(t *testing.T, n *network, r *route)) {
	for _, upgrade := range []bool{false, true} {
		t.Run(fmt.Sprintf("upgrade=%v", upgrade), func(t *testing.T) {
			n := newNetwork(t, netOptions{hops: 3, upgrade: upgrade})
			r := n.start()
			r.drainAcks()
			r.prefill(0, 0, 100)
			r.token(100)
			r.decode(0, 100)
			r.token(101)
			f(t, n, r)
		})
	}
}

func TestDriverCancelsItsContext(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		release := n.nodes[1].stage.Hold() // while a hop computes
		defer release()
		r.decode(0, 101)
		r.cancel()
		n.freed()
		wantCode(t, "stream", r.streamEnd(), protocol.CodeCancelled)
		for i, nd := range n.nodes {
			if f := nd.failures(); len(f) != 0 {
				t.Errorf("hop %d blames %+v", i, f)
			}
		}
	})
}

func TestDriverClosesWhileWorkRuns(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		release := n.nodes[2].stage.Hold()
		defer release()
		r.decode(0, 101)
		r.stream.Close()
		n.freed()
		if err := r.tokensEnd(); err != nil {
			t.Errorf("tokens: %v", err)
		}
	})
}

func TestDriverLeavesTheTokenStream(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		r.tokens.Close()
		n.freed()
		wantCode(t, "stream", r.streamEnd(), protocol.CodeCancelled)
	})
}

func TestReleaseWhileStreaming(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		if err := n.client.Release(t.Context(), r.lease.Hops[1], r.lease.Session); err != nil {
			t.Fatal(err)
		}
		if n.nodes[1].stage.Sessions() != 0 {
			t.Fatal("release returned before the KV was free")
		}
		n.freed()
		// The head may hear of the end of its next hop before the driver's.
		if err := r.streamEnd(); err != nil && !errors.Is(err, &protocol.Error{Code: protocol.CodeCancelled}) {
			t.Errorf("stream: %v", err)
		}
	})
}

func TestStageFailsInTheMiddle(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		n.nodes[1].stage.Fail(r.lease.Session, protocol.Errorf(protocol.CodeStageLost, "exit status 6"))
		n.freed()
		wantHop(t, "stream", wantCode(t, "stream", r.streamEnd(), protocol.CodeStageLost), 1, protocol.PhaseDecode)
		wantHop(t, "tokens", wantCode(t, "tokens", r.tokensEnd(), protocol.CodeStageLost), 1, protocol.PhaseDecode)
		for i, h := range r.lease.Hops {
			st, err := n.client.State(t.Context(), h, r.lease.Session)
			if err != nil || st.Phase != protocol.PhaseFailed {
				t.Fatalf("state of hop %d: %+v, %v", i, st, err)
			}
			wantHop(t, "state", wantCode(t, "state", st.Error, protocol.CodeStageLost), 1, protocol.PhaseDecode)
		}
		// A later stream learns the same, and the id is spent.
		_, err := n.client.Stream(t.Context(), r.lease.Hops[0], r.lease.Session)
		wantCode(t, "second stream", err, protocol.CodeStageLost)
		_, err = n.client.Open(t.Context(), r.lease.Hops[0], request(r.lease, n.sign(r.lease), 0))
		wantCode(t, "second open", err, protocol.CodeSessionExists)
	})
}

func TestStageProducesNaN(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		n.nodes[1].stage.Poison()
		r.decode(0, 101)
		n.freed()
		wantHop(t, "stream", wantCode(t, "stream", r.streamEnd(), protocol.CodeFrameNonFinite), 1, protocol.PhaseDecode)
		wantHop(t, "tokens", wantCode(t, "tokens", r.tokensEnd(), protocol.CodeFrameNonFinite), 1, protocol.PhaseDecode)
	})
}

func TestWrongFramesFromTheDriver(t *testing.T) {
	rows := func(width int, v float32) *protocol.Frame {
		b := make([]float32, width)
		b[width-1] = v
		p := protocol.F32Bytes(b)
		return &protocol.Frame{Header: protocol.Header{
			Kind: protocol.KindDecode, Parts: protocol.PartHidden, DType: protocol.DTypeF32, Pos: 101, Rows: 1, Width: uint32(width),
		}, Payload: p}
	}
	id := func(change func(*protocol.Frame)) *protocol.Frame {
		f := protocol.IDFrame(protocol.KindDecode, 101, []int32{7})
		change(f)
		return f
	}
	long := protocol.IDFrame(protocol.KindPrefill, 101, ids(seamtest.ChunkRows+1))
	for name, c := range map[string]struct {
		f    *protocol.Frame
		code protocol.Code
	}{
		"hidden states to the head": {rows(seamtest.Width, 0), protocol.CodeFrameInvalid},
		"gap":                       {id(func(f *protocol.Frame) { f.Pos++ }), protocol.CodeFrameOrder},
		"repeat":                    {id(func(f *protocol.Frame) { f.Pos-- }), protocol.CodeFrameOrder},
		"epoch ahead":               {id(func(f *protocol.Frame) { f.Epoch = 1 }), protocol.CodeFrameOrder},
		"slot":                      {id(func(f *protocol.Frame) { f.Slot = 1 }), protocol.CodeFrameInvalid},
		"negative id":               {protocol.IDFrame(protocol.KindDecode, 101, []int32{-1}), protocol.CodeFrameInvalid},
		"chunk too long":            {long, protocol.CodeFrameInvalid},
		"truncate ahead":            {protocol.ControlFrame(protocol.KindTruncate, 0, 1, 102), protocol.CodeFrameOrder},
		"truncate in old epoch":     {protocol.ControlFrame(protocol.KindTruncate, 0, 0, 10), protocol.CodeFrameOrder},
		"truncate skips an epoch":   {protocol.ControlFrame(protocol.KindTruncate, 0, 2, 10), protocol.CodeFrameOrder},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, netOptions{hops: 2})
			r := n.start()
			r.drainAcks()
			r.prefill(0, 0, 100)
			r.token(100)
			r.decode(0, 100)
			r.token(101)
			r.send(c.f)
			n.freed()
			e := wantCode(t, "stream", r.streamEnd(), c.code)
			if e.Hop == nil || *e.Hop != 0 || e.Phase == "" {
				t.Errorf("error %v in phase %q names no hop or phase", e, e.Phase)
			}
			wantCode(t, "tokens", r.tokensEnd(), c.code)
			for i, nd := range n.nodes {
				if nd.stage.Opened() != 1 {
					t.Errorf("hop %d opened %d sessions", i, nd.stage.Opened())
				}
			}
		})
	}
}

func TestContextIsFull(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	r := n.start()
	r.drainAcks()
	r.prefill(0, 0, 1024)
	r.token(1024)
	r.decode(0, 1024)
	wantHop(t, "stream", wantCode(t, "stream", r.streamEnd(), protocol.CodeContextExceeded), 0, protocol.PhasePrefill)
	n.freed()
}

func TestForkIsUnsupported(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	r := n.start()
	err := r.stream.Send(t.Context(), protocol.ControlFrame(protocol.KindFork, 0, 1, 0))
	wantCode(t, "fork", err, protocol.CodeUnsupported)
	err = r.stream.Send(t.Context(), protocol.ControlFrame(protocol.KindOpen, 0, 0, 0))
	wantCode(t, "pipe-only kind", err, protocol.CodeUnsupported)
}

func TestEndSessionTellsTheReason(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		reason := protocol.Errorf(protocol.CodeHostBusy, "other programs need the processor")
		if !n.nodes[1].server.EndSession(r.lease.Session, reason) {
			t.Fatal("session not found")
		}
		n.freed()
		wantHop(t, "stream", wantCode(t, "stream", r.streamEnd(), protocol.CodeHostBusy), 1, protocol.PhaseDecode)
		wantHop(t, "tokens", wantCode(t, "tokens", r.tokensEnd(), protocol.CodeHostBusy), 1, protocol.PhaseDecode)
		if n.nodes[1].server.EndSession(protocol.NewSessionID(), nil) {
			t.Error("an unknown session was ended")
		}
	})
}

func TestServerClosesWhileStreaming(t *testing.T) {
	started(t, func(t *testing.T, n *network, r *route) {
		release := n.nodes[1].stage.Hold()
		defer release()
		r.decode(0, 101)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := n.nodes[1].server.Close(ctx); err != nil {
			t.Fatal(err)
		}
		n.freed()
		wantHop(t, "stream", wantCode(t, "stream", r.streamEnd(), protocol.CodeShutdown), 1, protocol.PhaseDecode)
		wantHop(t, "tokens", wantCode(t, "tokens", r.tokensEnd(), protocol.CodeShutdown), 1, protocol.PhaseDecode)
	})
}

func TestSessionWithoutStreamsIsFreed(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 2, streamWait: 300 * time.Millisecond})
	l := n.lease()
	n.open(l)
	n.freed()
	_, err := n.client.Stream(t.Context(), l.Hops[0], l.Session)
	wantHop(t, "stream", wantCode(t, "stream", err, protocol.CodeTimeout), 0, protocol.PhaseOpening)
}

func TestLeaseEndsDuringTheSession(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	l := n.lease()
	l.Expires = time.Now().Add(500 * time.Millisecond)
	n.open(l)
	st, err := n.client.Stream(t.Context(), l.Hops[0], l.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	wantCode(t, "stream", ended(t, st.Frames(), st.Err), protocol.CodeLeaseExpired)
	n.freed()
}

func TestNextHopCannotBeReached(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 3})
	l := n.lease()
	l.Hops[2].Addr = "127.0.0.1:1"
	s := n.sign(l)
	for i, h := range l.Hops {
		h.Addr = n.nodes[i].addr
		if _, err := n.client.Open(t.Context(), h, request(l, s, i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := n.client.Stream(t.Context(), l.Hops[0], l.Session)
	wantHop(t, "stream", wantCode(t, "stream", err, protocol.CodeHopLost), 2, protocol.PhaseOpening)
	n.freed(n.nodes[:2]...)
	until(t, freedIn, "hop 1 blames hop 2", func() bool { return len(n.nodes[1].failures()) == 1 })
	if f := n.nodes[1].failures()[0]; f.node != n.nodes[2].id.ID() {
		t.Errorf("blame %+v", f)
	}
	if f := n.nodes[0].failures(); len(f) != 0 {
		t.Errorf("hop 0 blames %+v", f)
	}
	if err := n.client.Release(t.Context(), protocol.Hop{Node: l.Hops[2].Node, Addr: n.nodes[2].addr}, l.Session); err != nil {
		t.Fatal(err)
	}
	n.freed()
}
