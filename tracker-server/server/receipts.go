package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/receipts"
	"neuron/tracker-server/store"
)

// receiptsPace gathers the receipts of many nodes for one write to the disk.
const receiptsPace = 25 * time.Millisecond

// openReceipts begins to take receipts, and puts proven faults into force again.
// The ledger is open.
func (c *core) openReceipts(ctx context.Context) error {
	judged := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_receipts_total", Help: "Receipts, by answer and error code."}, []string{"status", "code"})
	proven := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_proofs_total", Help: "New proofs of faults, by kind."}, []string{"kind"})
	works := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_works_total", Help: "Work of receipts that was handed to the ledger, by result."}, []string{"result"})
	credit := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "neuron_tracker_credit_posted_total", Help: "Credits posted to owners for receipts."})
	c.metrics.registry.MustRegister(judged, proven, works, credit)
	in, err := receipts.Open(ctx, receipts.Config{
		Store: c.store, Ledger: c.ledger, Now: c.o.Now, Logger: c.o.Logger, Pace: receiptsPace, Lease: c.leaseOf,
		Bar: func(id protocol.NodeID, why string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reg.Bar(id, why)
		},
		Hooks: receipts.Hooks{
			Judged: func(s protocol.ReceiptStatus, code protocol.Code) {
				judged.WithLabelValues(string(s), string(code)).Inc()
			},
			Proven: func(k audit.FaultKind) { proven.WithLabelValues(string(k)).Inc() },
			Posted: func(s ledger.Status, amount store.Credit) {
				works.WithLabelValues(string(s)).Inc()
				if s == ledger.StatusPosted {
					credit.Add(float64(amount) / 1e6)
					c.recorder.Credit(int64(amount))
				}
			},
		},
	})
	c.receipts = in
	return err
}

// leaseOf finds the lease of a session that lives or has just ended, once it is
// stored: no receipt is judged by one that could still be forgotten.
func (c *core) leaseOf(id protocol.SessionID) (*protocol.SignedLease, *protocol.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.table.Get(id)
	if !ok || !s.Given {
		return nil, nil
	}
	return s.Signed, s.Lease
}

// onReceipts judges, pays and stores what a node or a driver sends, and answers
// with a verdict for each. The connection waits meanwhile: it cannot send faster
// than the disk takes.
func (c *core) onReceipts(ctx context.Context, p peer, e *protocol.Envelope) error {
	m, err := unpackReceipts(e)
	if err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	err = c.currentLocked(p)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	reply, err := protocol.Pack(protocol.MsgReceipts, e.ID, protocol.ReceiptVerdicts{Verdicts: c.receipts.Submit(ctx, p.Node(), m.Receipts)})
	if err != nil {
		return err
	}
	p.Send(reply)
	return nil
}

// unpackReceipts is protocol.Unpack for receipts, which come often: their usual
// form, {"receipts":["...","..."]} without escapes, needs no JSON decoder.
func unpackReceipts(e *protocol.Envelope) (*protocol.Receipts, error) {
	if list := plainReceipts(e.Body); list != nil {
		return &protocol.Receipts{Receipts: list}, nil
	}
	return protocol.Unpack[protocol.Receipts](e)
}

// plainReceipts reads the usual form, nil for any other.
func plainReceipts(body []byte) (list [][]byte) {
	rest, ok := bytes.CutPrefix(body, []byte(`{"receipts":[`))
	if !ok || bytes.ContainsAny(rest, "\r\n") { // which base64 would skip
		return nil
	}
	for {
		if rest, ok = bytes.CutPrefix(rest, []byte(`"`)); !ok {
			return nil
		}
		n := bytes.IndexByte(rest, '"')
		if n < 0 {
			return nil
		}
		raw := make([]byte, base64.StdEncoding.DecodedLen(n))
		size, err := base64.StdEncoding.Decode(raw, rest[:n])
		if err != nil {
			return nil
		}
		list, rest = append(list, raw[:size]), rest[n+1:]
		if string(rest) == "]}" {
			return list
		}
		if rest, ok = bytes.CutPrefix(rest, []byte(`,`)); !ok {
			return nil
		}
	}
}

// pruneReceipts forgets the receipts whose time is over.
func (c *core) pruneReceipts(ctx context.Context) {
	n, err := c.receipts.Prune(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		c.o.Logger.Error("forget old receipts", "err", err)
	case n > 0:
		c.o.Logger.Info("forgot the receipts of old sessions", "sessions", n)
	}
}
