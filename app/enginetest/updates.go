package enginetest

import (
	"context"

	"neuron/engine/localapi"
)

// updates are the newer versions of an Engine: State.Update, which orders move
// on as a real engine does, without a network.
type updates struct{ e *Engine }

var _ localapi.Updates = updates{}

// Update implements localapi.Updates, as all methods here.
func (u updates) Update() localapi.Update {
	return Look(u.e, func(s *State) localapi.Update { return s.Update })
}

func (u updates) order(name string, f func(*localapi.Update)) (*localapi.Update, error) {
	if err := u.e.note(name); err != nil {
		return nil, err
	}
	return answer(u.e, func(s *State) localapi.Update {
		f(&s.Update)
		return s.Update
	})
}

// CheckUpdate finds nothing but what a test has put there.
func (u updates) CheckUpdate(context.Context) (*localapi.Update, error) {
	return u.order("CheckUpdate", func(*localapi.Update) {})
}

// DownloadUpdate begins; a test moves it on.
func (u updates) DownloadUpdate(context.Context) (*localapi.Update, error) {
	return u.order("DownloadUpdate", func(x *localapi.Update) { x.State = localapi.UpdateDownloading })
}

// DismissUpdate hides the release.
func (u updates) DismissUpdate(_ context.Context, version string) (*localapi.Update, error) {
	return u.order("DismissUpdate", func(x *localapi.Update) {
		if x.Release != nil {
			r := *x.Release
			r.Dismissed = r.Version == version
			x.Release = &r
		}
	})
}

// InstallUpdate runs nothing.
func (u updates) InstallUpdate(context.Context) (*localapi.Installing, error) {
	if err := u.e.note("InstallUpdate"); err != nil {
		return nil, err
	}
	return answer(u.e, func(s *State) localapi.Installing {
		return localapi.Installing{Version: s.Update.Release.Version, File: s.Update.Release.File, Silent: true}
	})
}
