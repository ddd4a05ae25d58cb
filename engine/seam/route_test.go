package seam_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
)

// carriers runs f over both carriers and route lengths.
func carriers(t *testing.T, f func(t *testing.T, n *network)) {
	for _, upgrade := range []bool{false, true} {
		for _, hops := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("upgrade=%v/hops=%d", upgrade, hops), func(t *testing.T) {
				f(t, newNetwork(t, netOptions{hops: hops, upgrade: upgrade}))
			})
		}
	}
}

// The driver hears of steps that ask for no token with what it gets next, and in
// order; the previous hop hears of each.
func TestTailTellsOfQuietSteps(t *testing.T) {
	carriers(t, func(t *testing.T, n *network) {
		r := n.start()
		r.prefill(0, 0, 10)
		r.token(10)
		const quiet = 20 // more than wait for something else
		for i := range uint32(quiet) {
			r.send(protocol.IDFrame(protocol.KindDecode, 10+i, []int32{7}))
			if i > 2 {
				continue
			}
			for f := range r.stream.Frames() {
				if f.Kind != protocol.KindAck {
					t.Fatalf("a %s frame", f.Kind)
				}
				if f.Pos == 10+i {
					break
				}
			}
		}
		r.drainAcks()
		r.decode(0, 10+quiet)
		for i := range uint32(quiet + 1) {
			if f := <-r.tokens.Frames(); f.Kind != protocol.KindAck || f.Pos != 10+i {
				t.Fatalf("a %s frame at %d on the token stream, want the acknowledgement at %d", f.Kind, f.Pos, 10+i)
			}
		}
		if f := <-r.tokens.Frames(); f.Kind != protocol.KindToken {
			t.Fatalf("a %s frame, want a token", f.Kind)
		}
	})
}

func TestGenerateAndCount(t *testing.T) {
	carriers(t, func(t *testing.T, n *network) {
		r := n.start()
		r.drainAcks()
		const prompt, steps = 64*5 + 10, 12
		r.prefill(0, 0, prompt)
		// The last prompt id is ids(prompt)[prompt-1]; each hop adds 1.
		first := fmt.Sprint((prompt-1)%50 + 1 + len(n.nodes))
		if tok := r.token(prompt); string(tok.Piece) != first {
			t.Fatalf("piece %q, want %q: rows were changed on the way", tok.Piece, first)
		}
		for i := range uint32(steps) {
			r.decode(0, prompt+i)
			if tok := r.token(prompt + i + 1); string(tok.Piece) != fmt.Sprint(7+len(n.nodes)) {
				t.Fatalf("piece %q of step %d", tok.Piece, i)
			}
		}
		for i, h := range r.lease.Hops {
			st, err := n.client.State(t.Context(), h, r.lease.Session)
			if err != nil {
				t.Fatal(err)
			}
			idBytes, rowBytes := int64(4), int64(4*seamtest.Width)
			in, out := rowBytes, rowBytes
			if i == 0 {
				in = idBytes
			}
			want := protocol.Counters{
				PrefillRows: prompt, PrefillChunks: 6, DecodeRows: steps, DecodeSteps: steps,
				PrefillMicros: 12, DecodeMicros: 2 * steps, QueueMicros: 6 + steps,
				PrefillBytesIn: 6*protocol.HeaderSize + prompt*in, PrefillBytesOut: 6*protocol.HeaderSize + prompt*out,
				DecodeBytesIn: steps * (protocol.HeaderSize + in), DecodeBytesOut: steps * (protocol.HeaderSize + out),
				LastDecodeIn: protocol.HeaderSize + in, LastDecodeOut: protocol.HeaderSize + out,
				NextPos: prompt + steps,
			}
			if i == len(n.nodes)-1 {
				// Tokens to the driver: 12 bytes and the piece.
				token := int64(protocol.HeaderSize + 12 + len(fmt.Sprint(7+len(n.nodes))))
				want.PrefillBytesOut = protocol.HeaderSize + 12 + int64(len(first))
				want.DecodeBytesOut, want.LastDecodeOut = steps*token, token
			} else if st.Counters.MaxInFlight <= 0 || st.Counters.MaxInFlight > n.nodes[i+1].stage.Capability().InFlightBytes {
				t.Errorf("hop %d had %d bytes in flight", i, st.Counters.MaxInFlight)
			}
			st.Counters.MaxInFlight = 0
			if d := cmp.Diff(want, st.Counters); d != "" {
				t.Errorf("counters of hop %d (-want +got):\n%s", i, d)
			}
			if st.Phase != protocol.PhaseDecode || st.Hop != i || st.Node != n.nodes[i].id.ID() || st.Cells != 1024 || st.Use != h.Use {
				t.Errorf("state of hop %d: %+v", i, st)
			}
		}
		if got := n.nodes[0].server.Sessions(); len(got) != 1 || got[0].Session != r.lease.Session {
			t.Errorf("sessions: %+v", got)
		}
		// An end in order, everywhere.
		if err := r.stream.Close(); err != nil {
			t.Fatal(err)
		}
		n.freed()
		if err := r.tokensEnd(); err != nil {
			t.Errorf("token stream: %v", err)
		}
		if err := r.stream.Err(); err != nil {
			t.Errorf("stream: %v", err)
		}
		for i, h := range r.lease.Hops {
			for range 2 {
				if err := n.client.Release(t.Context(), h, r.lease.Session); err != nil {
					t.Errorf("release hop %d: %v", i, err)
				}
			}
			until(t, freedIn, "session is done", func() bool {
				st, err := n.client.State(t.Context(), h, r.lease.Session)
				if err != nil {
					t.Fatal(err)
				}
				return st.Phase == protocol.PhaseDone && st.Error == nil
			})
			if f := n.nodes[i].failures(); len(f) != 0 {
				t.Errorf("hop %d blames %+v", i, f)
			}
		}
	})
}

// TestWindow holds the tail: the hops in front fill its window and no more,
// and when it runs again all rows arrive once.
func TestWindow(t *testing.T) {
	carriers(t, func(t *testing.T, n *network) {
		r := n.start()
		r.drainAcks()
		tail := n.nodes[len(n.nodes)-1]
		release := tail.stage.Hold()
		defer release()
		const prompt = 64 * 15
		sent := make(chan error, 1)
		go func() {
			all := ids(prompt)
			for pos := 0; pos < prompt; pos += 64 {
				f := protocol.IDFrame(protocol.KindPrefill, uint32(pos), all[pos:pos+64])
				if pos+64 == prompt {
					f.Flags = protocol.FlagSample
				}
				if err := r.stream.Send(context.Background(), f); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		limit := tail.stage.Capability().InFlightBytes
		if len(n.nodes) > 1 {
			before := n.nodes[len(n.nodes)-2].server
			until(t, 5*time.Second, "the window is full", func() bool {
				s := before.Sessions()
				return len(s) == 1 && s[0].Counters.MaxInFlight == limit
			})
		}
		select {
		case err := <-sent:
			t.Fatalf("all chunks were sent to a held tail (%v)", err)
		default:
		}
		release()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		r.token(prompt)
		for i, nd := range n.nodes {
			c := nd.server.Sessions()[0].Counters
			if c.PrefillRows != prompt || c.PrefillChunks != 15 || c.MaxInFlight > limit {
				t.Errorf("hop %d: %+v", i, c)
			}
		}
	})
}

func TestTruncate(t *testing.T) {
	carriers(t, func(t *testing.T, n *network) {
		r := n.start()
		r.drainAcks()
		// The truncate goes out while chunks are still at the first stage.
		r.prefill(0, 0, 256)
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 200))
		r.token(256)
		r.prefill(1, 200, 70)
		r.token(270)
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 2, 269))
		r.decode(2, 269)
		r.token(270)
		for i, nd := range n.nodes {
			if c := nd.server.Sessions()[0].Counters; c.PrefillRows != 326 || c.DecodeRows != 1 || c.NextPos != 270 {
				t.Errorf("hop %d: %+v", i, c)
			}
		}
	})
}

func TestCancelFrame(t *testing.T) {
	carriers(t, func(t *testing.T, n *network) {
		r := n.start()
		r.drainAcks()
		r.prefill(0, 0, 64)
		r.token(64)
		var releases []func()
		for _, nd := range n.nodes {
			releases = append(releases, nd.stage.Hold())
		}
		// Chunks pile up behind the held first stage, then a cancel.
		go func() {
			for i := range uint32(8) {
				f := protocol.IDFrame(protocol.KindPrefill, 64+64*i, ids(64))
				if r.stream.Send(context.Background(), f) != nil {
					return
				}
			}
		}()
		until(t, 5*time.Second, "chunks arrived", func() bool {
			return n.nodes[0].server.Sessions()[0].Counters.NextPos > 64
		})
		r.send(protocol.ControlFrame(protocol.KindCancel, 0, 0, 0))
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 64))
		until(t, 5*time.Second, "the cancel went through", func() bool {
			return n.nodes[0].server.Sessions()[0].Counters.NextPos == 64
		})
		for _, release := range releases {
			release()
		}
		r.decode(1, 64)
		r.token(65)
		for i, nd := range n.nodes {
			if c := nd.server.Sessions()[0].Counters; c.PrefillRows != 64 || c.DecodeRows != 1 || c.NextPos != 65 {
				t.Errorf("hop %d: %+v", i, c)
			}
		}
	})
}

func TestManySessions(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 2})
	var routes []*route
	for range 4 {
		r := n.start()
		r.drainAcks()
		routes = append(routes, r)
	}
	for _, r := range routes {
		r.prefill(0, 0, 100)
	}
	for _, r := range routes {
		r.token(100)
	}
	if err := routes[0].stream.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range routes[1:] {
		r.decode(0, 100)
		r.token(101)
	}
	l := n.lease()
	_, err := n.client.Open(t.Context(), l.Hops[0], request(l, n.sign(l), 0))
	if err != nil {
		t.Fatalf("freed cells are not free: %v", err)
	}
	l = n.lease()
	_, err = n.client.Open(t.Context(), l.Hops[0], request(l, n.sign(l), 0))
	wantHop(t, "open", wantCode(t, "open without memory", err, protocol.CodeKVBudget), 0, protocol.PhaseOpening)
}

func TestPingAndReport(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	nd := n.nodes[0]
	d, err := n.client.Ping(t.Context(), nd.addr, nd.id.ID())
	if err != nil || d <= 0 || d > time.Second {
		t.Fatalf("ping %s: %v", d, err)
	}
	c, err := n.client.Report(t.Context(), nd.addr, nd.id.ID())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(nd.stage.Capability(), *c); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	_, err = n.client.Ping(t.Context(), nd.addr, n.driver.ID())
	wantCode(t, "ping of another key", err, protocol.CodeForbidden)
}
