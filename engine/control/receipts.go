package control

import (
	"context"

	"neuron/engine/protocol"
)

// Deliver hands receipts to the tracker, at most protocol.MaxReceiptBatch in
// their wire form, and returns what became of each, in their order. An error
// means that nothing is known of any: unavailable without a connection,
// timeout, or what the tracker answers.
func (c *Client) Deliver(ctx context.Context, receipts [][]byte) ([]protocol.ReceiptVerdict, error) {
	batch := protocol.Receipts{Receipts: receipts}
	if err := batch.Check(); err != nil {
		return nil, err
	}
	e, err := c.call(ctx, protocol.MsgReceipts, batch, protocol.MsgReceipts)
	if err != nil {
		return nil, err
	}
	return verdicts(e, len(receipts))
}

// verdicts reads the answer to so many receipts.
func verdicts(e *protocol.Envelope, receipts int) ([]protocol.ReceiptVerdict, error) {
	v, err := protocol.Unpack[protocol.ReceiptVerdicts](e)
	if err != nil {
		return nil, badAnswer(err)
	}
	if len(v.Verdicts) != receipts {
		return nil, badAnswer(protocol.Errorf(protocol.CodeInvalidRequest, "%d verdicts for %d receipts", len(v.Verdicts), receipts))
	}
	for i := range v.Verdicts {
		switch r := &v.Verdicts[i]; r.Status {
		case protocol.ReceiptAccepted, protocol.ReceiptRepeat, protocol.ReceiptRetry:
			r.Error = nil
		case protocol.ReceiptRefused:
			r.Error = cleanError(r.Error, protocol.CodeReceiptInvalid, "the tracker refused the receipt")
		default:
			return nil, badAnswer(protocol.Errorf(protocol.CodeInvalidRequest, "a verdict %.64q", string(r.Status)))
		}
	}
	return v.Verdicts, nil
}
