// Package receipt is a node's book of receipts: it signs what its hops did,
// gets the receiver's signature, signs what it received from others, and keeps
// the finished receipts on disk until the tracker has settled them.
//
// The programs of the engine import it and connect it: the seam and the driver
// feed frames into a Session, the seam's HTTP side carries countersignatures
// (Receiver), the control channel carries receipts to the tracker (Tracker).
// It knows no transport and no model. The rules of spans and the bytes of
// receipts are in engine/protocol; docs/protocol/receipts.md describes all.
package receipt

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/identity"
)

// Receiver reaches the node that receives a hop's frames. Both questions are
// asked by a session's own goroutine, one at a time, and may block until ctx
// ends.
type Receiver interface {
	// Mark asks how far the receiver has come, when the session has ended.
	Mark(ctx context.Context, l *protocol.Lease, hop int) (protocol.ReceiptMark, error)
	// Countersign hands over the half-signed receipt in its wire form and
	// returns the one with both signatures. The codes unavailable, timeout,
	// hop_lost and rate_limited mean that it may be asked again.
	Countersign(ctx context.Context, l *protocol.Lease, hop int, half []byte) ([]byte, error)
}

// Tracker takes finished receipts, at most protocol.MaxReceiptBatch at a time
// in their wire form, and returns a verdict for each, in their order. An error
// means that nothing is known of any of them.
type Tracker interface {
	Deliver(ctx context.Context, receipts [][]byte) ([]protocol.ReceiptVerdict, error)
}

// Options configure a Book. Identity, Dir and Tracker are required.
type Options struct {
	Identity *identity.Identity
	// Dir is an existing folder of the book's own.
	Dir string
	// MaxBytes bounds the file of receipts that wait; 32 MiB if zero, which is
	// 58,000 receipts or 1.8 million tokens of one hop. Beyond it the oldest
	// are lost.
	MaxBytes int64
	// Receiver may be nil where this node is only a driver or a tail.
	Receiver Receiver
	Tracker  Tracker
	Logger   *slog.Logger // slog.Default() if nil
	Now      func() time.Time
	// Linger is how long a session's receipts may be finished after its end
	// (1 min if zero).
	Linger time.Duration
}

// Times of the book.
const (
	defaultLinger   = time.Minute
	defaultMaxBytes = 32 << 20
	// syncAfter bounds what a loss of power takes.
	syncAfter = time.Second
	// The wait before the tracker is asked again grows from backoffMin to
	// backoffMax, before a receiver is to backoffReceiver.
	backoffMin      = time.Second
	backoffMax      = time.Minute
	backoffReceiver = 4 * time.Second
)

// Book keeps the receipts of one node. It is safe for concurrent use.
type Book struct {
	o      Options
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	more   chan struct{} // something waits for the tracker
	wake   chan struct{} // the tracker may be reachable again
	dirty  chan struct{} // something is not synced

	mu       sync.Mutex // guards below
	closed   bool
	spool    *spool
	sessions map[sessionKey]*Session
	stats    Stats
}

// sessionKey tells a session's parts on one node apart: a driver may be a hop
// of its own route.
type sessionKey struct {
	session protocol.SessionID
	hop     int // -1 for the driver
}

// Stats are figures since the book was opened.
type Stats struct {
	Waiting   int   `json:"waiting"`    // receipts for the tracker
	Bytes     int64 `json:"bytes"`      // of their file
	Signed    int64 `json:"signed"`     // halves that this node's hops made
	Finished  int64 `json:"finished"`   // of them, signed by the receiver too
	Unsigned  int64 `json:"unsigned"`   // of them, given up: the receiver did not sign
	Given     int64 `json:"given"`      // signatures for other nodes' hops
	Denied    int64 `json:"denied"`     // refused signatures
	Delivered int64 `json:"delivered"`  // accepted by the tracker, repeats included
	Refused   int64 `json:"refused"`    // by the tracker
	Dropped   int64 `json:"dropped"`    // lost for want of room or by damage
	TornBytes int64 `json:"torn_bytes"` // cut off the file when it was opened
}

// Open opens or makes the book in o.Dir and begins to deliver what waits
// there. Codes: data_folder, already_running, disk_full. Close it.
func Open(o Options) (*Book, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Linger <= 0 {
		o.Linger = defaultLinger
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	sp, err := openSpool(o.Dir, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	b := &Book{
		o: o, log: o.Logger, spool: sp, sessions: map[sessionKey]*Session{},
		more: make(chan struct{}, 1), wake: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if sp.torn > 0 {
		b.log.Warn("the end of the receipts file was damaged and is lost", "bytes", sp.torn)
	}
	if sp.len() > 0 {
		b.log.Info("receipts wait for the tracker", "receipts", sp.len())
		signal(b.more)
	}
	b.work.Go(b.deliver)
	b.work.Go(b.syncer)
	return b, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close ends all sessions' work and makes what waits durable. Receipts that
// the receiver has not signed yet are lost.
func (b *Book) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.work.Wait()
	return b.spool.close()
}

// Wake tells that the tracker may be reachable again, for instance since the
// control channel is up.
func (b *Book) Wake() { signal(b.wake) }

// Stats are the figures of now.
func (b *Book) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Waiting, s.Bytes, s.TornBytes = b.spool.len(), b.spool.size, b.spool.torn
	s.Dropped += b.spool.dropped
	return s
}

func (b *Book) count(f func(s *Stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.stats)
}

// store keeps a finished receipt for the tracker.
func (b *Book) store(sr *protocol.SignedReceipt) {
	b.mu.Lock()
	before := b.spool.dropped
	err := b.spool.append(sr)
	dropped := b.spool.dropped - before
	if err != nil {
		b.stats.Dropped++
	}
	b.stats.Finished++
	b.mu.Unlock()
	if err != nil {
		b.log.Error("a receipt is lost: it cannot be stored", "error", err)
		return
	}
	if dropped > 0 {
		b.log.Error("the oldest receipts are lost: the tracker has not taken them and their space is full", "receipts", dropped)
	}
	signal(b.dirty)
	signal(b.more)
}

// syncer makes appended receipts durable, all of a second at once.
func (b *Book) syncer() {
	for {
		select {
		case <-b.dirty:
		case <-b.ctx.Done():
			return // closing the spool syncs it
		}
		if !b.pause(syncAfter, nil) {
			return
		}
		b.mu.Lock()
		err := b.spool.sync()
		b.mu.Unlock()
		if err != nil {
			b.log.Error("receipts are not safe from a loss of power", "error", err)
		}
	}
}

// pause waits for d or for early; false when the book is closing.
func (b *Book) pause(d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-b.ctx.Done():
		return false
	}
	return true
}

// deliver sends what waits to the tracker, oldest first. A batch without an
// answer is sent again: the tracker knows each receipt by its hash.
func (b *Book) deliver() {
	wait := backoffMin
	for {
		b.mu.Lock()
		batch, err := b.spool.oldest(protocol.MaxReceiptBatch)
		b.mu.Unlock()
		if err != nil {
			b.log.Error("a stored receipt cannot be read", "error", err)
		}
		again := err != nil
		if len(batch) > 0 {
			again = !b.send(batch)
		}
		switch {
		case again:
			// Full jitter, so that nodes do not come back all at once.
			if !b.pause(wait/2+rand.N(wait/2), b.wake) {
				return
			}
			wait = min(2*wait, backoffMax)
			continue
		case len(batch) > 0:
			wait = backoffMin
			continue
		}
		select {
		case <-b.more:
		case <-b.ctx.Done():
			return
		}
	}
}

// send delivers one batch; false when some of it has to be sent again.
func (b *Book) send(batch []stored) bool {
	raws := make([][]byte, len(batch))
	for i, s := range batch {
		raws[i] = s.raw
	}
	verdicts, err := b.o.Tracker.Deliver(b.ctx, raws)
	if err == nil && len(verdicts) != len(batch) {
		err = protocol.Errorf(protocol.CodeInvalidRequest, "%d verdicts for %d receipts", len(verdicts), len(batch))
	}
	if err != nil {
		if b.ctx.Err() == nil {
			b.log.Debug("the tracker takes no receipts now", "receipts", len(batch), "error", err)
		}
		return false
	}
	var settled []protocol.Hash
	var delivered, refused int64
	for i, v := range verdicts {
		switch v.Status {
		case protocol.ReceiptAccepted, protocol.ReceiptRepeat:
			delivered++
		case protocol.ReceiptRefused:
			refused++
			b.log.Warn("the tracker refused a receipt", "receipt", batch[i].id, "error", v.Error)
		default:
			continue // once more
		}
		settled = append(settled, batch[i].id)
	}
	b.mu.Lock()
	b.stats.Delivered += delivered
	b.stats.Refused += refused
	err = b.spool.settle(settled)
	b.mu.Unlock()
	if err != nil {
		b.log.Error("settled receipts stay in the file and are sent again after a restart", "error", err)
	}
	return len(settled) == len(batch)
}
