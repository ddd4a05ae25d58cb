package worker

import (
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// counters are bytes of payload since the model was first wanted, and how many
// sources of wrong data were dropped.
type counters struct {
	received, sent, wasted int64
	dropped                int
}

// counters adds what the current torrent counts to what earlier ones did.
func (m *model) counters(op *opened) counters {
	var c counters
	m.mu.Lock()
	if m.open != op {
		op = nil // it has been retired meanwhile
	}
	m.mu.Unlock()
	if op != nil {
		s := op.torrent.Stats()
		c.received, c.sent = s.BytesReadData.Int64(), s.BytesWrittenData.Int64()
		c.wasted = max(0, c.received-s.BytesReadUsefulData.Int64())
		c.dropped = m.client.bannedOf(op.torrent)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if op != nil {
		c.wasted = min(c.received, c.wasted+op.refused)
		c.dropped += op.seedDrops()
	}
	r := m.retired
	return counters{c.received + r.received, c.sent + r.sent, c.wasted + r.wasted, c.dropped + r.dropped}
}

// status is what the model's owner has to tell now, and the version of the
// order that it reflects. moving says that bytes were moved lately.
func (m *model) status(now time.Time) (s swarm.ModelStatus, version int64, moving bool) {
	m.mu.Lock()
	op := m.open
	m.mu.Unlock()
	c := m.counters(op)
	peers, seeds := 0, 0
	if op != nil {
		g := op.torrent.Stats()
		peers, seeds = g.ActivePeers, g.ConnectedSeeders
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.down.note(now, c.received)
	m.up.note(now, c.sent)
	s = swarm.ModelStatus{
		Model: m.id, State: swarm.StateStarting, Error: m.err, Files: []swarm.FileStatus{},
		Received: c.received, Sent: c.sent, Wasted: c.wasted, Dropped: c.dropped,
		DownRate: m.down.rate(), UpRate: m.up.rate(), Peers: peers, Seeds: seeds,
		ETASeconds: -1, RepairNumber: m.repaired,
		Bytes: m.toCheck, Done: min(m.checked, m.toCheck),
	}
	moving = s.DownRate > 0 || s.UpRate > 0 || m.toCheck > 0
	if s.DownRate > 0 || s.UpRate > 0 {
		m.active = now
	}
	if op != m.open || op == nil {
		if m.err != nil {
			s.State = swarm.StateBlocked
			if m.final {
				s.State = swarm.StateFailed
			}
		}
		return s, m.applied, moving
	}
	op.progress(&s)
	switch {
	case m.trouble != nil:
		s.Error = m.trouble
		s.State = swarm.StateBlocked
		if m.trouble.Code == protocol.CodeModelInvalid {
			s.State = swarm.StateFailed
		}
	case m.order.paused:
		s.State = swarm.StatePaused
	case s.Missing > 0 || !op.flushed && !op.adopted:
		s.State = swarm.StateDownloading
		if s.DownRate > 0 {
			s.ETASeconds = (s.Bytes - s.Done + s.DownRate - 1) / s.DownRate
		}
	default:
		s.State = swarm.StateComplete
		s.ETASeconds = 0
	}
	return s, m.applied, moving
}

// progress fills in bytes, pieces and files. The caller holds m.mu.
func (op *opened) progress(s *swarm.ModelStatus) {
	if op.adopted {
		s.Bytes = op.info.Length()
		s.Done = s.Bytes
		return
	}
	s.Bytes, s.Done = 0, 0
	if op.need == nil {
		return
	}
	for _, r := range op.need.Pieces {
		for p := r.First; p < r.Last; p++ {
			n := op.shelf.PieceBytes(p)
			s.Bytes += n
			if op.shelf.Complete(p) {
				s.Done += n
			} else {
				s.Missing++
			}
		}
	}
	for _, f := range op.shelf.Progress() {
		s.Files = append(s.Files, swarm.FileStatus{Name: f.Name, Layer: f.Layer, Bytes: f.Bytes, Done: min(f.Done, f.Bytes)})
	}
}
