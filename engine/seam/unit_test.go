package seam

import (
	"context"
	"testing"

	"neuron/engine/protocol"
)

func row(epoch, pos, rows uint32, bytes int) *protocol.Frame {
	return &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Epoch: epoch, Pos: pos, Rows: rows}, Payload: make([]byte, bytes)}
}

func TestInboxCancelOvertakes(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	b := newInbox(2, 1000)
	b.push(ctx, row(0, 0, 1, 10))
	_, hand, done, _ := b.pop(ctx)
	b.push(ctx, row(0, 1, 1, 10))
	b.push(ctx, protocol.ControlFrame(protocol.KindTruncate, 0, 1, 0))
	pushed := make(chan bool, 1)
	go func() { pushed <- b.push(ctx, protocol.ControlFrame(protocol.KindCancel, 0, 0, 0)) }()
	<-hand.Done() // the row in hand is interrupted though the inbox was full
	done()
	if !<-pushed {
		t.Fatal("cancel was not taken")
	}
	for _, want := range []protocol.Kind{protocol.KindTruncate, protocol.KindCancel} {
		f, hand, done, ok := b.pop(ctx)
		if !ok || f.Kind != want || hand.Err() != nil {
			t.Fatalf("got %v, want %s", f, want)
		}
		done()
	}
	stop()
	if _, _, _, ok := b.pop(ctx); ok {
		t.Fatal("pop after the end")
	}
}

// FuzzReceiptBodies: what the bodies of requests about receipts decode to is
// within the bounds that the handlers stand on.
func FuzzReceiptBodies(f *testing.F) {
	f.Add([]byte(`{"receipts":["AAAA"]}`))
	f.Add([]byte(`{"seq":3,"frames":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := parseReceipts(b, 2); err == nil {
			if len(list) < 1 || len(list) > 2 {
				t.Fatalf("%d receipts", len(list))
			}
			for _, raw := range list {
				if len(raw) != protocol.SignedReceiptSize {
					t.Fatalf("a receipt of %d bytes", len(raw))
				}
			}
		} else if err.Code != protocol.CodeInvalidRequest && err.Code != protocol.CodeReceiptInvalid {
			t.Fatal(err)
		}
		if _, err := parseMark(b); err != nil && err.Code != protocol.CodeInvalidRequest {
			t.Fatal(err)
		}
	})
}
