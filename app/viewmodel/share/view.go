package share

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// View is what the page shows; all words are the user's.
type View struct {
	// Phase says whether an engine answers; the rest is of use when Connected.
	Phase link.Phase

	State    protocol.SharingState
	Reason   protocol.SharingReason
	Sentence string // with the end, where there is one
	Detail   string // "" for none
	// On says that the user shares, Paused that he has paused.
	On, Paused bool
	Busy       bool

	Speed, Tokens, Credit, Transfer Figure

	Shards   []Shard
	Sessions []Session
	Health   []Health

	Hardware  string // sentences, "" while not known
	Measured  string // what was measured, "" before
	Measuring bool

	Planning bool
	Plans    []Plan
	PlanErr  *protocol.Error

	Problem *protocol.Error // of the last order
}

// Figure is a number with what there is to say about it.
type Figure struct{ Value, Detail string }

// Shard is what this computer holds of a model.
type Shard struct {
	Name  string
	Text  string // which layers, and what they take
	State protocol.ShardState
	// Part and Progress are of use while Moving.
	Moving   bool
	Part     float32 // 0 to 1
	Progress string
	Err      *protocol.Error
	// Layers are the model's layers; those held are true. nil: not known.
	Layers []bool
}

// Session is one conversation that runs through this computer.
type Session struct {
	Name  string // the beginning of its id
	Text  string
	Phase protocol.Phase
}

// Health is something the user should know.
type Health struct {
	Severity     localapi.Severity
	Text, Remedy string
}

// Plan is a model of the catalog with what of it this computer could hold.
type Plan struct {
	Model  string // its id
	Name   string
	Text   string // why nothing of it fits, where that is so
	Ranges []Range
}

// Range is a possibility.
type Range struct {
	Layers string // as Hold takes it
	Title  string
	Text   string // what it costs
}

// View is the present state.
func (m *Model) View() View {
	s := m.o.State()
	v := View{Phase: s.Phase}
	st := &s.Event.Status
	m.sharing(&v, st)
	m.work(&v, st.Work)
	transfers := make(map[protocol.ModelID]*localapi.Transfer, len(st.Transfers))
	for i := range st.Transfers {
		transfers[st.Transfers[i].Model] = &st.Transfers[i]
	}
	for i := range st.Shards {
		v.Shards = append(v.Shards, m.shard(&st.Shards[i], transfers[st.Shards[i].Model]))
	}
	for i := range s.Event.Sessions {
		v.Sessions = append(v.Sessions, m.session(&s.Event.Sessions[i]))
	}
	for _, h := range st.Health {
		if v.Reason == protocol.SharingNoModel && h.Code == protocol.CodeModelUnknown {
			continue // nothing to hold is no fault: the sentence says it
		}
		text, remedy := m.o.Words.Code(h.Code, h.Text)
		v.Health = append(v.Health, Health{Severity: h.Severity, Text: text, Remedy: remedy})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v.Busy, v.Problem = m.busy > 0, m.problem
	v.Measuring, v.Planning, v.PlanErr = m.measuring, m.planning, m.planErr
	if h := m.hardware; h != nil {
		v.Hardware = m.hardwareText(h)
		if h.Speed != nil {
			v.Measured = m.o.Words.T("share.measured", "Model", h.Speed.Model,
				"Speed", m.o.Words.Decimal(h.Speed.TokensPerSecond, 1), "Prefill", m.o.Words.Decimal(h.Speed.PrefillPerSec, 0), "Time", m.o.Words.Time(h.Measured))
		}
	}
	for i := range m.plans {
		v.Plans = append(v.Plans, m.plan(&m.plans[i]))
	}
	return v
}

func (m *Model) sharing(v *View, st *localapi.Status) {
	w := m.o.Words
	p := st.Policy
	if p == nil { // an engine without a desktop
		p = &localapi.Sharing{State: protocol.SharingOn}
		if !st.Sharing {
			p = &localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingUserOff}
		}
	}
	v.State, v.Reason = p.State, p.Reason
	v.Sentence, v.Detail = w.Reason(p.Reason, p.Until, m.o.Now()), p.Detail
	if p.State == protocol.SharingLeaving {
		v.Sentence = w.T("share.leaving")
	}
	v.Paused = p.Reason == protocol.SharingUserPause
	v.On = p.Reason != protocol.SharingUserOff && p.Reason != protocol.SharingNotSetUp
}

func (m *Model) work(v *View, k *localapi.Work) {
	w := m.o.Words
	none := w.T("share.unknown")
	v.Speed, v.Tokens = Figure{none, w.T("share.speed_unit")}, Figure{none, w.T("share.tokens_unit")}
	v.Credit, v.Transfer = Figure{none, w.T("share.credit_unit")}, Figure{none, w.T("share.transfer_unit")}
	if k == nil {
		return
	}
	v.Speed.Value = w.Decimal(k.TokensPerSecond, 1)
	v.Tokens.Value = w.Number(k.TokensToday)
	v.Transfer.Value = w.Bytes(k.BytesToday)
	if k.CreditKnown {
		v.Credit.Value = w.Credits(k.CreditToday)
	}
}

func (m *Model) shard(s *localapi.Shard, t *localapi.Transfer) Shard {
	w := m.o.Words
	out := Shard{Name: s.Name, State: s.State, Err: s.Error}
	out.Text = w.T("share.holds", "First", s.Range.First, "Last", s.Range.Last-1, "Bytes", w.Bytes(s.Bytes))
	switch s.State {
	case protocol.ShardDownloading:
		out.Moving = true
		if s.Bytes > 0 {
			out.Part = float32(s.BytesDone) / float32(s.Bytes)
		}
		out.Progress = w.T("share.progress", "Done", w.Bytes(s.BytesDone), "All", w.Bytes(s.Bytes))
		if t != nil && t.ETASeconds >= 0 {
			out.Progress = w.T("share.progress_rate", "Done", w.Bytes(s.BytesDone), "All", w.Bytes(s.Bytes),
				"Rate", w.Rate(float64(t.DownRate)), "Left", w.Duration(time.Duration(t.ETASeconds)*time.Second))
		}
	case protocol.ShardVerifying:
		out.Moving, out.Part, out.Progress = true, 1, w.T("share.verifying")
	case protocol.ShardLoading:
		out.Moving, out.Part, out.Progress = true, 1, w.T("share.loading_layers")
	}
	if t != nil {
		out.Layers = held(s.Range, t)
	}
	return out
}

// held marks the layers of a range among those that the transfer names.
func held(r protocol.Range, t *localapi.Transfer) []bool {
	last := slices.MaxFunc(append(slices.Clone(t.Parts), localapi.Part{Layer: r.Last - 1}), func(a, b localapi.Part) int { return cmp.Compare(a.Layer, b.Layer) })
	out := make([]bool, last.Layer+1)
	for i := r.First; i < r.Last; i++ {
		out[i] = true
	}
	return out
}

func (m *Model) session(s *protocol.SessionState) Session {
	w := m.o.Words
	name := string(s.Session)
	if len(name) > 10 {
		name = name[:10]
	}
	return Session{Name: name, Phase: s.Phase, Text: w.T("share.session", "Count", s.Counters.DecodeSteps, "Layers", w.T("share.layers", "First", s.Use.First, "Last", s.Use.Last-1),
		"Time", w.Duration(m.o.Now().Sub(s.Opened).Truncate(time.Second)))}
}

func (m *Model) hardwareText(h *localapi.Hardware) string {
	w := m.o.Words
	cpu := h.CPU
	if cpu == "" {
		cpu = w.T("share.some_cpu")
	}
	text := w.T("share.hardware", "CPU", cpu, "Threads", h.Threads, "Memory", w.Memory(h.Memory), "Free", w.Bytes(h.DiskFree), "System", h.System)
	for _, g := range h.GPUs {
		id := "share.gpu_unused"
		if g.Usable {
			id = "share.gpu"
		}
		text += " " + w.T(id, "Name", g.Name, "Memory", w.Memory(g.Memory))
	}
	return text
}

func (m *Model) plan(p *localapi.Plan) Plan {
	w := m.o.Words
	out := Plan{Model: string(p.Model), Name: p.Name}
	if len(p.Ranges) == 0 {
		out.Text = w.T("share.plan_none")
	}
	for _, r := range p.Ranges {
		text := w.T("share.plan_here", "Memory", w.Memory(r.Memory))
		switch {
		case r.Fetch > 0 && r.Seconds > 0:
			text = w.T("share.plan_fetch_time", "Fetch", w.Bytes(r.Fetch), "Time", w.Duration(time.Duration(r.Seconds)*time.Second), "Memory", w.Memory(r.Memory))
		case r.Fetch > 0:
			text = w.T("share.plan_fetch", "Fetch", w.Bytes(r.Fetch), "Memory", w.Memory(r.Memory))
		}
		out.Ranges = append(out.Ranges, Range{
			Layers: r.Range.String(), Title: w.T("share.layers", "First", r.Range.First, "Last", r.Range.Last-1),
			Text: text + " " + w.T("share.plan_sessions", "Count", r.Fit4K),
		})
	}
	return out
}
