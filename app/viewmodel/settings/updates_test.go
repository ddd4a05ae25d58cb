package settings

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// releases are an engine's newer versions.
type releases struct {
	mu    sync.Mutex
	now   localapi.Update // guarded by mu
	err   error           // guarded by mu
	asked int             // guarded by mu
}

func (e *releases) answer(change func(*localapi.Update)) (*localapi.Update, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return nil, e.err
	}
	if change == nil {
		e.asked++
	} else {
		change(&e.now)
	}
	u := e.now
	return &u, nil
}

func (e *releases) Update(context.Context) (*localapi.Update, error) { return e.answer(nil) }

func (e *releases) CheckUpdate(context.Context) (*localapi.Update, error) {
	return e.answer(func(u *localapi.Update) {
		u.State, u.Release = localapi.UpdateAvailable, &localapi.Release{Version: "2.0.0", Name: "neuron.deb"}
	})
}

func (e *releases) DownloadUpdate(context.Context) (*localapi.Update, error) {
	return e.answer(func(u *localapi.Update) { u.State = localapi.UpdateReady })
}

func (e *releases) DismissUpdate(_ context.Context, v string) (*localapi.Update, error) {
	return e.answer(func(u *localapi.Update) { u.Release = &localapi.Release{Version: v, Dismissed: true} })
}

func (e *releases) InstallUpdate(context.Context) (*localapi.Installing, error) {
	if _, err := e.answer(func(*localapi.Update) {}); err != nil {
		return nil, err
	}
	return &localapi.Installing{Version: "2.0.0", Silent: true}, nil
}

func TestUpdatesAreFollowedWhileShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &releases{now: localapi.Update{State: localapi.UpdateUnknown}}
		m := NewUpdates(func() UpdatesEngine { return e })
		defer m.Close()
		time.Sleep(time.Minute)
		if e.asked != 0 {
			t.Error("it looks before it is shown")
		}
		m.Follow()
		m.Follow()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if v := m.View(); v.Update == nil || v.Update.State != localapi.UpdateUnknown || e.asked != 11 {
			t.Errorf("%+v, asked %d times", v, e.asked)
		}
		m.Rest()
		time.Sleep(time.Minute)
		synctest.Wait()
		if e.asked > 12 {
			t.Errorf("it looks while it is not shown: %d", e.asked)
		}
	})
}

func TestOrdersForUpdates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &releases{}
		m := NewUpdates(func() UpdatesEngine { return e })
		defer m.Close()
		m.Check()
		synctest.Wait()
		if v := m.View(); v.Busy || v.Update.State != localapi.UpdateAvailable || v.Update.Release.Version != "2.0.0" {
			t.Errorf("%+v", v)
		}
		m.Download()
		synctest.Wait()
		m.Install()
		synctest.Wait()
		if v := m.View(); v.Update.State != localapi.UpdateReady || v.Installing == nil || !v.Installing.Silent || v.Err != nil {
			t.Errorf("%+v", v)
		}
		m.Dismiss("2.0.0")
		synctest.Wait()
		if v := m.View(); !v.Update.Release.Dismissed {
			t.Errorf("%+v", v)
		}
		e.err = protocol.Errorf(protocol.CodeUpdateInvalid, "replayed")
		m.Check()
		synctest.Wait()
		if v := m.View(); v.Err == nil || v.Err.Code != protocol.CodeUpdateInvalid || v.Update == nil {
			t.Errorf("%+v", v)
		}
	})
}

func TestUpdatesWithoutAnEngine(t *testing.T) {
	t.Parallel()
	m := NewUpdates(func() UpdatesEngine { return nil })
	defer m.Close()
	m.Check()
	for m.View().Busy {
		<-m.Changed()
	}
	if v := m.View(); v.Err == nil || v.Err.Code != protocol.CodeUnavailable {
		t.Errorf("%+v", v)
	}
}
