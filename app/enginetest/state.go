package enginetest

import (
	"context"
	"slices"

	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// State is what the engine tells, and what it was told.
type State struct {
	Status   localapi.Status
	Sessions []protocol.SessionState
	Models   []localapi.Model
	Plans    []localapi.Plan
	Settings policy.Settings
	Hardware localapi.Hardware
	Network  localapi.Network
	Access   localapi.Access
	Report   string
	Logs     []localapi.LogLine
	Owner    localapi.OwnerState
	Pairing  *localapi.Pairing
	Keys     []accounts.Key
	Account  accounts.Account
	Earnings accounts.Earnings
	// Statements are the pages of the account's lines; Next of each is the number
	// of the following one.
	Statements []accounts.Statement
	// Err is what every question but Status ends with, nil for none.
	Err error
	// Told lists what was ordered, by the method's name.
	Told []string
	// Pauses and Holds are those that were ordered.
	Pauses []localapi.PauseOrder
	Holds  []localapi.Hold
	// Update is what is known of newer versions.
	Update localapi.Update
}

type source struct{ e *Engine }

func (s source) Status() localapi.Status {
	return Look(s.e, func(st *State) localapi.Status { return st.Status })
}

func (s source) Models() []localapi.Model {
	return Look(s.e, func(st *State) []localapi.Model { return slices.Clone(st.Models) })
}

func (s source) Sessions() []protocol.SessionState {
	return Look(s.e, func(st *State) []protocol.SessionState { return slices.Clone(st.Sessions) })
}

func (s source) Shutdown() { s.e.note("Shutdown") }

func (s source) Hold(_ context.Context, h localapi.Hold) error {
	err := s.e.note("Hold")
	s.e.With(func(st *State) {
		st.Holds = append(st.Holds, h)
		if err == nil {
			st.Settings.Model, st.Settings.Layers = h.Model, h.Layers // as the real one keeps it
		}
	})
	return err
}

func (s source) Share(on bool) error {
	if err := s.e.note("Share"); err != nil {
		return err
	}
	s.e.With(func(st *State) { st.Settings.Share, st.Settings.Revision = on, st.Settings.Revision+1 })
	return nil
}

func (s source) Plans(context.Context) ([]localapi.Plan, error) {
	p, err := answer(s.e, func(st *State) []localapi.Plan { return st.Plans })
	if err != nil {
		return nil, err
	}
	return *p, nil
}

type desktop struct{ e *Engine }

func (d desktop) Settings() policy.Settings {
	return Look(d.e, func(s *State) policy.Settings { return s.Settings.Clone() })
}

func (d desktop) SetSettings(_ context.Context, in policy.Settings) (policy.Settings, error) {
	if err := d.e.note("SetSettings"); err != nil {
		return policy.Settings{}, err
	}
	if err := in.Check(); err != nil {
		return policy.Settings{}, err
	}
	d.e.mu.Lock()
	defer d.e.mu.Unlock()
	if in.Revision != d.e.state.Settings.Revision {
		return policy.Settings{}, protocol.Errorf(protocol.CodeConflict, "the settings have changed meanwhile")
	}
	in.Revision++
	d.e.state.Settings = in.Clone()
	return in, nil
}

func (d desktop) Pause(_ context.Context, p localapi.PauseOrder) error {
	d.e.With(func(s *State) { s.Pauses = append(s.Pauses, p) })
	return d.e.note("Pause")
}

func (d desktop) Resume(context.Context) error { return d.e.note("Resume") }

func (d desktop) Hardware(context.Context) (*localapi.Hardware, error) {
	return answer(d.e, func(s *State) localapi.Hardware { return s.Hardware })
}

func (d desktop) Probe(ctx context.Context) (*localapi.Hardware, error) { return d.Hardware(ctx) }

func (d desktop) Network(context.Context) (*localapi.Network, error) {
	return answer(d.e, func(s *State) localapi.Network { return s.Network })
}

func (d desktop) Access(context.Context) (*localapi.Access, error) {
	return answer(d.e, func(s *State) localapi.Access { return s.Access })
}

func (d desktop) Report(context.Context) (string, error) {
	s, err := answer(d.e, func(s *State) string { return s.Report })
	if err != nil {
		return "", err
	}
	return *s, nil
}

func (d desktop) Logs(after int64) []localapi.LogLine {
	return Look(d.e, func(s *State) []localapi.LogLine {
		i := slices.IndexFunc(s.Logs, func(l localapi.LogLine) bool { return l.Number > after })
		if i < 0 {
			return nil
		}
		return slices.Clone(s.Logs[i:])
	})
}
