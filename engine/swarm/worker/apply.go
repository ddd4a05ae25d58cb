package worker

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/anacrolix/torrent"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// apply brings an open model from order old to now; first says that nothing
// has been applied yet. An error means that the order cannot be carried out.
func (m *model) apply(ctx context.Context, op *opened, old, now order, first bool) error {
	op.shelf.SetKeepFree(now.limits.KeepFree)
	if first || !slices.Equal(old.model.Ranges, now.model.Ranges) {
		if !first {
			op.shelf.Touch(old.model.Ranges...) // served until now, for Trim
		}
		if err := op.want(now.model.Ranges); err != nil {
			return err
		}
	}
	if err := op.repair(ctx, now.model); err != nil {
		return err
	}
	op.setPaused(now)
	if old.paused && !now.paused {
		op.dialKnown() // the library forgot them when it was told to have no peers
	}
	if len(now.model.Announce) > 0 {
		op.torrent.AddTrackers([][]string{now.model.Announce})
	}
	op.dialNamed(now)
	if first {
		op.addSeeds()
	}
	return nil
}

// want tells shelf and library which layers to hold. A disk without room is a
// trouble that passes; other errors are returned.
func (op *opened) want(ranges []protocol.Range) error {
	if op.adopted {
		return nil
	}
	need, err := op.man.NeedAll(ranges...)
	if err != nil {
		return err
	}
	op.m.mu.Lock()
	op.need, op.flushed = need, false
	op.m.mu.Unlock()
	if _, err := op.shelf.Want(ranges); err != nil {
		if e := asTrouble(err); e.Code != protocol.CodeDiskFull && e.Code != protocol.CodeDataFolder {
			return err
		}
		op.stumble(err)
		return nil
	}
	was, next := *op.wanted.Load(), make([]bool, op.info.Pieces())
	for _, r := range need.Pieces {
		for p := r.First; p < r.Last; p++ {
			next[p] = true
		}
	}
	op.wanted.Store(&next)
	for p := 0; p < len(next); {
		q := p + 1
		for q < len(next) && next[q] == next[p] && was[q] == was[p] {
			q++
		}
		if next[p] != was[p] {
			if !next[p] {
				op.torrent.CancelPieces(p, q)
			}
			for i := p; i < q; i++ {
				op.torrent.Piece(i).UpdateCompletion()
			}
			if next[p] {
				op.torrent.DownloadPieces(p, q)
			}
		}
		p = q
	}
	return nil
}

// setPaused lets data flow or not, and as many peers as allowed.
func (op *opened) setPaused(o order) {
	t := op.torrent
	if o.paused {
		t.DisallowDataDownload()
		t.DisallowDataUpload()
		t.SetMaxEstablishedConns(0)
		return
	}
	t.SetMaxEstablishedConns(cmp.Or(o.limits.Peers, defaultPeers))
	t.AllowDataUpload()
	op.m.mu.Lock()
	free := op.m.trouble == nil
	op.m.mu.Unlock()
	if free {
		t.AllowDataDownload()
	}
}

// dialNamed tries the peers that the engine named; connected ones are left
// alone.
func (op *opened) dialNamed(o order) {
	var list []netip.AddrPort
	for _, a := range o.model.Peers {
		if ap, err := netip.ParseAddrPort(a); err == nil {
			list = append(list, ap)
		}
	}
	op.dial(o, list)
}

// dialKnown tries peers that were connected before.
func (op *opened) dialKnown() { op.dial(op.m.newest(), op.m.client.known(op.torrent)) }

func (op *opened) dial(o order, list []netip.AddrPort) {
	if o.paused || len(list) == 0 {
		return
	}
	peers := make([]torrent.PeerInfo, len(list))
	for i, ap := range list {
		peers[i] = torrent.PeerInfo{Addr: ap, Source: torrent.PeerSourceDirect}
	}
	op.torrent.AddPeers(peers)
}

// repair carries out orders for damaged files, in the order of their numbers.
func (op *opened) repair(ctx context.Context, w swarm.Model) error {
	op.m.mu.Lock()
	done := op.m.repaired
	op.m.mu.Unlock()
	damaged := slices.SortedFunc(slices.Values(w.Damaged), func(a, b swarm.Damaged) int { return cmp.Compare(a.Number, b.Number) })
	renewed := false
	for _, d := range damaged {
		if d.Number <= done {
			continue
		}
		pieces, err := op.shelf.Repair(ctx, d.File)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			e := asTrouble(err)
			op.m.log.Warn("Damaged file cannot be repaired", "file", d.File, "code", string(e.Code), "error", e.Message)
			if e.Code == protocol.CodeDiskFull || e.Code == protocol.CodeDataFolder {
				op.stumble(err)
				break // again when there is room
			}
		} else {
			op.m.log.Info("Damaged file is fetched again", "file", d.File, "pieces", len(pieces))
		}
		op.lost(pieces)
		renewed = true
		op.m.mu.Lock()
		op.m.repaired = max(op.m.repaired, d.Number)
		op.m.mu.Unlock()
	}
	if renewed {
		return op.want(w.Ranges)
	}
	return nil
}

// lost makes the library look again at pieces that are not complete any more.
func (op *opened) lost(pieces []int) {
	for _, p := range pieces {
		op.torrent.Piece(p).UpdateCompletion()
	}
}

// resync makes the library look again at every piece of which it thinks
// otherwise than the shelf.
func (op *opened) resync() {
	for p := range op.info.Pieces() {
		if op.torrent.PieceState(p).Complete != op.shelf.Complete(p) {
			op.torrent.Piece(p).UpdateCompletion()
		}
	}
}

// settle does what events asked for: files are listed when their pieces are
// there, and web seeds come and go.
func (m *model) settle(ctx context.Context, op *opened) {
	op.setSeeds()
	m.mu.Lock()
	due := !op.adopted && !op.flushed && op.missing() == 0 && len(op.waiting) == 0
	m.mu.Unlock()
	if !due {
		return
	}
	if err := op.shelf.Flush(ctx); err != nil {
		if ctx.Err() == nil {
			op.stumble(err)
		}
		return
	}
	m.mu.Lock()
	op.flushed = op.missing() == 0
	m.mu.Unlock()
}

// missing counts wanted pieces that are not committed. The caller holds m.mu.
func (op *opened) missing() int {
	n := 0
	if op.need != nil {
		for _, r := range op.need.Pieces {
			for p := r.First; p < r.Last; p++ {
				if !op.shelf.Complete(p) {
					n++
				}
			}
		}
	}
	return n
}

// nextLook is when retry has something to do; 0 is never.
func (m *model) nextLook(op *opened, o order) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.trouble != nil || op.seedsOut > 0 || len(op.waiting) > 0 || op.unannounced(o):
		return retryPause
	case !o.paused && (len(o.model.Peers) > 0 || op.missing() > 0):
		return dialPause
	}
	return 0
}

// unannounced says that trackers should have been asked by now.
func (op *opened) unannounced(o order) bool {
	return len(o.model.Announce) > 0 && !op.m.client.announced(op.torrent)
}

// retry tries again what failed.
func (m *model) retry(op *opened, o order) {
	if op.unannounced(o) {
		m.client.nudge()
	}
	op.dialNamed(o)
	if op.torrent.Stats().ActivePeers == 0 {
		op.dialKnown() // a network that was away for a while
	}
	m.mu.Lock()
	was := m.trouble
	m.trouble = nil
	waiting := op.waiting
	op.waiting = map[int]bool{}
	m.mu.Unlock()
	for p := range waiting {
		op.committed(p, op.shelf.Commit(p))
	}
	if was == nil {
		return
	}
	if err := op.want(o.model.Ranges); err != nil {
		op.stumble(err)
	}
	m.mu.Lock()
	free := m.trouble == nil
	m.mu.Unlock()
	if free {
		m.log.Info("Model goes on", "code", string(was.Code))
		op.setPaused(o)
	}
}

// stumble takes note of an error that stops the download until retry.
func (op *opened) stumble(err error) {
	op.torrent.DisallowDataDownload()
	e := asTrouble(err)
	op.m.mu.Lock()
	fresh := op.m.trouble == nil
	if fresh {
		op.m.trouble = e
	}
	op.m.mu.Unlock()
	if fresh {
		op.m.log.Warn("Model waits", "code", string(e.Code), "error", e.Message)
	}
	op.m.wake()
}

// committed is the store's hook.
func (op *opened) committed(piece int, err error) {
	if err != nil {
		op.m.mu.Lock()
		op.waiting[piece] = true
		op.m.mu.Unlock()
		op.stumble(err)
		return
	}
	op.m.wake()
}

// rejected is the store's hook.
func (op *opened) rejected(piece int, staged bool) {
	if staged {
		op.m.mu.Lock()
		op.refused += op.shelf.PieceBytes(piece)
		op.blameSeeds(piece)
		op.m.mu.Unlock()
	}
	op.m.wake()
}
