package swarm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
)

// A disk that fills up pauses the download; it goes on when there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a small file system needs root")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: tmpfs cannot be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n := newNetwork(t, 6)
	ballast := filepath.Join(dir, "ballast")
	shards := filepath.Join(dir, "shards")
	if err := os.Mkdir(shards, 0o700); err != nil {
		t.Fatal(err)
	}
	node := swarmtest.Start(t)
	m := n.Wanted(n.FolderIn(t, shards))
	m.Announce, m.Ranges = []string{n.tracker.URL}, []protocol.Range{{First: 0, Last: 6}}
	node.Want(func(w *swarm.Wanted) { w.Limits.DownBytes, w.Models = 4<<20, []swarm.Model{m} })
	node.Until("some bytes", func(s swarm.Status) bool { return s.Models[0].Received > 2<<20 })
	fillUp(t, ballast)
	s := node.UntilState(swarm.StateBlocked)
	if s.Error == nil || s.Error.Code != protocol.CodeDiskFull {
		t.Fatalf("full disk: %+v", s)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	node.Want(func(w *swarm.Wanted) { w.Limits.DownBytes = 0 })
	s = node.UntilState(swarm.StateComplete)
	if s.Received > n.Manifest.Size()+(40<<20) {
		t.Errorf("%d bytes received for %d", s.Received, n.Manifest.Size())
	}
	node.Stop()
	n.holds(t, shards, n.need(t, m.Ranges...))
}

// fillUp writes a file until the disk is full.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 64<<10)
	for began := time.Now(); time.Since(began) < 30*time.Second; {
		if _, err := f.Write(b); err != nil {
			return
		}
	}
	t.Fatal("the disk does not fill up")
}
