package today

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &clock{at: time.Date(2026, 11, 30, 23, 59, 0, 0, time.Local)}
	b, err := Open(dir, c.now)
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, rate float64, tokens, bytes int64) {
		t.Helper()
		if b.Rate() != rate || b.Tokens() != tokens || b.Usage().Today(c.now()) != bytes {
			t.Errorf("%s: %g tokens/s, %d tokens, %d bytes; want %g, %d, %d", what, b.Rate(), b.Tokens(), b.Usage().Today(c.now()), rate, tokens, bytes)
		}
	}
	want("nothing", 0, 0, 0)
	for range 5 {
		b.Add(10, 100)
		c.pass(time.Second)
	}
	want("five seconds of ten", 5, 50, 500)
	b.Add(0, 7)
	c.pass(8 * time.Second)
	want("the first seconds are out", 1, 50, 507)
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	want("the next day", 0, 0, 0)
	b.Add(3, 4)
	want("the next day's", 0.3, 3, 4)
	c.pass(-2 * time.Hour)
	b.Add(1, 1)
	if b.Rate() != 0.1 {
		t.Errorf("after the clock was set back: %g tokens/s", b.Rate())
	}

	// Another start goes on with what was saved.
	c.pass(time.Hour - time.Second)
	if b, err = Open(dir, c.now); err != nil {
		t.Fatal(err)
	}
	c.pass(-2 * time.Minute)
	want("after a restart", 0, 50, 507)
}

func TestSaveWritesOnlyChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := Open(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, File)
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("nothing to save was saved: %v", err)
	}
	b.Add(1, 1)
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("what was saved was saved again: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parse(raw)
		if err == nil && (c.Bytes < 0 || c.Tokens < 0) {
			t.Errorf("%+v", c)
		}
	})
}

func TestDamagedFileIsANewDay(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", `{"day":"x","bytes":-5}`, `{"tokens":"many"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Open(dir, time.Now)
		if err == nil {
			t.Errorf("%q: nobody was told", content)
		}
		b.Add(2, 3)
		if b.Tokens() != 2 || b.Usage().Today(time.Now()) != 3 {
			t.Errorf("%q: %d tokens", content, b.Tokens())
		}
	}
}

// stage takes what it is sent.
type stage struct {
	seam.StageSession
	fail error
}

func (s *stage) Capability() protocol.Capability { return protocol.Capability{Layers: 8, Width: 16} }

func (s *stage) Open(context.Context, seam.StageOpen) (seam.StageSession, error) { return s, s.fail }

func (s *stage) Send(context.Context, *protocol.Frame) error { return s.fail }

func TestMeter(t *testing.T) {
	t.Parallel()
	b, err := Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	send := func(last int, kind protocol.Kind, fail error) {
		t.Helper()
		x := &stage{}
		s, err := b.Meter(x).Open(t.Context(), seam.StageOpen{Use: protocol.Range{Last: last}})
		if err != nil {
			t.Fatal(err)
		}
		x.fail = fail
		f := &protocol.Frame{Header: protocol.Header{Kind: kind, Rows: 3}, Payload: make([]byte, 30)}
		if err := s.Send(t.Context(), f); err != fail {
			t.Errorf("%v", err)
		}
	}
	send(4, protocol.KindPrefill, nil)
	in := int64(protocol.HeaderSize + 30)
	if b.Tokens() != 3 || b.Usage().Bytes != in+3*16*4 {
		t.Errorf("in the middle: %d tokens, %d bytes", b.Tokens(), b.Usage().Bytes)
	}
	send(8, protocol.KindDecode, nil)
	send(8, protocol.KindTruncate, nil)
	send(8, protocol.KindDecode, protocol.Errorf(protocol.CodeStageLost, "gone"))
	if b.Tokens() != 6 || b.Usage().Bytes != 2*in+3*16*4 {
		t.Errorf("on the tail: %d tokens, %d bytes", b.Tokens(), b.Usage().Bytes)
	}
	if _, err := b.Meter(&stage{fail: os.ErrClosed}).Open(t.Context(), seam.StageOpen{}); err == nil {
		t.Error("a refused session was opened")
	}
}
