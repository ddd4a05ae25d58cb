package swarm_test

import (
	"bytes"
	"log/slog"
	"os"
	"testing"

	"neuron/engine/artifact/shelf"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
	"neuron/internal/publish"
)

// network is a published model, its tracker and a seeder that adopted the file.
type network struct {
	*swarmtest.Model
	tracker *swarmtest.Tracker
	seeder  *swarmtest.Node
}

const pieceLength = 256 << 10

func newNetwork(t *testing.T, layers int) *network {
	t.Helper()
	n := &network{tracker: swarmtest.StartTracker(t)}
	n.Model = swarmtest.Publish(t, layers, publish.Options{PieceLength: pieceLength, Private: true})
	n.seeder = swarmtest.Start(t)
	m := n.wanted(t)
	m.Adopted = []string{n.Path}
	n.seeder.Only(m)
	n.seeder.UntilState(swarm.StateComplete)
	return n
}

// wanted is the model with some layers in a folder of its own.
func (n *network) wanted(t *testing.T, ranges ...protocol.Range) swarm.Model {
	t.Helper()
	m := n.Wanted(n.Folder(t))
	m.Ranges, m.Announce = ranges, []string{n.tracker.URL}
	return m
}

func (n *network) need(t *testing.T, ranges ...protocol.Range) *manifest.Need {
	t.Helper()
	need, err := n.Manifest.NeedAll(ranges...)
	if err != nil {
		t.Fatal(err)
	}
	return need
}

// holds checks that a folder has the needed pieces with the publisher's bytes,
// and no piece more. The folder must not be in use.
func (n *network) holds(t *testing.T, dir string, need *manifest.Need) {
	t.Helper()
	file, err := os.ReadFile(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := shelf.Open(dir, n.Manifest, shelf.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wanted := map[int]bool{}
	for _, r := range need.Pieces {
		for p := r.First; p < r.Last; p++ {
			wanted[p] = true
		}
	}
	for p := range n.Manifest.Torrent.Pieces {
		if s.Complete(p) != wanted[p] {
			t.Errorf("piece %d: complete %t, wanted %t", p, s.Complete(p), wanted[p])
			continue
		}
		if !wanted[p] {
			continue
		}
		b := make([]byte, s.PieceBytes(p))
		if _, err := s.ReadAt(p, b, 0); err != nil {
			t.Errorf("piece %d: %v", p, err)
		} else if from := p * pieceLength; !bytes.Equal(b, file[from:from+len(b)]) {
			t.Errorf("piece %d differs from the publisher's", p)
		}
	}
	used, err := s.Used()
	if err != nil {
		t.Fatal(err)
	}
	// Headers and state come on top of the pieces.
	if most := need.WireBytes + int64(len(s.Progress())+4)*(128<<10) + int64(len(n.Signed)+len(n.Torrent)); used > most {
		t.Errorf("the folder takes %d bytes for %d bytes of pieces", used, need.WireBytes)
	}
}

// Three nodes fetch a range each from the only seeder; then it dies, and a
// fourth gets the whole model from them.
func TestThreeRangesAndAFourthNodeWithoutTheSeeder(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 9)
	ranges := []protocol.Range{{First: 0, Last: 3}, {First: 3, Last: 6}, {First: 6, Last: 9}}
	var nodes []*swarmtest.Node
	var wanted []swarm.Model
	for _, r := range ranges {
		node := swarmtest.Start(t)
		m := n.wanted(t, r)
		node.Only(m)
		nodes, wanted = append(nodes, node), append(wanted, m)
	}
	for i, node := range nodes {
		s := node.UntilState(swarm.StateComplete)
		need := n.need(t, ranges[i])
		t.Logf("layers %s: %d bytes received, extents %d, with boundary pieces %d, wasted %d", ranges[i], s.Received, need.Bytes, need.WireBytes, s.Wasted)
		if float64(s.Received) > 1.1*float64(need.WireBytes) || s.Received < need.WireBytes {
			t.Errorf("layers %s: %d bytes received for %d", ranges[i], s.Received, need.WireBytes)
		}
		if s.Bytes != need.WireBytes || s.Done != s.Bytes || s.Missing != 0 || s.Error != nil || len(s.Files) == 0 {
			t.Errorf("layers %s: %+v", ranges[i], s)
		}
	}
	n.seeder.Stop()
	fourth := swarmtest.Start(t)
	whole := protocol.Range{First: 0, Last: 9}
	m := n.wanted(t, whole)
	fourth.Only(m)
	s := fourth.UntilState(swarm.StateComplete)
	if s.Wasted > s.Received/10 {
		t.Errorf("fourth node: %d of %d bytes wasted", s.Wasted, s.Received)
	}
	for i, node := range nodes {
		node.Stop()
		n.holds(t, wanted[i].Dir, n.need(t, ranges[i]))
	}
	fourth.Stop()
	n.holds(t, m.Dir, n.need(t, whole))
}
