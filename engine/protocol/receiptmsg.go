package protocol

// Messages of receipts; they belong to the list in control.go.
const (
	// MsgReceipts carries receipts (N, Receipts) and what became of them (T,
	// ReceiptVerdicts).
	MsgReceipts MessageKind = "receipts"
)

// MaxReceiptBatch bounds the receipts of one message: they take 0.4 MB of
// MaxMessage in base64.
const MaxReceiptBatch = 500

// Receipts are signed receipts in their wire form, each of SignedReceiptSize
// bytes. They may come again, in any order: what was accepted before is
// answered with ReceiptRepeat.
type Receipts struct {
	Receipts [][]byte `json:"receipts"`
}

// Check bounds the batch before anything in it is looked at.
func (r *Receipts) Check() error {
	if len(r.Receipts) > MaxReceiptBatch {
		return Errorf(CodeRequestTooLarge, "%d receipts in one message, at most %d are taken", len(r.Receipts), MaxReceiptBatch)
	}
	return nil
}

// ReceiptStatus says what became of a receipt.
type ReceiptStatus string

// Statuses. Only after ReceiptRetry the node sends the receipt again.
const (
	ReceiptAccepted ReceiptStatus = "accepted"
	ReceiptRepeat   ReceiptStatus = "repeat"  // accepted before; nothing was counted again
	ReceiptRefused  ReceiptStatus = "refused" // for good, Error says why
	ReceiptRetry    ReceiptStatus = "retry"   // not now
)

// ReceiptVerdicts answer Receipts, one for each in its order.
type ReceiptVerdicts struct {
	Verdicts []ReceiptVerdict `json:"verdicts"`
}

// ReceiptVerdict is what became of one receipt.
type ReceiptVerdict struct {
	Status ReceiptStatus `json:"status"`
	Error  *Error        `json:"error,omitempty"`
}

// ReceiptMark says how far a receiver has come in its sender's spans: the
// number of the open span and how many frames it holds.
type ReceiptMark struct {
	Seq    uint32 `json:"seq"`
	Frames uint32 `json:"frames"`
}
