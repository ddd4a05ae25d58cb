package seamclient

import (
	"context"
	"net/http"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// receiptWait bounds one question about receipts. A receiver that is out of
// reach for a moment must be asked again before its sender gives up, see
// engine/receipt.
const receiptWait = 5 * time.Second

// Countersign hands a half-signed receipt of hop to the next hop and returns
// the one with both signatures. Codes: those of the receiver; unavailable,
// timeout.
func (c *Client) Countersign(ctx context.Context, l *protocol.Lease, hop int, half []byte) ([]byte, error) {
	var out protocol.Receipts
	in := protocol.Receipts{Receipts: [][]byte{half}}
	err := c.call(ctx, l.Hops[hop+1], http.MethodPost, wire.ReceiptsPath(l.Session)+"/sign", receiptWait, in, http.StatusOK, &out)
	if err != nil {
		return nil, err
	}
	if len(out.Receipts) != 1 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "hop %d answered with %d receipts for one", hop+1, len(out.Receipts))
	}
	return out.Receipts[0], nil
}

// Mark asks the hop behind hop where the session ended; unavailable while that
// hop does not know.
func (c *Client) Mark(ctx context.Context, l *protocol.Lease, hop int) (m protocol.ReceiptMark, err error) {
	err = c.call(ctx, l.Hops[hop+1], http.MethodGet, wire.ReceiptsPath(l.Session)+"/mark", receiptWait, nil, http.StatusOK, &m)
	return m, err
}

// Pending fetches receipts of the tail that the driver has to sign, oldest
// first; there may be more than one answer holds.
func (c *Client) Pending(ctx context.Context, l *protocol.Lease) ([][]byte, error) {
	var out protocol.Receipts
	err := c.call(ctx, l.Hops[len(l.Hops)-1], http.MethodGet, wire.ReceiptsPath(l.Session), receiptWait, nil, http.StatusOK, &out)
	if err != nil {
		return nil, err
	}
	if n := len(out.Receipts); n > wire.MaxPending {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tail answered with %d receipts, at most %d are taken", n, wire.MaxPending)
	}
	return out.Receipts, nil
}

// Complete gives the tail receipts that the driver has signed, at most as many
// as Pending returned. Those that it has already are no error.
func (c *Client) Complete(ctx context.Context, l *protocol.Lease, full [][]byte) error {
	in := protocol.Receipts{Receipts: full}
	return c.call(ctx, l.Hops[len(l.Hops)-1], http.MethodPost, wire.ReceiptsPath(l.Session), receiptWait, in, http.StatusNoContent, nil)
}

// CloseTail ends the session on the tail, where the driver has come to m, and
// returns when the tail's last receipt can be fetched.
func (c *Client) CloseTail(ctx context.Context, l *protocol.Lease, m protocol.ReceiptMark) error {
	return c.call(ctx, l.Hops[len(l.Hops)-1], http.MethodPost, wire.ReceiptsPath(l.Session)+"/end", receiptWait, m, http.StatusNoContent, nil)
}
