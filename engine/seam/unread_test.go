package seam_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
)

// clocked is a stage that notes how long its sessions' Deliver takes at most.
type clocked struct {
	seam.Stage
	calls, worst atomic.Int64
}

func (c *clocked) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	deliver := o.Deliver
	o.Deliver = func(f *protocol.Frame) {
		began := time.Now()
		deliver(f)
		c.calls.Add(1)
		c.worst.Store(max(c.worst.Load(), int64(time.Since(began))))
	}
	return c.Stage.Open(ctx, o)
}

// TestDriverReadsNothing: a driver that sends rows and never reads what comes back
// fills its connection. The stage's goroutine, which other sessions have their rows
// from, must not wait for it.
func TestDriverReadsNothing(t *testing.T) {
	var stage *clocked
	n := newNetwork(t, netOptions{hops: 1, stage: func(s seam.Stage) seam.Stage {
		stage = &clocked{Stage: s}
		return stage
	}})
	l := n.lease()
	n.open(l)
	hop := l.Hops[0]
	raw, err := net.Dial("tcp", hop.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, n.driver.ClientTLS(hop.Node))
	upgrade(t, c, l.Session)
	tokens, err := n.client.Tokens(t.Context(), hop, l.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	fw := protocol.NewFrameWriter(c, protocol.SeamLimits())
	ids := []int32{7}
	epoch, pos := uint32(0), uint32(0)
	// The hop ends the session once it cannot answer, and reads no more.
	for sent := 0; ; sent++ {
		if sent == 1_000_000 {
			t.Fatal("the hop goes on and on")
		}
		var frames []*protocol.Frame
		for range 64 {
			if int(pos) == l.Context {
				epoch, pos = epoch+1, 0
				frames = append(frames, protocol.ControlFrame(protocol.KindTruncate, 0, epoch, 0))
			}
			f := protocol.IDFrame(protocol.KindDecode, pos, ids)
			f.Epoch = epoch
			frames = append(frames, f)
			pos++
		}
		c.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if err := fw.Write(frames...); err != nil {
			break
		}
	}
	n.freed()
	if got := time.Duration(stage.worst.Load()); got >= silence {
		t.Errorf("one of %d calls of Deliver took %s", stage.calls.Load(), got)
	}
}
