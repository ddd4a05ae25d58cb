package swarm_test

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"neuron/engine/artifact/shelf"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
)

// Killed at twenty moments of a download, a node goes on with what it had: no
// piece that was committed is fetched or hashed again.
func TestKilledTwentyTimes(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 9)
	// At this rate a download takes about five seconds.
	const rate = 6 << 20
	n.seeder.Want(func(w *swarm.Wanted) { w.Limits.UpBytes = rate })
	m := n.wanted(t, protocol.Range{First: 0, Last: 9})
	need := n.need(t, m.Ranges...)
	kept := func() (bytes int64) {
		s, err := shelf.Open(m.Dir, n.Manifest, shelf.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if u := s.Unproven(); len(u) > 0 {
			t.Errorf("%d pieces have to be hashed after a kill", len(u))
		}
		for p := range n.Manifest.Torrent.Pieces {
			if s.Complete(p) {
				bytes += s.PieceBytes(p)
			}
		}
		return bytes
	}
	before := int64(0)
	const kills = 20
	for i := range kills {
		node := swarmtest.Start(t)
		node.Only(m)
		first := node.Until("the folder is open", func(s swarm.Status) bool { return len(s.Models) == 1 && s.Models[0].State != swarm.StateStarting })
		if first.Models[0].Done < before {
			t.Fatalf("life %d: %d bytes of %d were lost", i, before-first.Models[0].Done, before)
		}
		goal := before + (need.WireBytes-before)/int64(kills-i+2)
		node.Until("some progress", func(s swarm.Status) bool { return len(s.Models) == 1 && s.Models[0].Done >= goal })
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // the random moment that the test is about
		p, err := os.FindProcess(node.Host.Pid())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		node.Stop()
		now := kept()
		if now < before || now < goal {
			t.Errorf("life %d: %d bytes are kept, %d were there before and %d had been reported", i, now, before, goal)
		}
		before = now
	}
	node := swarmtest.Start(t)
	node.Only(m)
	s := node.UntilState(swarm.StateComplete)
	if s.Received-s.Wasted != need.WireBytes-before {
		t.Errorf("the last life fetched %d bytes (%d wasted) where %d were missing", s.Received, s.Wasted, need.WireBytes-before)
	}
	sent := n.seeder.Host.Status().Models[0].Sent
	lost := sent - need.WireBytes
	t.Logf("%d bytes sent for %d: %d a kill", sent, need.WireBytes, lost/kills)
	// In flight are at most the requests of one connection (250 chunks), and
	// what the sockets hold.
	if most := int64(kills) * (250*16384 + 4<<20); lost > most {
		t.Errorf("%d bytes were fetched twice, at most %d may be", lost, most)
	}
	node.Stop()
	n.holds(t, m.Dir, need)
}
