package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

func ids(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i * 7 % 100)
	}
	return out
}

func header(blocks int) *Header {
	return &Header{
		Model: protocol.ModelID(strings.Repeat("ab", 32)), Layers: 8, Loaded: protocol.Range{First: 2, Last: 6}, Exit: 5,
		Build: protocol.Build{Protocol: 1, Llama: "v0.4.0"}, KVType: "f16", Scope: protocol.Hash{1, 2, 3},
		Keys: prefix.Of([]byte("secret"), ids(blocks*prefix.Block)), Written: time.UnixMilli(1_800_000_000_123).UTC(),
	}
}

// whole is a file in memory.
func whole(t testing.TB, h *Header, blob []byte) []byte {
	t.Helper()
	b, err := h.encode(len(blob))
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, blob...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func TestParseGivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{1, 33, prefix.MaxKeys} {
		h := header(blocks)
		h.Private = blocks == 33
		blob := bytes.Repeat([]byte("state"), 1000)
		got, b, err := Parse(whole(t, h, blob))
		if err != nil || !bytes.Equal(b, blob) {
			t.Fatalf("%d blocks: %v, %d bytes", blocks, err, len(b))
		}
		if diff := cmp.Diff(h, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestEveryByteIsCovered: a change of any byte, and any other length, is damage.
func TestEveryByteIsCovered(t *testing.T) {
	t.Parallel()
	good := whole(t, header(2), []byte("0123456789"))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if _, _, err := Parse(bad); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d of %d is not covered: %v", i, len(good), err)
		}
	}
	for _, n := range []int{0, 3, fixedSize, len(good) - 1} {
		if _, _, err := Parse(good[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	if _, _, err := Parse(append(bytes.Clone(good), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole(f, header(1), []byte("blob")))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, blob, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		// There is one form of each file.
		if again := whole(t, h, blob); !bytes.Equal(again, b) {
			t.Fatalf("%d bytes were read, %d are written", len(b), len(again))
		}
	})
}

// FuzzHeader reads headers without the sum, which a file's author can make.
func FuzzHeader(f *testing.F) {
	b, err := header(3).encode(10)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b[:fixedSize:fixedSize], bytes.Repeat([]byte{255}, 40)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, blob, err := parseHeader(b)
		if err != nil {
			return
		}
		again, err := h.encode(int(blob))
		if err != nil || !bytes.Equal(again, b[:size]) {
			t.Fatalf("%+v: %v", h, err)
		}
	})
}

const mib = 1 << 20

// shelf opens one in dir.
func shelf(t *testing.T, dir string, limit int64) *Shelf {
	t.Helper()
	s, err := Open(Options{
		Dir: dir, Limit: limit, Stage: *header(1), Free: func() (int64, error) { return 100 << 30, nil }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func never() bool { return false }

func TestShelfFindsAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := shelf(t, dir, 10*mib)
	h, blob := header(8), bytes.Repeat([]byte{7}, mib+17)
	if err := s.Save(h, blob, never); err != nil {
		t.Fatal(err)
	}
	// It takes the place of what it holds, not of others.
	short, private := header(3), header(5)
	private.Scope[0]++
	for _, o := range []*Header{short, private} {
		if err := s.Save(o, []byte("x"), never); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Save(h, blob, never); err != nil {
		t.Fatal(err)
	}
	if c := s.Counts(); c.Files != 2 || c.Written != 4 {
		t.Errorf("%+v", c)
	}
	s = shelf(t, dir, 10*mib)
	long := prefix.Of([]byte("secret"), ids(20*prefix.Block))
	f := s.Find(h.Scope, h.Exit, long)
	if f.Blocks != 8 || f.Size < int64(len(blob)) {
		t.Fatalf("found %+v", f)
	}
	if f := s.Find(h.Scope, h.Exit+1, long); f.Blocks != 0 {
		t.Error("found for another exit")
	}
	if f := s.Find(protocol.Hash{9}, h.Exit, long); f.Blocks != 0 {
		t.Error("found for another scope")
	}
	got, b, err := s.Load(f.Name)
	if err != nil || !bytes.Equal(b, blob) || !cmp.Equal(got, h) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestShelfOfOtherStages: files for another model, range, build or type are not
// found, stay, and count.
func TestShelfOfOtherStages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Header){
		"model": func(h *Header) { h.Model = protocol.ModelID(strings.Repeat("cd", 32)) },
		"range": func(h *Header) { h.Loaded.First = 1 },
		"build": func(h *Header) { h.Build.Llama = "v0.5.0" },
		"type":  func(h *Header) { h.KVType = "q8_0" },
	} {
		dir := t.TempDir()
		h := header(4)
		change(h)
		if err := os.WriteFile(filepath.Join(dir, "a"+suffix), whole(t, h, []byte("blob")), 0o600); err != nil {
			t.Fatal(err)
		}
		s := shelf(t, dir, mib)
		if f := s.Find(h.Scope, h.Exit, h.Keys); f.Blocks != 0 {
			t.Errorf("%s: found", name)
		}
		if _, _, err := s.Load("a" + suffix); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: given out: %v", name, err)
		}
	}
}

// TestDamagedFilesAreRemoved: found at opening or at loading, and counted.
func TestDamagedFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := whole(t, header(4), bytes.Repeat([]byte{3}, 1000))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-100]++ // only the sum can tell
	for name, b := range map[string][]byte{"cut": good[:500], "empty": nil, "noise": bytes.Repeat([]byte{9}, 900), "flipped": flipped} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, tempMark+"123"), good, 0o600); err != nil {
		t.Fatal(err)
	}
	s := shelf(t, dir, mib)
	if c := s.Counts(); c.Damaged != 3 || c.Files != 1 {
		t.Errorf("after opening: %+v", c)
	}
	f := s.Find(header(4).Scope, 5, header(4).Keys)
	if _, _, err := s.Load(f.Name); !errors.Is(err, ErrDamaged) {
		t.Errorf("%+v was given out: %v", f, err)
	}
	left, err := os.ReadDir(dir)
	if c := s.Counts(); err != nil || len(left) != 0 || c.Damaged != 4 || c.Files != 0 || c.Restored != 0 {
		t.Errorf("%d files, %+v, %v", len(left), c, err)
	}
}

func TestShelfIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := shelf(t, dir, 4*mib)
	if err := s.Save(header(4), make([]byte, 3*mib), never); err == nil {
		t.Error("a file of most of the shelf is taken")
	}
	for i := range 6 {
		h := header(4)
		h.Scope[5] = byte(i)
		if err := s.Save(h, make([]byte, mib), never); err != nil {
			t.Fatal(err)
		}
		if c := s.Counts(); c.Bytes > 4*mib {
			t.Errorf("%d bytes on a shelf of %d", c.Bytes, 4*mib)
		}
	}
	if c := s.Counts(); c.Files != 3 {
		t.Errorf("%+v", c)
	}
	s.Sweep(time.Now().Add(MaxAge + time.Minute))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 || s.Counts().Files != 0 {
		t.Errorf("%d old files stay, %v", len(left), err)
	}
	s.free = func() (int64, error) { return spare, nil }
	if err := s.Save(header(4), make([]byte, mib), never); err == nil {
		t.Error("the last of the disk is used")
	}
}

// TestBusyStageGivesUp: a write ends between two steps and leaves nothing.
func TestBusyStageGivesUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := shelf(t, dir, 100*mib)
	looks := 0
	err := s.Save(header(4), make([]byte, 5*mib), func() bool { looks++; return looks == 3 })
	if left, rerr := os.ReadDir(dir); !errors.Is(err, ErrBusy) || rerr != nil || len(left) != 0 || looks != 3 {
		t.Errorf("%v after %d looks, %d files, %v", err, looks, len(left), rerr)
	}
}
