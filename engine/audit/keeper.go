package audit

import (
	"bytes"
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// Bounds of a keeper. What would exceed them is not kept, and the audit that
// needed it fails with a reason.
const (
	maxKept       = 16
	maxKeptBytes  = 64 << 20
	maxOneSession = 32 << 20
)

// Keeper keeps row frames of the sessions that the tracker named, in memory,
// until they are taken or their time is over. It implements seam.Taps and is
// safe for concurrent use. Sessions that nobody named cost one atomic load.
type Keeper struct {
	now func() time.Time
	any atomic.Int32 // number of wanted sides

	mu    sync.Mutex // guards below
	kept  map[keptKey]*kept
	bytes int64
}

type keptKey struct {
	session protocol.SessionID
	side    auditmsg.AuditSide
}

// kept are the rows [0, next) of the session's first epoch.
type kept struct {
	until  time.Time
	rows   uint32
	next   uint32
	bytes  int64
	frames []*protocol.Frame
	// over says that nothing more is kept, why the reason when nothing of it
	// can be used.
	over bool
	why  *protocol.Error
}

// NewKeeper returns an empty keeper; now is time.Now if nil.
func NewKeeper(now func() time.Time) *Keeper {
	if now == nil {
		now = time.Now
	}
	return &Keeper{now: now, kept: map[keptKey]*kept{}}
}

// Want begins or drops what w says. Codes: invalid_request, rate_limited when
// the keeper is full.
func (k *Keeper) Want(w auditmsg.AuditKeep) error {
	if err := w.Check(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweepLocked()
	key := keptKey{w.Session, w.Side}
	if w.Drop {
		k.dropLocked(key)
		return nil
	}
	if k.kept[key] != nil {
		return nil
	}
	if len(k.kept) >= maxKept {
		return protocol.Errorf(protocol.CodeRateLimited, "frames of %d sessions are kept already", maxKept)
	}
	k.kept[key] = &kept{until: k.now().Add(time.Duration(w.Seconds) * time.Second), rows: uint32(w.Rows)}
	k.any.Store(int32(len(k.kept)))
	return nil
}

// Received notes a frame from the previous hop, whose output it is.
func (k *Keeper) Received(s protocol.SessionID, f *protocol.Frame) {
	k.note(s, auditmsg.AuditOutput, f)
}

// Sent notes a frame to the next hop, whose input it is.
func (k *Keeper) Sent(s protocol.SessionID, f *protocol.Frame) { k.note(s, auditmsg.AuditInput, f) }

func (k *Keeper) note(s protocol.SessionID, side auditmsg.AuditSide, f *protocol.Frame) {
	if k.any.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.kept[keptKey{s, side}]
	if x == nil || x.over {
		return
	}
	n := int64(len(f.Payload))
	switch {
	case f.Epoch != 0 || x.next+f.Rows > x.rows && x.next > 0:
		x.over = true // rolled back, or enough
		return
	case f.Pos != x.next:
		x.over = true
		x.why = protocol.Errorf(protocol.CodeNotFound, "the first kept frame is at position %d, the order came too late, or the session began behind kept state", f.Pos)
		return
	case x.bytes+n > maxOneSession || k.bytes+n > maxKeptBytes:
		x.over = true
		if x.next == 0 {
			x.why = protocol.Errorf(protocol.CodeRequestTooLarge, "no room for a frame of %d bytes", n)
		}
		return
	}
	// A copy: the frame belongs to whoever it goes to next.
	c := *f
	c.Slot, c.Payload = 0, bytes.Clone(f.Payload)
	x.frames = append(x.frames, &c)
	x.next += f.Rows
	x.bytes += n
	k.bytes += n
	x.over = x.next >= x.rows
}

// Take hands over what was kept, the frames of the rows [0, n), and forgets it.
// Codes: not_found when nothing was kept from the start, request_too_large.
func (k *Keeper) Take(s protocol.SessionID, side auditmsg.AuditSide) ([]*protocol.Frame, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweepLocked()
	x := k.kept[keptKey{s, side}]
	k.dropLocked(keptKey{s, side})
	switch {
	case x == nil:
		return nil, protocol.Errorf(protocol.CodeNotFound, "no frames of session %s are kept here", string(s))
	case len(x.frames) == 0:
		return nil, cmp.Or(x.why, protocol.Errorf(protocol.CodeNotFound, "no frame of session %s passed here", string(s)))
	}
	return x.frames, nil
}

// Sweep forgets what is over time.
func (k *Keeper) Sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweepLocked()
}

func (k *Keeper) sweepLocked() {
	now := k.now()
	for key, x := range k.kept {
		if !now.Before(x.until) {
			k.dropLocked(key)
		}
	}
}

func (k *Keeper) dropLocked(key keptKey) {
	if x := k.kept[key]; x != nil {
		k.bytes -= x.bytes
		delete(k.kept, key)
		k.any.Store(int32(len(k.kept)))
	}
}

// Size is the number of sides that are kept or waited for, and their bytes.
func (k *Keeper) Size() (sides int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept), k.bytes
}
