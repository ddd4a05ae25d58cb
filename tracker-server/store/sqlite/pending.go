package sqlite

import (
	"cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

// pending is what a transaction has appended to the ledger and not written.
type pending struct {
	txs   []*store.Transaction
	nums  [][]int64 // of the accounts of their lines
	hours []int64   // of txs: the sequence numbers that begin an hour
	ids   map[string]bool
	spans []store.Span
	// last is the span that goes farthest, of those that were written, too.
	last map[spanKey]store.Span
}

type spanKey struct {
	session int64
	hop     int
	epoch   int64
}

// unused is a conflict for the id of an entry that is there. Of those that were
// there before the transaction only an exact one asks; others learn it when
// they write.
func (t *ledgerTx) unused(id string) error {
	found := t.pending.ids[id]
	if !found && t.exact {
		var seq int64
		var err error
		if found, err = t.one(`SELECT seq FROM ledger_tx WHERE id = ?`, []any{id}, &seq); err != nil {
			return err
		}
	}
	if found {
		return protocol.Errorf(protocol.CodeConflict, "the transaction %.200q exists already", id)
	}
	return nil
}

// add takes an entry; a copy, since it is the caller's.
func (p *pending) add(x *store.Transaction, nums []int64, newHour bool) {
	if p.ids == nil {
		p.ids = make(map[string]bool)
	}
	p.ids[x.ID] = true
	own := *x
	p.txs, p.nums = append(p.txs, &own), append(p.nums, nums)
	if newHour {
		p.hours = append(p.hours, x.Seq)
	}
}

// reached notes how far spans go.
func (p *pending) reached(s store.Span) {
	if p.last == nil {
		p.last = make(map[spanKey]store.Span)
	}
	k := spanKey{s.Session, s.Hop, s.Epoch}
	if have, ok := p.last[k]; !ok || cmp.Or(cmp.Compare(have.Last, s.Last), cmp.Compare(have.First, s.First)) < 0 {
		p.last[k] = s
	}
}

// write writes what is pending.
func (t *ledgerTx) write() error {
	p := &t.pending
	if len(p.txs) == 0 && len(p.spans) == 0 {
		return nil
	}
	var txs, lines, spans direct.Rows
	for i, x := range p.txs {
		txs.Add(x.Seq, x.ID, string(x.Kind), micros(x.At), x.Session, x.Digest[:], x.Note)
		for n, l := range x.Lines {
			lines.Add(x.Seq, n, p.nums[i][n], int64(l.Book), int64(l.Amount), l.Hop, l.Prefill, l.Decode)
		}
	}
	for _, s := range p.spans {
		spans.Add(s.Session, s.Hop, s.Epoch, s.First, s.Last, s.Seq)
	}
	// The first transaction of an hour has its time.
	var hours direct.Rows
	for _, seq := range p.hours {
		hours.Add(micros(p.txs[seq-p.txs[0].Seq].At)/hourMicros, seq)
	}
	p.txs, p.nums, p.hours, p.spans = p.txs[:0], p.nums[:0], p.hours[:0], p.spans[:0]
	_, err := txs.Insert(t.ctx, t.c, `INSERT INTO ledger_tx (seq, id, kind, at, session, digest, note) VALUES `, ``)
	if err == nil {
		_, err = lines.Insert(t.ctx, t.c, `INSERT INTO ledger_lines (seq, n, account, book, amount, hop, prefill, decode) VALUES `, ``)
	}
	if err == nil {
		_, err = hours.Insert(t.ctx, t.c, `INSERT INTO ledger_hours (hour, seq) VALUES `, ``)
	}
	if err == nil {
		_, err = spans.Insert(t.ctx, t.c, `INSERT INTO ledger_spans (session, hop, epoch, first, last, seq) VALUES `, ``)
	}
	return t.s.wrap("write the ledger", err)
}
