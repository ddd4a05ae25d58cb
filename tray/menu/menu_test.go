package menu

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"neuron/assets/icons"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

var (
	at    = time.Date(2026, 11, 30, 14, 5, 0, 0, time.UTC)
	later = at.Add(time.Hour)
	yes   = true
	no    = false
)

// show writes a view in a few lines: "[x] title" is checked, "(title)" cannot
// be clicked, hidden items are left out.
func show(v View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", v.Icon)
	var list func(items []Item, indent string)
	list = func(items []Item, indent string) {
		for _, i := range items {
			if !i.Visible {
				continue
			}
			s := i.Title
			if i.ID == Line {
				s = "---"
			} else if !i.Enabled {
				s = "(" + s + ")"
			}
			if i.Checkable {
				s = map[bool]string{true: "[x] ", false: "[ ] "}[i.Checked] + s
			}
			fmt.Fprintf(&b, "%s%s\n", indent, s)
			list(i.Children, indent+"  ")
		}
	}
	list(v.Items, "")
	return b.String() + v.Tooltip
}

func connected(p localapi.Sharing, share bool) link.State {
	return link.State{Phase: link.Connected, Event: localapi.Event{Status: localapi.Status{Sharing: share, Policy: &p}}}
}

func TestWholeMenu(t *testing.T) {
	t.Parallel()
	working := connected(localapi.Sharing{State: protocol.SharingOn}, true)
	working.Event.Status.Work = &localapi.Work{Sessions: 1, TokensPerSecond: 12.34, CreditToday: 4_560_000, CreditKnown: true}
	w := words.New("en").WithClock(func() time.Time { return at })
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"sharing": {Input{State: working, OnlyAway: &no, CanStart: true, Now: at}, `sharing
(Sharing this computer.)
---
[x] Share this computer
Pause
  For 30 minutes
  For 1 hour
  For 3 hours
  Until tomorrow
  Until I resume
[ ] Only when I am away
---
Open Neuron
---
Quit Neuron
Neuron: Sharing this computer.
12.3 tokens/s · 4.56 credits today`},
		"paused by the user": {Input{State: connected(localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingUserPause, Until: &later}, true), OnlyAway: &yes, Now: at}, `paused
(Paused by you until 15:05.)
---
[x] Share this computer
Resume
[x] Only when I am away
---
Open Neuron
---
Quit Neuron
Neuron: Paused by you until 15:05.`},
		"absent": {Input{State: link.State{Phase: link.Absent}, CanStart: true, Now: at}, `off
(The engine is not running.)
---
[ ] (Share this computer)
(Pause)
  (For 30 minutes)
  (For 1 hour)
  (For 3 hours)
  (Until tomorrow)
  (Until I resume)
[ ] (Only when I am away)
---
Open Neuron
Start the engine
---
Quit Neuron
Neuron: The engine is not running.`},
	} {
		if got := show(Make(c.in, w)); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	w := words.New("de").WithClock(func() time.Time { return at })
	sick := connected(localapi.Sharing{State: protocol.SharingOn}, true)
	sick.Event.Status.Health = []localapi.HealthEntry{{Severity: localapi.SeverityWarning}, {Severity: localapi.SeverityError}}
	headless := link.State{Phase: link.Connected, Event: localapi.Event{Status: localapi.Status{Sharing: true}}}
	for _, c := range []struct {
		name     string
		in       Input
		icon     icons.State
		sentence string
		orders   bool // share can be clicked
	}{
		{"starting", Input{State: link.State{Phase: link.Starting}}, icons.Connecting, "Wird gestartet.", false},
		{"lost", Input{State: link.State{Phase: link.Lost, Event: sick.Event}}, icons.Connecting, "Die Engine antwortet nicht mehr; die Verbindung wird neu aufgebaut.", false},
		{"gave up", Input{CanStart: true, State: link.State{Phase: link.Absent, Err: protocol.Errorf(protocol.CodeDiskFull, "x")}}, icons.Attention, "Die Engine läuft nicht. Der Datenträger ist voll.", false},
		{"none runs", Input{CanStart: true, State: link.State{Phase: link.Absent, Err: protocol.Errorf(protocol.CodeUnavailable, "x")}}, icons.Off, "Die Engine läuft nicht.", false},
		{"off", Input{State: connected(localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingUserOff}, false)}, icons.Off, "Das Teilen ist ausgeschaltet.", true},
		{"not set up", Input{State: connected(localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingNotSetUp}, false)}, icons.Attention, "Neuron ist noch nicht eingerichtet.", false},
		{"battery", Input{State: connected(localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingBattery}, true)}, icons.Paused, "Angehalten: Akkubetrieb.", true},
		{"leaving", Input{State: connected(localapi.Sharing{State: protocol.SharingLeaving, Reason: protocol.SharingBattery}, true)}, icons.Sharing, "Laufende Arbeit wird beendet, dann wird angehalten.", true},
		{"no tracker", Input{State: connected(localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingNoTracker}, true)}, icons.Connecting, "Das Netzwerk ist nicht erreichbar.", true},
		{"disk full", Input{State: connected(localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingDisk}, true)}, icons.Attention, "Angehalten: Der Datenträger ist voll.", true},
		{"broken", Input{State: sick}, icons.Attention, "Dieser Computer wird geteilt.", true},
		{"stopping", Input{State: connected(localapi.Sharing{State: protocol.SharingLeaving, Reason: protocol.SharingStopping}, true)}, icons.Connecting, "Laufende Arbeit wird beendet, dann wird angehalten.", false},
		{"ending", Input{Ending: true, State: connected(localapi.Sharing{State: protocol.SharingOn}, true)}, icons.Connecting, "Laufende Arbeit wird beendet, dann ist Schluss.", false},
		{"headless", Input{State: headless}, icons.Sharing, "Dieser Computer wird geteilt.", true},
	} {
		c.in.Now = at
		v := Make(c.in, w)
		if v.Icon != c.icon || v.Items[0].Title != c.sentence || find(v.Items, Share).Enabled != c.orders {
			t.Errorf("%s: %s, %q, orders %v; want %s, %q, %v", c.name, v.Icon, v.Items[0].Title, find(v.Items, Share).Enabled, c.icon, c.sentence, c.orders)
		}
		if v.Items[0].Enabled || !strings.HasPrefix(v.Tooltip, "Neuron: "+c.sentence) {
			t.Errorf("%s: tooltip %q", c.name, v.Tooltip)
		}
		if q := find(v.Items, Quit); q.Enabled == c.in.Ending {
			t.Errorf("%s: quit can be clicked: %v", c.name, q.Enabled)
		}
	}
}

func find(items []Item, id ID) Item {
	for _, i := range items {
		if i.ID == id {
			return i
		}
		if c := find(i.Children, id); c.ID != "" {
			return c
		}
	}
	return Item{}
}

// The items and their order are the same whatever happens.
func TestItemsAreAlwaysTheSame(t *testing.T) {
	t.Parallel()
	w := words.New("fr")
	ids := func(in Input) string {
		in.Now = at
		var out []string
		var walk func([]Item)
		walk = func(items []Item) {
			for _, i := range items {
				out = append(out, fmt.Sprintf("%s %v", i.ID, i.Checkable))
				walk(i.Children)
			}
		}
		walk(Make(in, w).Items)
		return strings.Join(out, "\n")
	}
	want := ids(Input{})
	for _, phase := range []link.Phase{link.Starting, link.Connected, link.Lost, link.Absent} {
		for _, r := range append(protocol.SharingReasons(), "", "of_tomorrow") {
			s := connected(localapi.Sharing{Reason: r}, true)
			s.Phase = phase
			for _, ending := range []bool{false, true} {
				if got := ids(Input{State: s, Ending: ending, OnlyAway: &yes}); got != want {
					t.Fatalf("%s, %s:\n%s\nwant\n%s", phase, r, got, want)
				}
			}
		}
	}
}

func TestTooltip(t *testing.T) {
	t.Parallel()
	w := words.New("en").WithClock(func() time.Time { return at })
	for _, c := range []struct {
		work *localapi.Work
		want string
	}{
		{nil, ""},
		{&localapi.Work{}, ""},
		{&localapi.Work{CreditKnown: true}, ""},
		{&localapi.Work{CreditKnown: true, CreditToday: 1_000_000}, "\n1.00 credits today"},
		{&localapi.Work{TokensPerSecond: 3}, "\n3.0 tokens/s"},
		{&localapi.Work{Sessions: 2}, "\n0.0 tokens/s"},
	} {
		s := connected(localapi.Sharing{State: protocol.SharingOn}, true)
		s.Event.Status.Work = c.work
		if got := Make(Input{State: s, Now: at}, w).Tooltip; got != "Neuron: Sharing this computer."+c.want {
			t.Errorf("%+v: %q", c.work, got)
		}
	}
}
