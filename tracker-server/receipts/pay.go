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

// maxWeights bounds the sessions whose reserved hops are remembered.
const maxWeights = 1 << 14

// payAtOnce bounds what is posted in one go: leases wait for the ledger too.
const payAtOnce = 128

// pay posts facts. Those of sessions that nobody reserved credit for are paid
// to nobody, and those of sessions that failed neither. Asking again is safe.
func (in *Intake) pay(ctx context.Context, works []work) error {
	if len(works) == 0 {
		return nil
	}
	if err := in.weigh(ctx, works); err != nil {
		return err
	}
	var paid []work
	var list []ledger.Work
	for _, w := range works {
		weights, ok := in.weights[w.fact.Session]
		if !ok || w.fact.Hop >= len(weights) {
			in.cfg.Hooks.Posted(ledger.StatusUnpaid, 0)
			continue
		}
		paid, list = append(paid, w), append(list, workOf(&w.fact, weights[w.fact.Hop]))
	}
	var results []ledger.Result
	for len(list) > 0 {
		n := min(len(list), payAtOnce)
		some, err := in.cfg.Ledger.Submit(ctx, list[:n])
		if err != nil {
			return err
		}
		results, list = append(results, some...), list[n:]
	}
	for i, r := range results {
		in.cfg.Hooks.Posted(r.Status, r.Amount)
		if r.Status != ledger.StatusRefused {
			continue
		}
		f := &paid[i].fact
		in.cfg.Logger.Info("work is not paid", "session", f.Session, "hop", f.Hop, "node", f.Node.Short(), "err", r.Error)
		if paid[i].answer != nil {
			*paid[i].answer = refuse(r.Error)
		}
	}
	return nil
}

// workOf puts a fact as the ledger knows work: the positions that stand.
func workOf(f *audit.Fact, bytes int64) ledger.Work {
	w := ledger.Work{
		Session: f.Session, Hop: f.Hop, Epoch: int64(f.Epoch), Node: f.Node, Bytes: bytes,
		First: int64(f.First), Last: int64(f.Last), BothSigned: true,
	}
	if f.Kind == protocol.SpanPrefill {
		w.Prefill = w.Last - w.First
	} else {
		w.Decode = w.Last - w.First
	}
	return w
}

// weigh finds the bytes of the hops of sessions that it does not know. What
// nobody has reserved stays unknown.
func (in *Intake) weigh(ctx context.Context, works []work) error {
	if len(in.weights) > maxWeights {
		clear(in.weights)
	}
	asked := make(map[protocol.SessionID]bool)
	for _, w := range works {
		if _, ok := in.weights[w.fact.Session]; !ok {
			asked[w.fact.Session] = true
		}
	}
	if len(asked) == 0 {
		return nil
	}
	return in.cfg.Ledger.View(ctx, func(v store.LedgerView) error {
		for id := range asked {
			r, err := v.Reservation(id)
			if isCode(err, protocol.CodeNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			weights := make([]int64, len(r.Hops))
			for i := range r.Hops {
				weights[i] = r.Hops[i].Bytes
			}
			in.weights[id] = weights
		}
		return nil
	})
}

func isCode(err error, code protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: code})
}
