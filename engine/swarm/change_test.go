package swarm_test

import (
	"os"
	"path/filepath"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
	"neuron/internal/publish"
)

// A node that moves from layers 1-4 to 2-5 fetches layer 4 alone; what is not
// wanted stays until the disk limit asks for it, and a repaired file is fetched
// again.
func TestRangeMoves(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 6)
	node := swarmtest.Start(t)
	from, to := protocol.Range{First: 1, Last: 4}, protocol.Range{First: 2, Last: 5}
	m := n.wanted(t, from)
	node.Only(m)
	before := node.UntilState(swarm.StateComplete)

	m.Ranges = []protocol.Range{to}
	node.Only(m)
	after := node.UntilState(swarm.StateComplete)
	fetched := after.Received - before.Received
	layer := n.need(t, from).WireBytes / 3
	if fetched > layer+3*pieceLength || fetched < layer-3*pieceLength {
		t.Errorf("moving by one layer of about %d bytes fetched %d", layer, fetched)
	}

	// Back again: all bytes are still there.
	m.Ranges = []protocol.Range{from}
	node.Only(m)
	back := node.UntilState(swarm.StateComplete)
	if more := back.Received - after.Received; more > pieceLength {
		t.Errorf("going back fetched %d bytes", more)
	}

	// With a limit the layer that is not wanted goes.
	node.Want(func(w *swarm.Wanted) { w.Limits.DiskBytes = n.need(t, from).WireBytes + 2<<20 })
	m.Ranges = []protocol.Range{to}
	node.Only(m)
	node.UntilState(swarm.StateComplete)
	swarmtest.Until(t, "layer 1 is dropped", func() bool {
		_, err := os.Stat(filepath.Join(m.Dir, fileOfLayer(t, back, 1)))
		return os.IsNotExist(err)
	})

	m.Damaged = []swarm.Damaged{{File: fileOfLayer(t, back, 3), Number: 1}}
	spoil(t, filepath.Join(m.Dir, m.Damaged[0].File))
	whole := node.UntilState(swarm.StateComplete).Received
	node.Only(m)
	s := node.Until("repaired", func(s swarm.Status) bool {
		return len(s.Models) == 1 && s.Models[0].RepairNumber == 1 && s.Models[0].State == swarm.StateComplete
	}).Models[0]
	if got := s.Received - whole; got == 0 || got > 3*pieceLength {
		t.Errorf("repair of one byte fetched %d bytes", got)
	}
	node.Stop()
	s2 := swarmtest.Start(t)
	s2.Only(m)
	if again := s2.UntilState(swarm.StateComplete); again.Received != 0 {
		t.Errorf("a restart fetched %d bytes", again.Received)
	}
}

func fileOfLayer(t *testing.T, s swarm.ModelStatus, layer int) string {
	t.Helper()
	for _, f := range s.Files {
		if f.Layer == layer {
			return f.Name
		}
	}
	t.Fatalf("no file of layer %d in %+v", layer, s.Files)
	return ""
}

// spoil changes one byte in the middle of a file.
func spoil(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, st.Size()/2); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, st.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// A gateway wants no layer: it gets the publisher's header and no more.
func TestMetadataAlone(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 4)
	node := swarmtest.Start(t)
	node.Only(n.wanted(t))
	s := node.UntilState(swarm.StateComplete)
	if need := n.need(t); s.Received > need.WireBytes+pieceLength || need.WireBytes > 2*pieceLength {
		t.Errorf("%d bytes received for a header of %d", s.Received, need.Bytes)
	}
}

func TestModelsComeAndGo(t *testing.T) {
	t.Parallel()
	a, b := newNetwork(t, 2), newNetwork(t, 3)
	node := swarmtest.Start(t)
	ma, mb := a.wanted(t, protocol.Range{First: 0, Last: 2}), b.wanted(t, protocol.Range{First: 1, Last: 3})
	both := func(s swarm.Status) bool {
		return len(s.Models) == 2 && s.Models[0].State == swarm.StateComplete && s.Models[1].State == swarm.StateComplete
	}
	node.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{ma, mb} })
	node.Until("both models", both)
	pid := node.Host.Pid()
	node.Only(mb)
	node.Until("one model", func(s swarm.Status) bool { return len(s.Models) == 1 && s.Models[0].State == swarm.StateComplete })
	// The version says that the other folder is closed: it can be opened here.
	a.holds(t, ma.Dir, a.need(t, ma.Ranges...))
	node.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{mb, ma} })
	s := node.Until("both again", both)
	if s.Models[1].Received != 0 {
		t.Errorf("the model that came back fetched %d bytes", s.Models[1].Received)
	}
	if node.Host.Pid() != pid {
		t.Error("another process does it now")
	}
}

// What cannot work is said, per model, and the others go on.
func TestModelsThatCannotWork(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	other := swarmtest.Publish(t, 3, publish.Options{PieceLength: pieceLength})
	node := swarmtest.Start(t)
	good := n.wanted(t, protocol.Range{First: 0, Last: 2})
	foreign := other.Wanted(n.Folder(t)) // another model's folder
	node.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{foreign, good} })
	s := node.Until("good model", func(s swarm.Status) bool {
		return len(s.Models) == 2 && s.Models[1].State == swarm.StateComplete && s.Models[0].State == swarm.StateFailed
	})
	if e := s.Models[0].Error; e == nil || e.Code != protocol.CodeModelInvalid {
		t.Errorf("foreign folder: %+v", e)
	}

	empty := other.Wanted(t.TempDir())
	node.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{empty, good} })
	s = node.Until("empty folder", func(s swarm.Status) bool { return s.Models[0].State == swarm.StateBlocked })
	if e := s.Models[0].Error; e == nil || e.Code != protocol.CodeDataFolder {
		t.Errorf("empty folder: %+v", e)
	}

	far := other.Wanted(other.Folder(t))
	far.Ranges = []protocol.Range{{First: 2, Last: 9}}
	node.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{far, good} })
	s = node.Until("wrong range", func(s swarm.Status) bool { return s.Models[0].State == swarm.StateFailed })
	if e := s.Models[0].Error; e == nil || e.Code != protocol.CodeRangeInvalid {
		t.Errorf("wrong range: %+v", e)
	}
	far.Ranges = nil
	far.Adopted = []string{n.Path} // the wrong file
	node.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{far, good} })
	s = node.Until("wrong file", func(s swarm.Status) bool { return s.Models[0].State == swarm.StateFailed })
	if e := s.Models[0].Error; e == nil || e.Code != protocol.CodeModelInvalid {
		t.Errorf("wrong file: %+v", e)
	}
}

func TestPortInUseIsSaidAndTriedAgain(t *testing.T) {
	t.Parallel()
	first := swarmtest.Start(t)
	n := newNetwork(t, 2)
	first.Only(n.wanted(t))
	addr := first.Addr().String()
	second := swarmtest.StartAt(t, addr)
	second.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{n.wanted(t)} })
	s := second.Until("port in use", func(s swarm.Status) bool { return s.Error != nil })
	if s.Error.Code != protocol.CodePortInUse {
		t.Errorf("status %+v", s)
	}
	first.Stop()
	second.Until("listening", func(s swarm.Status) bool { return s.Addr == addr && s.Error == nil })
}

func TestPauseAndLimits(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 6)
	node := swarmtest.Start(t)
	m := n.wanted(t, protocol.Range{First: 0, Last: 6})
	const limit = 1 << 20
	node.Want(func(w *swarm.Wanted) { w.Limits.DownBytes, w.Models = limit, []swarm.Model{m} })
	// The first quarter second of burst is over when a megabyte is there.
	start := node.Until("a megabyte", func(s swarm.Status) bool { return s.Models[0].Received > 1<<20 })
	began := start.Time
	end := node.Until("three more", func(s swarm.Status) bool { return s.Models[0].Received > start.Models[0].Received+3<<20 })
	rate := float64(end.Models[0].Received-start.Models[0].Received) / end.Time.Sub(began).Seconds()
	t.Logf("download: %.0f bytes/s with a limit of %d", rate, limit)
	if rate > 1.2*limit || rate < 0.5*limit {
		t.Errorf("download: %.0f bytes/s with a limit of %d", rate, limit)
	}
	if r := end.Models[0].DownRate; r > limit*13/10 || r < limit/3 || end.Models[0].ETASeconds <= 0 {
		t.Errorf("status says %d bytes/s, %d seconds left", r, end.Models[0].ETASeconds)
	}

	node.Want(func(w *swarm.Wanted) { w.Paused = true })
	paused := node.UntilState(swarm.StatePaused)
	node.Until("no peers", func(s swarm.Status) bool { return s.Models[0].Peers == 0 })
	// What was under way arrives; then nothing does.
	settled := node.Host.Status().Models[0].Received
	quiet := node.Until("rate 0", func(s swarm.Status) bool { return s.Models[0].DownRate == 0 }).Models[0]
	if quiet.Received > settled+1<<20 || quiet.State != swarm.StatePaused {
		t.Errorf("paused at %d, then %d bytes: %+v", paused.Received, quiet.Received, quiet)
	}

	// The seeder's side of a limit.
	n.seeder.Want(func(w *swarm.Wanted) { w.Limits.UpBytes = limit })
	node.Want(func(w *swarm.Wanted) { w.Paused, w.Limits.DownBytes = false, 0 })
	start = node.Until("a megabyte more", func(s swarm.Status) bool { return s.Models[0].Received > quiet.Received+1<<20 })
	end = node.Until("three more", func(s swarm.Status) bool { return s.Models[0].Received > start.Models[0].Received+3<<20 })
	rate = float64(end.Models[0].Received-start.Models[0].Received) / end.Time.Sub(start.Time).Seconds()
	t.Logf("upload: %.0f bytes/s with a limit of %d", rate, limit)
	if rate > 1.2*limit || rate < 0.5*limit {
		t.Errorf("upload: %.0f bytes/s with a limit of %d", rate, limit)
	}
	n.seeder.Want(func(w *swarm.Wanted) { w.Limits.UpBytes = 0 })
	s := node.UntilState(swarm.StateComplete)
	if s.Received > n.Manifest.Size()+8*pieceLength {
		t.Errorf("%d bytes received for %d", s.Received, n.Manifest.Size())
	}
}
