package control_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"neuron/engine/control"
	"neuron/engine/control/controltest"
	"neuron/engine/protocol"
)

// Each receipt gets its own verdict, in their order; the tracker's words are
// cut to size.
func TestDeliver(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	tr.Receipts = func(raw []byte) protocol.ReceiptVerdict {
		switch raw[0] {
		case 1:
			return protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted, Error: protocol.Errorf(protocol.CodeInternal, "no error at all")}
		case 2:
			return protocol.ReceiptVerdict{Status: protocol.ReceiptRefused, Error: protocol.Errorf(protocol.CodeLeaseExpired, "too late")}
		case 3:
			return protocol.ReceiptVerdict{Status: protocol.ReceiptRefused}
		case 4:
			return protocol.ReceiptVerdict{Status: protocol.ReceiptRetry}
		}
		return protocol.ReceiptVerdict{Status: "lost"}
	}
	c, _, _ := start(t, control.Options{URL: tr.URL()})
	if _, err := c.Deliver(t.Context(), [][]byte{{1}}); err != nil && code(err) != protocol.CodeUnavailable {
		t.Errorf("before the connection: %v", err)
	}
	if err := c.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := func(n byte) []byte { return bytes.Repeat([]byte{n}, protocol.SignedReceiptSize) }
	got, err := c.Deliver(t.Context(), [][]byte{raw(4), raw(1), raw(2), raw(3)})
	if err != nil {
		t.Fatal(err)
	}
	want := []protocol.ReceiptVerdict{
		{Status: protocol.ReceiptRetry}, {Status: protocol.ReceiptAccepted},
		{Status: protocol.ReceiptRefused, Error: &protocol.Error{Code: protocol.CodeLeaseExpired, Message: "too late"}},
		{Status: protocol.ReceiptRefused, Error: &protocol.Error{Code: protocol.CodeReceiptInvalid, Message: "the tracker refused the receipt"}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(protocol.Error{})); d != "" {
		t.Error(d)
	}
	// A full batch fits a message.
	full := make([][]byte, protocol.MaxReceiptBatch)
	for i := range full {
		full[i] = raw(1)
	}
	if got, err := c.Deliver(t.Context(), full); err != nil || len(got) != len(full) {
		t.Errorf("a full batch: %d verdicts, %v", len(got), err)
	}
	if _, err := c.Deliver(t.Context(), append(full, raw(1))); code(err) != protocol.CodeRequestTooLarge {
		t.Errorf("too large a batch: %v", err)
	}
	if _, err := c.Deliver(t.Context(), [][]byte{raw(9)}); code(err) != protocol.CodeUnavailable {
		t.Errorf("a verdict that does not exist: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Deliver(ctx, [][]byte{raw(1)}); code(err) != protocol.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// An answer that does not fit the question says nothing of any receipt.
func TestDeliverBadAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer string
		want   protocol.Code
	}{
		"too few":    {`{"kind":"receipts","id":%,"body":{"verdicts":[]}}`, protocol.CodeUnavailable},
		"no list":    {`{"kind":"receipts","id":%,"body":{"verdicts":7}}`, protocol.CodeUnavailable},
		"other kind": {`{"kind":"models","id":%,"body":{"models":[]}}`, protocol.CodeUnavailable},
		"an error":   {`{"kind":"error","id":%,"body":{"code":"rate_limited","message":"later"}}`, protocol.CodeRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := controltest.New(t)
			tr.Raw = func(e *protocol.Envelope) []byte {
				if e.Kind != protocol.MsgReceipts {
					return nil
				}
				return bytes.ReplaceAll([]byte(tc.answer), []byte("%"), []byte("1"))
			}
			c, _, _ := start(t, control.Options{URL: tr.URL()})
			if err := c.Await(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Deliver(t.Context(), [][]byte{{1}}); code(err) != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}
