package program

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/seam/seamclient"
	"neuron/internal/identity"
)

// receiptsFolder is the book of receipts in the data folder.
const receiptsFolder = "receipts"

// openBook opens the book of a data folder that is ours; what an earlier run
// left there is delivered when tracker can be reached. client asks the
// receivers of this node's frames, and outlives the book.
func openBook(data string, id *identity.Identity, client *seamclient.Client, tracker receipt.Tracker, log *slog.Logger) (*receipt.Book, error) {
	dir := filepath.Join(data, receiptsFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dataError(dir, err)
	}
	return receipt.Open(receipt.Options{Identity: id, Dir: dir, Receiver: client, Tracker: tracker, Logger: log})
}

// trackerOf delivers receipts over a control channel that may not be there yet.
type trackerOf func() *control.Client

// Deliver implements receipt.Tracker.
func (f trackerOf) Deliver(ctx context.Context, receipts [][]byte) ([]protocol.ReceiptVerdict, error) {
	c := f()
	if c == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "there is no way to a tracker yet")
	}
	return c.Deliver(ctx, receipts)
}

// wakeBook is control.Options.OnState: when the channel comes up, what waits
// goes out at once.
func wakeBook(b *receipt.Book) func(control.State) {
	return func(s control.State) {
		if s.Status == control.StatusConnected {
			b.Wake()
		}
	}
}

// receiptStatus is the book for the local API.
func receiptStatus(b *receipt.Book) localapi.Receipts { return localapi.Receipts(b.Stats()) }
