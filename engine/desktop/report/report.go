package report

import (
	"fmt"
	"strings"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
)

// Content is what a report says.
type Content struct {
	At       time.Time
	Version  string
	Llama    string // "" when it is not known
	Go       string // version and platform
	Hardware *localapi.Hardware
	Settings policy.Settings
	Status   localapi.Status
	Gateway  bool // runs
	Lines    []localapi.LogLine
	Lost     string // why lines of the log are missing, "" when none are
}

// maxLines is how many lines of the log a report has.
const maxLines = 200

// Write makes the text.
func (x *Scrubber) Write(c Content) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s, st := c.Settings, c.Status
	say("Neuron report, %s", c.At.Format(time.RFC3339))
	say("version %s, llama.cpp %s, %s", c.Version, orNone(c.Llama), c.Go)
	say("running for %s", time.Duration(st.UptimeSec)*time.Second)

	say("\n# Computer")
	if h := c.Hardware; h != nil {
		say("%s; %s; %d cores, %d threads; %s", orNone(h.System), orNone(h.CPU), h.Cores, h.Threads, strings.Join(h.Features, " "))
		say("memory %s, disk %s of which %s are free, network %s", size(h.Memory), size(h.Disk), size(h.DiskFree), orNone(h.Network))
		for _, g := range h.GPUs {
			say("device %s (%s), memory %s, usable %t", g.Name, g.Kind, size(g.Memory), g.Usable)
		}
		if v := h.Speed; v != nil {
			say("speed %s: %.1f tokens/s, prefill %.1f tokens/s, %d threads", v.Model, v.TokensPerSecond, v.PrefillPerSec, v.Threads)
		}
	}
	m := st.Memory
	say("now: memory free %s; engine %s anonymous, %s of files; KV %s of %s; disk free %s; %d goroutines, %d open files",
		size(m.Free), size(m.Anonymous), size(m.File), size(m.KVInUse), size(m.KVBudget), size(m.DiskFree), st.Goroutines, st.OpenFiles)

	say("\n# Sharing")
	if p := st.Policy; p != nil {
		say("%s, reason %q: %s %s (since %s)", p.State, p.Reason, p.Text, p.Detail, p.Since.Format(time.RFC3339))
		if len(p.Unknown) > 0 {
			say("this system does not tell: %s", strings.Join(p.Unknown, ", "))
		}
	}
	say("tracker connected %t: %s; gateway runs %t", st.Tracker.Connected, st.Tracker.State, c.Gateway)
	for _, h := range st.Shards {
		say("layers %s, %s, %s of %s, %d sessions, %d us per token, %d us per chunk", h.Range, h.State, size(h.BytesDone), size(h.Bytes), h.Sessions, h.StepMicros, h.ChunkMicros)
	}
	for _, t := range st.Transfers {
		say("transfer %s, %s of %s, %d peers, %d dropped", t.State, size(t.Done), size(t.Bytes), t.Peers, t.Dropped)
	}
	if w := st.Work; w != nil {
		say("today: %d tokens, %s; now %d sessions, %.1f tokens/s", w.TokensToday, size(w.BytesToday), w.Sessions, w.TokensPerSecond)
	}
	say("receipts: %d waiting, %d signed, %d delivered, %d refused, %d dropped", st.Receipts.Waiting, st.Receipts.Signed, st.Receipts.Delivered, st.Receipts.Refused, st.Receipts.Dropped)

	say("\n# Health")
	for _, h := range st.Health {
		say("%s %s: %s", h.Severity, h.Code, h.Text)
	}
	if len(st.Health) == 0 {
		say("nothing is wrong")
	}

	// Only what is named here: a field that is added later may be private.
	say("\n# Settings")
	say("set up %t, share %t, pause %t %s, tracker set %t, proxy set %t, model chosen %t, layers %q, snapshots %t",
		s.SetUp, s.Share, s.Pause.UntilResumed, moment(s.Pause.Until), s.Tracker != "", s.Proxy != "", s.Model != "", s.Layers, s.Snapshots)
	r, l := s.Rules, s.Limits
	say("only idle %t (%d min), on battery %t, on metered %t, full screen %t, busy %d %%, %d programs, schedule %t",
		r.OnlyIdle, r.IdleMinutes, r.OnBattery, r.OnMetered, r.FullScreen, r.BusyPercent, len(r.Apps), s.Schedule.On)
	say("limits: threads %d, GPUs %d, memory %s, disk %s, keep free %s, up %s/s, down %s/s, day %s, sessions %d (0: none)",
		l.Threads, len(l.GPUs), size(l.MemoryBytes), size(l.DiskBytes), size(l.KeepFree), size(l.UpRate), size(l.DownRate), size(l.DayBytes), l.Sessions)

	say("updates: checked %t, own address %t, channel %q", s.Updates.Check, s.Updates.Feed != "", s.Updates.Channel)

	say("\n# Log")
	if c.Lost != "" {
		say("lines are missing in the file: %s", c.Lost)
	}
	for _, line := range c.Lines[max(0, len(c.Lines)-maxLines):] {
		say("%s %s %s %s", line.Time.Format(time.RFC3339), line.Level, line.Part, line.Text)
	}
	return x.Text(b.String())
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// size is in powers of ten.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	v, i := float64(n), 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
