package seam_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
	"neuron/internal/identity"
)

// rawStream opens a session's stream by hand, over the upgrade carrier, with
// id's key: the test then writes whatever bytes it likes.
func rawStream(t *testing.T, id *identity.Identity, hop protocol.Hop, s protocol.SessionID) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	c, err := tls.Dial("tcp", hop.Addr, id.ClientTLS(hop.Node))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, upgrade(t, c, s)
}

// upgrade asks for the stream of a session on c.
func upgrade(t *testing.T, c *tls.Conn, s protocol.SessionID) *bufio.Reader {
	t.Helper()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "POST /seam/v1/sessions/%s/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: neuron-seam/1\r\n\r\n", s)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %s: %s", resp.Status, b)
	}
	return br
}

// errorFrame reads until the error frame.
func errorFrame(t *testing.T, r io.Reader) *protocol.Error {
	t.Helper()
	fr := protocol.NewFrameReader(r, protocol.SeamLimits())
	for {
		f, err := fr.Read()
		if err != nil {
			t.Fatalf("no error frame: %v", err)
		}
		if f.Kind == protocol.KindError {
			return f.Err()
		}
	}
}

func hidden(pos uint32, rows, width int, dtype protocol.DType) *protocol.Frame {
	return &protocol.Frame{Header: protocol.Header{
		Kind: protocol.KindPrefill, Parts: protocol.PartHidden, DType: dtype, Pos: pos, Rows: uint32(rows), Width: uint32(width),
	}, Payload: make([]byte, rows*width*dtype.Size())}
}

// TestHostilePreviousHop plays hop 0 towards the tail of a two-hop route. The
// tail must not hand anything of it to its stage, must blame hop 0, and free
// its KV.
func TestHostilePreviousHop(t *testing.T) {
	wire := func(f *protocol.Frame) []byte {
		b, err := protocol.AppendFrame(nil, f, protocol.PipeLimits())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	nan := hidden(0, 2, seamtest.Width, protocol.DTypeF32)
	copy(nan.Payload[4*(seamtest.Width+3):], []byte{0, 0, 0xc0, 0x7f})
	damaged := wire(hidden(0, 2, seamtest.Width, protocol.DTypeF32))
	damaged[len(damaged)-1] ^= 1
	huge := wire(hidden(0, 1, seamtest.Width, protocol.DTypeF32))
	huge[24], huge[25], huge[26], huge[27] = 0xff, 0xff, 0xff, 0xff
	whole := wire(hidden(0, 2, seamtest.Width, protocol.DTypeF32))
	for name, c := range map[string]struct {
		bytes []byte
		code  protocol.Code
	}{
		"NaN":          {wire(nan), protocol.CodeFrameNonFinite},
		"position":     {wire(hidden(5, 1, seamtest.Width, protocol.DTypeF32)), protocol.CodeFrameOrder},
		"width":        {wire(hidden(0, 1, seamtest.Width-1, protocol.DTypeF32)), protocol.CodeFrameInvalid},
		"wide":         {wire(hidden(0, 1, seamtest.Width+1, protocol.DTypeF32)), protocol.CodeFrameInvalid},
		"dtype":        {wire(hidden(0, 1, seamtest.Width, protocol.DTypeF16)), protocol.CodeFrameInvalid},
		"ids":          {wire(protocol.IDFrame(protocol.KindPrefill, 0, []int32{1})), protocol.CodeFrameInvalid},
		"rows":         {wire(hidden(0, seamtest.ChunkRows+1, seamtest.Width, protocol.DTypeF32)), protocol.CodeFrameInvalid},
		"checksum":     {damaged, protocol.CodeFrameInvalid},
		"huge count":   {huge, protocol.CodeFrameInvalid},
		"garbage":      {[]byte("GET / HTTP/1.1\r\nHost: x\r\nAnd so on, for more than a header\r\n\r\n"), protocol.CodeFrameInvalid},
		"pipe only":    {wire(protocol.ControlFrame(protocol.KindOpen, 0, 0, 0)), protocol.CodeFrameInvalid},
		"upward kind":  {wire(protocol.AckFrame(protocol.Header{}, protocol.Ack{})), protocol.CodeFrameInvalid},
		"fork":         {wire(protocol.ControlFrame(protocol.KindFork, 0, 1, 0)), protocol.CodeUnsupported},
		"cancel ahead": {wire(protocol.ControlFrame(protocol.KindCancel, 0, 1<<31, 0)), protocol.CodeFrameOrder},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, netOptions{hops: 2})
			l := n.lease()
			n.open(l)
			tokens, err := n.client.Tokens(t.Context(), l.Hops[1], l.Session)
			if err != nil {
				t.Fatal(err)
			}
			defer tokens.Close()
			conn, r := rawStream(t, n.nodes[0].id, l.Hops[1], l.Session)
			if _, err := conn.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			e := errorFrame(t, r)
			wantCode(t, "stream", e, c.code)
			if e.Hop == nil || *e.Hop != 0 {
				t.Errorf("error %v, want hop 0", e)
			}
			wantCode(t, "tokens", ended(t, tokens.Frames(), tokens.Err), c.code)
			n.freed(n.nodes[1])
			until(t, freedIn, "the tail blames hop 0", func() bool { return len(n.nodes[1].failures()) == 1 })
			st, err := n.client.State(t.Context(), l.Hops[1], l.Session)
			if err != nil || st.Counters.PrefillRows != 0 {
				t.Errorf("rows reached the stage: %+v, %v", st, err)
			}
			if err := n.client.Release(t.Context(), l.Hops[0], l.Session); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("closes inside a frame", func(t *testing.T) {
		n := newNetwork(t, netOptions{hops: 2})
		l := n.lease()
		n.open(l)
		conn, _ := rawStream(t, n.nodes[0].id, l.Hops[1], l.Session)
		conn.Write(whole[:len(whole)-5])
		conn.Close()
		n.freed(n.nodes[1])
		until(t, freedIn, "the tail blames hop 0", func() bool { return len(n.nodes[1].failures()) == 1 })
		wantHop(t, "blame", wantCode(t, "blame", n.nodes[1].failures()[0].err, protocol.CodeHopLost), 0, protocol.PhaseOpening)
		if err := n.client.Release(t.Context(), l.Hops[0], l.Session); err != nil {
			t.Error(err)
		}
	})
}

// TestSilentDriver opens a stream and gives no sign of life, without closing.
func TestSilentDriver(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 2})
	l := n.lease()
	n.open(l)
	_, r := rawStream(t, n.driver, l.Hops[0], l.Session)
	start := time.Now()
	wantCode(t, "stream", errorFrame(t, r), protocol.CodeStageFrozen)
	if d := time.Since(start); d < silence/2 || d > silence*5/3 {
		t.Errorf("noticed after %s", d)
	}
	n.freed()
}
