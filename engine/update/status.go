package update

import (
	"context"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/update/feed"
)

// Update implements localapi.Updates, as the methods below.
func (k *Keeper) Update() localapi.Update {
	s, _ := k.settings()
	u := localapi.Update{Version: k.o.Version, Kind: string(k.o.Kind), Feed: s.Feed, Channel: s.Channel, Auto: s.Check}
	if m := k.missing(s); m != nil {
		u.State, u.Reason = localapi.UpdateUnsupported, m.Message
		return u
	}
	u.Next = k.next(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	u.Checked, u.Error = k.memory.Checked, k.err
	r := k.found
	switch {
	case r != nil && feed.Newer(r.feed.Version, k.o.Version):
		u.Release, u.State = k.releaseLocked(), localapi.UpdateAvailable
		switch {
		case k.fetching:
			u.State, u.Done = localapi.UpdateDownloading, k.done
		case k.ready:
			u.State, u.Done = localapi.UpdateReady, k.done
		default:
			u.Done = k.done
		}
	case !u.Checked.IsZero():
		u.State = localapi.UpdateCurrent
	case !s.Check:
		u.State = localapi.UpdateOff
	default:
		u.State = localapi.UpdateUnknown
	}
	return u
}

func (k *Keeper) releaseLocked() *localapi.Release {
	r := k.found
	out := &localapi.Release{Version: r.feed.Version, Date: r.feed.Date, Page: r.feed.Page, Notes: r.feed.Notes, Dismissed: k.memory.Dismissed == r.feed.Version}
	if r.pack != nil {
		out.Name, out.Bytes = r.pack.Name, r.pack.Size
		if k.ready {
			out.File = k.file(r.pack)
		}
	}
	return out
}

// Health is what the user should know of it.
func (k *Keeper) Health() []localapi.HealthEntry {
	u := k.Update()
	var out []localapi.HealthEntry
	k.mu.Lock()
	refused := k.refused
	k.mu.Unlock()
	if refused && u.Error != nil {
		out = append(out, localapi.HealthOf(localapi.SeverityInfo, u.Error))
	}
	if r := u.Release; r != nil && !r.Dismissed {
		text := "Neuron " + r.Version + " is there; this is " + k.o.Version
		if u.State == localapi.UpdateReady {
			text = "Neuron " + r.Version + " is fetched and checked, and can be installed"
		}
		out = append(out, localapi.HealthOf(localapi.SeverityInfo, protocol.Errorf(protocol.CodeUpdateAvailable, "%s", text)))
	}
	return out
}

// CheckUpdate reads the list now.
func (k *Keeper) CheckUpdate(ctx context.Context) (*localapi.Update, error) {
	if err := k.check(ctx); err != nil {
		return nil, err
	}
	return k.answer()
}

func (k *Keeper) answer() (*localapi.Update, error) {
	u := k.Update()
	return &u, nil
}

// DismissUpdate hides a version.
func (k *Keeper) DismissUpdate(_ context.Context, v string) (*localapi.Update, error) {
	if _, err := feed.ParseVersion(v); err != nil && v != "" {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "%.40q is no version", v)
	}
	k.mu.Lock()
	k.memory.Dismissed = v
	k.mu.Unlock()
	k.remember(nil)
	k.o.Changed()
	return k.answer()
}
