package source

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// fake answers with what it has.
type fake struct {
	name   string
	v      int
	err    error
	asked  int
	closed bool
}

func (f *fake) Read(context.Context) (int, error) {
	f.asked++
	return f.v, f.err
}
func (f *fake) Name() string { return f.name }
func (f *fake) Close() error {
	f.closed = true
	return f.err
}

func TestFirstStaysWithTheOneThatAnswers(t *testing.T) {
	t.Parallel()
	a, b, c := &fake{name: "a", err: NotTold("no a")}, &fake{name: "b", v: 2}, &fake{name: "c", v: 3}
	s := First[int](a, b, c)
	if s.Name() != "" {
		t.Errorf("name %q before the first answer", s.Name())
	}
	read := func() (int, error) {
		t.Helper()
		return s.Read(t.Context())
	}
	for range 3 {
		if v, err := read(); v != 2 || err != nil || s.Name() != "b" {
			t.Errorf("%d from %q, %v", v, s.Name(), err)
		}
	}
	if a.asked != 1 || c.asked != 0 {
		t.Errorf("asked a %d times, c %d times", a.asked, c.asked)
	}
	b.err = errors.New("lost")
	if v, err := read(); v != 3 || err != nil || s.Name() != "c" {
		t.Errorf("%d from %q, %v", v, s.Name(), err)
	}
	c.err = NotTold("no c")
	if _, err := read(); err == nil || errors.Is(err, ErrNotTold) || s.Name() != "" {
		t.Errorf("one has failed: %v from %q", err, s.Name())
	}
	b.err = NotTold("no b")
	_, err := read()
	if !errors.Is(err, ErrNotTold) || !strings.HasSuffix(err.Error(), ": no a; no b; no c") {
		t.Errorf("none tells: %v", err)
	}
	a.err = nil
	if v, err := read(); v != 0 || err != nil || s.Name() != "a" {
		t.Errorf("%d from %q, %v", v, s.Name(), err)
	}
	if err := s.Close(); err == nil || !a.closed || !b.closed || !c.closed {
		t.Errorf("closed %v %v %v, %v", a.closed, b.closed, c.closed, err)
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	s := None[bool]("for a reason")
	if _, err := s.Read(t.Context()); !errors.Is(err, ErrNotTold) || !strings.Contains(err.Error(), "for a reason") || s.Name() != "" || s.Close() != nil {
		t.Error(err)
	}
}
