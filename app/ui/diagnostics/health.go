package diagnostics

import (
	"strings"
	"time"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
	"neuron/internal/version"
)

// health is the tab with what is wrong and what runs.
type health struct {
	words   *words.Words
	frame   *kit.Page
	tabs    *fyne.Container
	entries *fyne.Container
	shown   string // what the entries show
	facts   map[string]*kit.Text
}

func newHealth(w *words.Words, problem *kit.Notice) *health {
	h := &health{words: w, shown: "nothing yet", tabs: kit.Wrapped(0), entries: kit.Column(theme.GapM), facts: make(map[string]*kit.Text)}
	var rows []fyne.CanvasObject
	fact := func(id string) {
		row, value := kit.Fact(w.T(id), "–")
		h.facts[id] = value
		rows = append(rows, row)
	}
	for _, id := range []string{
		"diagnostics.window", "diagnostics.engine", "diagnostics.llama", "diagnostics.running", "diagnostics.node", "diagnostics.network",
		"diagnostics.processes", "diagnostics.memory", "diagnostics.disk", "diagnostics.api",
	} {
		fact(id)
	}
	h.frame = kit.NewPage(w.T("diagnostics.title"), w.T("diagnostics.subtitle"), h.tabs, problem, h.entries,
		kit.TitledCard(w.T("diagnostics.facts"), nil, rows...))
	return h
}

// update shows a state of the engine.
func (h *health) update(s link.State, now time.Time) {
	entries := entriesOf(s, h.words)
	var all strings.Builder
	for _, e := range entries {
		all.WriteString(string(e.Severity) + e.Text + e.Remedy + "\n")
	}
	if shown := all.String(); shown != h.shown {
		h.shown = shown
		h.entries.Objects = h.cards(entries)
		h.frame.Arrange()
	}
	h.tell(s, now)
}

// entriesOf are what there is to say, the worst first.
func entriesOf(s link.State, w *words.Words) []localapi.HealthEntry {
	var out []localapi.HealthEntry
	if s.Phase != link.Connected {
		e := localapi.HealthEntry{Severity: localapi.SeverityError, Text: w.T("diagnostics.engine_absent"), Remedy: w.T("diagnostics.engine_absent_remedy")}
		if s.Err != nil {
			text, remedy := w.Code(s.Err.Code, s.Err.Message)
			e.Remedy = strings.TrimSpace(text + " " + remedy)
		}
		return []localapi.HealthEntry{e}
	}
	for _, severity := range []localapi.Severity{localapi.SeverityError, localapi.SeverityWarning, localapi.SeverityInfo} {
		for _, e := range s.Event.Status.Health {
			if e.Severity != severity {
				continue
			}
			// The engine's text says more than the code's own one; the remedy is
			// told in the user's language.
			if _, remedy := w.Code(e.Code, e.Text); remedy != "" {
				e.Remedy = remedy
			}
			out = append(out, e)
		}
	}
	return out
}

func (h *health) cards(entries []localapi.HealthEntry) []fyne.CanvasObject {
	if len(entries) == 0 {
		return []fyne.CanvasObject{kit.NewNotice(kit.Good, h.words.T("diagnostics.all_good"), "")}
	}
	out := make([]fyne.CanvasObject, 0, len(entries))
	for _, e := range entries {
		tone, word := kit.Accent, h.words.T("diagnostics.info")
		switch e.Severity {
		case localapi.SeverityError:
			tone, word = kit.Bad, h.words.T("diagnostics.error")
		case localapi.SeverityWarning:
			tone, word = kit.Warn, h.words.T("diagnostics.warning")
		}
		out = append(out, kit.NewNotice(tone, word+": "+e.Text, e.Remedy))
	}
	return out
}

// tell fills the facts.
func (h *health) tell(s link.State, now time.Time) {
	w := h.words
	set := func(id, text string) {
		if text == "" {
			text = "–"
		}
		h.facts[id].Set(text)
	}
	set("diagnostics.window", version.String())
	st := s.Event.Status
	if s.Phase != link.Connected {
		st = localapi.Status{}
	}
	if st.PID == 0 {
		for id := range h.facts {
			if id != "diagnostics.window" {
				set(id, "")
			}
		}
		return
	}
	set("diagnostics.engine", w.T("diagnostics.version_pid", "Version", st.Version, "PID", st.PID))
	set("diagnostics.llama", st.Llama)
	set("diagnostics.running", w.Duration(now.Sub(st.Started).Truncate(time.Minute)))
	set("diagnostics.node", nodeText(st.Node))
	set("diagnostics.network", networkText(st.Tracker, w))
	set("diagnostics.processes", w.T("diagnostics.stages", "Count", len(st.StagePIDs)))
	set("diagnostics.memory", w.T("diagnostics.memory_value", "Used", w.Memory(st.Memory.Engine), "Total", w.Memory(st.Memory.Total)))
	set("diagnostics.disk", w.Bytes(st.Memory.DiskFree))
	set("diagnostics.api", st.Gateway)
}

func nodeText(id protocol.NodeID) string {
	if len(id) > 26 {
		return string(id[:26]) + "…"
	}
	return string(id)
}

func networkText(t localapi.Tracker, w *words.Words) string {
	switch {
	case t.URL == "":
		return w.T("diagnostics.no_network")
	case t.Connected:
		return w.T("diagnostics.connected", "URL", t.URL)
	}
	return w.T("diagnostics.not_connected", "URL", t.URL)
}
