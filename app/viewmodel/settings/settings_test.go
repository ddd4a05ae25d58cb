package settings

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// table is an engine's settings.
type table struct {
	mu       sync.Mutex
	settings policy.Settings // guarded by mu
	others   int             // guarded by mu; how many changes of others come in between
	err      error           // guarded by mu
}

func (e *table) Settings(context.Context) (policy.Settings, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings.Clone(), e.err
}

func (e *table) SetSettings(_ context.Context, s policy.Settings) (policy.Settings, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return policy.Settings{}, e.err
	}
	if e.others > 0 {
		e.others--
		e.settings.Revision++
		e.settings.Limits.Sessions = 7
	}
	if s.Revision != e.settings.Revision {
		return policy.Settings{}, protocol.Errorf(protocol.CodeConflict, "changed meanwhile")
	}
	s.Revision++
	e.settings = s.Clone()
	return s, nil
}

func (e *table) Hardware(context.Context) (*localapi.Hardware, error) {
	return &localapi.Hardware{Threads: 4}, nil
}

func (e *table) now() policy.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings.Clone()
}

// with runs f with a model that has loaded.
func with(t *testing.T, f func(e *table, m *Model)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &table{settings: policy.Defaults()}
		m := New(func() Engine { return e })
		defer m.Close()
		m.Load()
		synctest.Wait()
		if v := m.View(); v.Stage != Ready || v.Hardware == nil {
			t.Fatalf("%+v", v)
		}
		f(e, m)
	})
}

func TestChangeAndUndo(t *testing.T) {
	t.Parallel()
	with(t, func(e *table, m *Model) {
		m.Change("Share", func(s *policy.Settings) { s.Share = true })
		synctest.Wait()
		if v := m.View(); !e.now().Share || v.Saved != "Share" || !v.Undo || v.Busy {
			t.Errorf("%+v", v)
		}
		m.Change("Apps", func(s *policy.Settings) { s.Rules.Apps = []string{"game"} })
		m.Undo()
		synctest.Wait()
		if s := e.now(); !s.Share || len(s.Rules.Apps) != 0 || s.Revision != 3 || m.View().Undo {
			t.Errorf("%+v", s)
		}
		m.Undo() // there is nothing more to take back
		synctest.Wait()
		if e.now().Revision != 4 || !e.now().Share {
			t.Errorf("%+v", e.now())
		}
	})
}

// A pause is no setting that undo brings back or takes away.
func TestUndoLeavesThePauseAlone(t *testing.T) {
	t.Parallel()
	with(t, func(e *table, m *Model) {
		m.Change("Share", func(s *policy.Settings) { s.Share = true })
		synctest.Wait()
		e.mu.Lock()
		e.settings.Pause, e.settings.Revision = policy.Pause{UntilResumed: true}, e.settings.Revision+1
		e.mu.Unlock()
		m.Undo()
		synctest.Wait()
		if s := e.now(); s.Share || !s.Pause.UntilResumed {
			t.Errorf("%+v", s)
		}
	})
}

func TestAConflictIsMadeOnTheNewSettings(t *testing.T) {
	t.Parallel()
	with(t, func(e *table, m *Model) {
		e.mu.Lock()
		e.others = 1
		e.mu.Unlock()
		m.Change("Share", func(s *policy.Settings) { s.Share = true })
		synctest.Wait()
		if s, v := e.now(), m.View(); !s.Share || s.Limits.Sessions != 7 || !v.Reloaded || v.Problem != nil {
			t.Errorf("%+v, %+v", s, v)
		}
		e.mu.Lock()
		e.others = 5 // somebody writes all the time
		e.mu.Unlock()
		m.Change("Share", func(s *policy.Settings) { s.Share = false })
		synctest.Wait()
		if v := m.View(); v.Problem == nil || v.Problem.Code != protocol.CodeConflict || !e.now().Share {
			t.Errorf("%+v", v)
		}
	})
}

func TestAWrongValueIsNotSent(t *testing.T) {
	t.Parallel()
	with(t, func(e *table, m *Model) {
		m.Change("Minutes", func(s *policy.Settings) { s.Rules.IdleMinutes = 500 })
		synctest.Wait()
		v := m.View()
		if v.Problem == nil || v.Problem.Param != "rules.idle_minutes" || e.now().Revision != 0 || v.Settings.Rules.IdleMinutes != 3 {
			t.Errorf("%+v", v)
		}
		m.Change("Minutes", func(s *policy.Settings) { s.Rules.IdleMinutes = 5 })
		synctest.Wait()
		if v := m.View(); v.Problem != nil || v.Settings.Rules.IdleMinutes != 5 {
			t.Errorf("%+v", v)
		}
	})
}

func TestWithoutAnEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e *table
		m := New(func() Engine {
			if e == nil {
				return nil
			}
			return e
		})
		defer m.Close()
		m.Load()
		m.Change("Share", func(s *policy.Settings) { s.Share = true })
		synctest.Wait()
		if v := m.View(); v.Stage != Absent || v.Problem == nil || v.Problem.Code != protocol.CodeUnavailable {
			t.Errorf("%+v", v)
		}
	})
}

func TestAnErrorIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &table{settings: policy.Defaults(), err: protocol.Errorf(protocol.CodeDataFolder, "the disk is gone")}
		m := New(func() Engine { return e })
		defer m.Close()
		m.Load()
		synctest.Wait()
		if v := m.View(); v.Stage != Failed || !errors.Is(v.Err, &protocol.Error{Code: protocol.CodeDataFolder}) {
			t.Errorf("%+v", v)
		}
	})
}

// What View gives is the caller's own.
func TestViewsShareNothing(t *testing.T) {
	t.Parallel()
	with(t, func(_ *table, m *Model) {
		m.Change("Apps", func(s *policy.Settings) { s.Rules.Apps = []string{"a", "b"} })
		synctest.Wait()
		m.View().Settings.Rules.Apps[0] = "broken"
		if got := m.View().Settings.Rules.Apps; !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%q", got)
		}
	})
}
