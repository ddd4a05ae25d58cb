package receipts

import (
	"context"
	"errors"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
)

// work is a fact to be paid. answer is that of its receipt, or nil when the
// receipt came before and is backed only now.
type work struct {
	fact   audit.Fact
	answer *protocol.ReceiptVerdict
}

// piece is what becomes of some receipts in one transaction: a receipt is not
// stored before the work is posted that it proves, since one that is stored
// proves nothing new.
type piece struct {
	works []work
	keep  []store.Receipt
}

func (p *piece) size() int { return max(len(p.works), len(p.keep)) }

// pay posts and stores pieces, and proofs with the last one. Work of sessions
// that nobody reserved credit for is paid to nobody, and that of sessions that
// failed neither. Asking again is safe.
func (in *Intake) pay(ctx context.Context, pieces []*piece, proofs []store.Proof) error {
	list := make([]*ledger.Piece, len(pieces))
	for i, p := range pieces {
		faults := proofs
		if i < len(pieces)-1 {
			faults = nil
		}
		list[i] = &ledger.Piece{
			Work: make([]ledger.Work, len(p.works)),
			With: func(tx store.LedgerTx) error { return tx.AddReceipts(p.keep, faults) },
		}
		for j := range p.works {
			list[i].Work[j] = workOf(&p.works[j].fact)
		}
	}
	if err := in.cfg.Ledger.SubmitAll(ctx, list); err != nil {
		return err
	}
	for i, p := range pieces {
		for j := range p.works {
			in.paid(&p.works[j], list[i].Results[j])
		}
	}
	return nil
}

// paid tells what became of the work of a receipt.
func (in *Intake) paid(w *work, r ledger.Result) {
	if r.Status == ledger.StatusRefused && r.Error.Code == protocol.CodeSessionUnknown {
		r.Status = ledger.StatusUnpaid
	}
	in.cfg.Hooks.Posted(r.Status, r.Amount)
	if r.Status != ledger.StatusRefused {
		return
	}
	in.cfg.Logger.Info("work is not paid", "session", w.fact.Session, "hop", w.fact.Hop, "node", w.fact.Node.Short(), "err", r.Error)
	if w.answer != nil {
		*w.answer = refuse(r.Error)
	}
}

// workOf puts a fact as the ledger knows work: the positions that stand.
func workOf(f *audit.Fact) ledger.Work {
	w := ledger.Work{
		Session: f.Session, Hop: f.Hop, Epoch: int64(f.Epoch), Node: f.Node, Bytes: ledger.AsReserved,
		First: int64(f.First), Last: int64(f.Last), BothSigned: true,
	}
	if f.Kind == protocol.SpanPrefill {
		w.Prefill = w.Last - w.First
	} else {
		w.Decode = w.Last - w.First
	}
	return w
}

func isCode(err error, code protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: code})
}
