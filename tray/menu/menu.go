// Package menu says what the tray shows: icon, sentence, tooltip and the items
// of the menu, from the state of the engine. It is pure.
//
// tray/agent gives it the state and carries out what is clicked; tray/icon puts
// the result on the screen. It imports link (the states), words and icons'
// names; it knows no screen and no clock.
package menu

import (
	"time"

	"neuron/assets/icons"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// ID names an item.
type ID string

// The items.
const (
	Sentence     ID = "sentence" // says what goes on; cannot be clicked
	Share        ID = "share"
	Pause        ID = "pause" // holds the times
	Pause30      ID = "pause_30"
	Pause60      ID = "pause_60"
	Pause180     ID = "pause_180"
	PauseDay     ID = "pause_tomorrow"
	PauseForever ID = "pause_until_resumed"
	Resume       ID = "resume"
	OnlyAway     ID = "only_away"
	Open         ID = "open"
	Start        ID = "start"
	Quit         ID = "quit"
	// Line is what separates items; it has no state.
	Line ID = "line"
)

// Item is one item with its state. Which items there are, and in which order,
// never changes: panels lose their place when a menu is built anew.
type Item struct {
	ID        ID
	Title     string
	Checkable bool
	Checked   bool
	Enabled   bool
	Visible   bool
	Children  []Item
}

// View is what the tray shows.
type View struct {
	Icon icons.State
	// Tooltip has one line, or two with figures.
	Tooltip string
	Items   []Item
}

// Input is what a View is made of.
type Input struct {
	State link.State
	// OnlyAway is the user's setting, nil while it is not known.
	OnlyAway *bool
	// Ending says that the user has asked to quit.
	Ending bool
	// CanStart says that an engine can be started from here.
	CanStart bool
	Now      time.Time
}

// Make makes the view.
func Make(in Input, w *words.Words) View {
	up := in.State.Phase == link.Connected && !in.Ending
	var policy localapi.Sharing
	if p := in.State.Event.Status.Policy; p != nil {
		policy = *p
	}
	share := in.State.Event.Status.Sharing // what the user said, whatever rules and pauses say
	setUp := policy.Reason != protocol.SharingNotSetUp
	paused := policy.Reason == protocol.SharingUserPause
	orders := up && setUp && policy.Reason != protocol.SharingStopping
	s := sentence(in, policy, w)
	item := func(id ID, title string, enabled bool) Item {
		return Item{ID: id, Title: w.T(title), Enabled: enabled, Visible: true}
	}
	check := func(i Item, on bool) Item {
		i.Checkable, i.Checked = true, on
		return i
	}
	visible := func(i Item, yes bool) Item {
		i.Visible = yes
		return i
	}
	// An engine without a desktop knows no pauses.
	canPause := orders && share && in.State.Event.Status.Policy != nil
	pause := visible(item(Pause, "tray.pause", canPause), !paused)
	pause.Children = []Item{
		item(Pause30, "tray.pause_30", canPause), item(Pause60, "tray.pause_60", canPause), item(Pause180, "tray.pause_180", canPause),
		item(PauseDay, "tray.pause_tomorrow", canPause), item(PauseForever, "tray.pause_until_resumed", canPause),
	}
	line := Item{ID: Line, Visible: true}
	return View{
		Icon:    kind(in, policy),
		Tooltip: tooltip(in, s, w),
		Items: []Item{
			{ID: Sentence, Title: s, Visible: true},
			line,
			check(item(Share, "tray.share", orders), up && share),
			pause,
			visible(item(Resume, "tray.resume", orders), paused),
			check(item(OnlyAway, "tray.only_away", orders && in.OnlyAway != nil), in.OnlyAway != nil && *in.OnlyAway),
			line,
			item(Open, "tray.open", !in.Ending),
			visible(item(Start, "tray.start", !in.Ending), in.CanStart && in.State.Phase == link.Absent && !in.Ending),
			line,
			item(Quit, "tray.quit", !in.Ending),
		},
	}
}

// sentence says in one line what goes on.
func sentence(in Input, p localapi.Sharing, w *words.Words) string {
	switch {
	case in.Ending:
		return w.T("tray.ending")
	case in.State.Phase == link.Starting:
		return w.T("tray.starting")
	case in.State.Phase == link.Lost:
		return w.T("tray.lost")
	case in.State.Phase == link.Absent && failed(in):
		text, _ := w.Code(in.State.Err.Code, in.State.Err.Message)
		return w.T("tray.absent") + " " + text
	case in.State.Phase == link.Absent:
		return w.T("tray.absent")
	case in.State.Event.Status.Policy == nil:
		// An engine without a desktop: it shares or not.
		if in.State.Event.Status.Sharing {
			return w.Reason("", nil, in.Now)
		}
		return w.Reason(protocol.SharingUserOff, nil, in.Now)
	case p.State == protocol.SharingLeaving:
		return w.T("tray.leaving")
	}
	return w.Reason(p.Reason, p.Until, in.Now)
}

// kind is the icon's state.
func kind(in Input, p localapi.Sharing) icons.State {
	switch {
	case in.Ending || in.State.Phase == link.Starting:
		return icons.Connecting
	case in.State.Phase == link.Lost:
		return icons.Connecting
	case in.State.Phase == link.Absent && failed(in):
		return icons.Attention
	case in.State.Phase == link.Absent:
		return icons.Off
	case p.Reason == protocol.SharingFailed || p.Reason == protocol.SharingDisk || p.Reason == protocol.SharingNotSetUp || broken(in.State.Event.Status):
		return icons.Attention
	case p.Reason == protocol.SharingNoTracker || p.Reason == protocol.SharingStarting || p.Reason == protocol.SharingStopping:
		return icons.Connecting
	case in.State.Event.Status.Policy == nil:
		if in.State.Event.Status.Sharing {
			return icons.Sharing
		}
		return icons.Off
	case p.State == protocol.SharingOn || p.State == protocol.SharingLeaving:
		return icons.Sharing
	case p.State == protocol.SharingOff:
		return icons.Off
	}
	return icons.Paused
}

// failed reports whether no engine runs because something is wrong, and not
// because none was started.
func failed(in Input) bool {
	return in.State.Err != nil && in.State.Err.Code != protocol.CodeUnavailable
}

// broken reports whether something needs the user.
func broken(s localapi.Status) bool {
	for _, h := range s.Health {
		if h.Severity == localapi.SeverityError {
			return true
		}
	}
	return false
}

// tooltip is the sentence, and what this computer does and has earned.
func tooltip(in Input, sentence string, w *words.Words) string {
	s := w.T("tray.name") + ": " + sentence
	work := in.State.Event.Status.Work
	if in.State.Phase != link.Connected || in.Ending || work == nil {
		return s
	}
	var figures string
	switch busy := work.Sessions > 0 || work.TokensPerSecond >= 0.05; {
	case busy && work.CreditKnown:
		figures = w.T("tray.busy_earned", "Rate", w.Decimal(work.TokensPerSecond, 1), "Credits", w.Credits(work.CreditToday))
	case busy:
		figures = w.T("tray.busy", "Rate", w.Decimal(work.TokensPerSecond, 1))
	case work.CreditKnown && work.CreditToday != 0:
		figures = w.T("tray.earned", "Credits", w.Credits(work.CreditToday))
	default:
		return s
	}
	return s + "\n" + figures
}
