package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// onShelf gives the player a folder of snapshots and forgets what is in memory,
// like a new process.
func (p *player) onShelf(dir string) {
	p.st.closeShelf()
	p.st.dropPools(func(*pool) bool { return true })
	p.st.disk = disk{}
	p.st.cfg.Model, p.st.cfg.KVType = protocol.ModelID(strings.Repeat("ab", 32)), "f16"
	p.st.cfg.Prefixes.Dir, p.st.cfg.Prefixes.DiskBytes = dir, 1<<30
	p.st.pace.long = 1e5 // a row takes a tenth of a second: every file pays
	p.st.openShelf()
	p.st.publish()
}

// back waits for what is written or read beside the owner.
func (p *player) back() {
	p.t.Helper()
	select {
	case then := <-p.st.back:
		then()
	case <-time.After(10 * time.Second):
		p.t.Fatal("nothing comes back from beside the owner")
	}
}

// quiet lets the owner save what it wants to after some time without work.
func (p *player) quiet() {
	p.t.Helper()
	now := time.Now().Add(saveAfter)
	for range 20 {
		next := p.st.save(now)
		if !p.st.saving {
			if next.IsZero() || next.After(now) {
				p.st.publish()
				return
			}
			continue
		}
		p.back()
	}
	p.t.Fatal("the owner saves without end")
}

func (p *player) counts() wire.Snapshots {
	p.st.publish()
	return p.st.w.getStats().Snapshots
}

// TestSnapshotOutlivesTheProcess: written when the stage is quiet, found by the
// next process, and good for the same rows.
func TestSnapshotOutlivesTheProcess(t *testing.T) {
	p := newPlayer(t)
	dir := filepath.Join(t.TempDir(), "prefixes")
	p.onShelf(dir)
	prompt := text(1, 330)
	_, want := p.whole(prompt, 512)
	if next := p.st.save(time.Now()); p.st.saving || !next.After(time.Now()) {
		t.Fatalf("saving at once, or not at all: next at %v", next)
	}
	p.quiet()
	p.quiet() // once is enough
	if c := p.counts(); c.Written != 1 || c.Files != 1 || c.Bytes < 320*p.st.cfg.KVBytesPerCell {
		t.Fatalf("%+v", c)
	}
	p.onShelf(dir)
	if got := p.st.w.getStats().Prefixes; len(got) == 0 {
		t.Error("the tracker is not told of what lies on the disk")
	}
	kept, rows := p.whole(prompt, 1024)
	if kept != 320 || !slices.Equal(rows, p.rowsFrom(want, 320)) {
		t.Errorf("%d positions were restored, or other rows came behind them", kept)
	}
	if c := p.counts(); c.Restored != 1 || c.Damaged != 0 {
		t.Errorf("%+v", c)
	}
	// In memory again, and on the disk: neither is read or written once more.
	if kept, _ := p.whole(prompt, 1024); kept != 320 {
		t.Errorf("%d positions", kept)
	}
	p.quiet()
	if c := p.counts(); c.Restored != 1 || c.Written != 0 {
		t.Errorf("%+v", c)
	}
}

// TestDamagedSnapshotIsNoError: the session begins at its start.
func TestDamagedSnapshotIsNoError(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	p.onShelf(dir)
	prompt := text(1, 330)
	p.whole(prompt, 512)
	p.quiet()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	path := filepath.Join(dir, list[0].Name())
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p.onShelf(dir)
	if kept, _ := p.whole(prompt, 512); kept != 0 {
		t.Errorf("%d positions of a damaged file", kept)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the damaged file is still there: %v", err)
	}
	if c := p.counts(); c.Damaged != 1 || c.Restored != 0 {
		t.Errorf("%+v", c)
	}
}

// TestWhatGoesToTheDisk: nothing of private sessions unless the node says so,
// nothing short, nothing that is sooner computed, and nothing while a session is
// here.
func TestWhatGoesToTheDisk(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	p.onShelf(dir)
	private := func(n int, on bool, row float64) {
		slot, _ := p.open(text(n, 330), 512, func(o *wire.Open) { o.Private = on })
		p.run(slot, text(n, 330), 0)
		p.close(slot)
		p.st.pace.long = row // what a row costs is learned from each
		p.quiet()
	}
	p.whole(text(1, 200), 512)
	p.quiet()
	private(2, true, 1e5)
	private(3, false, 0.001)
	if c := p.counts(); c.Written != 0 {
		t.Errorf("%+v", c)
	}
	p.st.cfg.Prefixes.Private = true
	private(2, true, 1e5)
	if c := p.counts(); c.Written != 1 {
		t.Errorf("a private session's with leave: %+v", c)
	}

	prompt := text(4, 330)
	p.whole(prompt, 512)
	slot, _ := p.open(text(5, 10), 256, nil)
	if p.st.save(time.Now().Add(time.Hour)); p.st.saving {
		t.Error("saving while a session is here")
	}
	p.close(slot)
	// A session that opens ends the writing.
	p.st.save(time.Now().Add(time.Hour))
	if !p.st.saving {
		t.Fatal("not saving")
	}
	slot, _ = p.open(text(5, 10), 256, nil)
	p.back()
	p.close(slot)
	p.quiet()
	if c := p.counts(); c.Written != 2 {
		t.Errorf("given up or not, it is written in the end: %+v", c)
	}
}

// TestSessionClosedWhileItsFileIsRead: it is not opened any more.
func TestSessionClosedWhileItsFileIsRead(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	p.onShelf(dir)
	prompt := text(1, 330)
	p.whole(prompt, 512)
	p.quiet()
	p.onShelf(dir)
	p.slot++
	scope := make([]byte, 32)
	scope[0] = 1
	f := jsonFrame(t, protocol.KindOpen, wire.Open{Session: protocol.NewSessionID(), Exit: 4, Context: 512, Scope: scope, Keys: prefix.Of([]byte("s"), prompt)})
	f.Slot = p.slot
	p.st.open(f)
	p.close(p.slot)
	p.back()
	if out := p.st.drainOut(); len(out) != 0 || len(p.st.sessions) != 0 {
		t.Errorf("%d frames, %d sessions", len(out), len(p.st.sessions))
	}
}
