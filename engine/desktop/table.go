package desktop

import (
	"context"

	"neuron/engine/localapi"
	"neuron/engine/policy"
)

// table is the desktop's part of the local API.
type table Engine

var _ localapi.Desktop = (*table)(nil)

// Settings implements localapi.Desktop, as all methods here.
func (t *table) Settings() policy.Settings { return t.settings.Get() }

// SetSettings puts settings in force; what depends on them follows by itself.
func (t *table) SetSettings(_ context.Context, s policy.Settings) (policy.Settings, error) {
	return t.settings.Set(s)
}

// Pause stops sharing for a while.
func (t *table) Pause(_ context.Context, p localapi.PauseOrder) error {
	pause, err := p.Pause(t.o.Now())
	if err != nil {
		return err
	}
	return t.settings.Update(func(s *policy.Settings) { s.Pause = pause })
}

// Resume ends a pause.
func (t *table) Resume(context.Context) error {
	return t.settings.Update(func(s *policy.Settings) { s.Pause = policy.Pause{} })
}

// Hardware is what this computer is.
func (t *table) Hardware(ctx context.Context) (*localapi.Hardware, error) { return t.hw.get(ctx) }

// Probe measures it again.
func (t *table) Probe(ctx context.Context) (*localapi.Hardware, error) { return t.hw.probe(ctx) }

// Network is the tracker's view.
func (t *table) Network(ctx context.Context) (*localapi.Network, error) { return t.net.get(ctx) }

// Access says how to reach the gateway.
func (t *table) Access(context.Context) (*localapi.Access, error) {
	e := (*Engine)(t)
	_, g := e.parts()
	if g == nil {
		return nil, e.missing("gateway")
	}
	end := g.Endpoint()
	return &localapi.Access{URL: end.URL, Key: end.Key}, nil
}

// Logs are the newest lines.
func (t *table) Logs(after int64) []localapi.LogLine {
	lines := t.o.Ring.After(after)
	out := make([]localapi.LogLine, len(lines))
	for i, l := range lines {
		out[i] = localapi.LogLine{Number: l.Number, Time: l.Time, Level: levelName(l.Level), Part: l.Component, Text: l.Text}
	}
	return out
}
