package chat

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"

	"neuron/app/ui/theme"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

func wants(t *testing.T, r *rig, parts ...string) {
	t.Helper()
	all := r.shown()
	for _, p := range parts {
		if !strings.Contains(all, p) {
			t.Errorf("%q is not shown in\n%s", p, all)
		}
	}
}

func TestAskAndRead(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"# A ti", "tle\n\nSome **bold** wo", "rds and `code`.\n\n- one\n- t", "wo\n\n```go\nfunc f", "() {}\n```\n"}})
	r := open(t, e, t.TempDir(), "en", theme.Light, 1100, 760)
	r.ask("What is this?")
	wants(t, r, "What is this?", "A title", "Some bold words and code.", "one", "func f() {}", "Another answer", "Copy")
	if r.composer.entry.Text != "" || len(r.list.ids()) != 1 || r.head.title.Text() != "What is this?" || !r.strip.Visible() || r.strip.phase.Word() != "Done" {
		t.Errorf("%q, %v, %q, %q", r.composer.entry.Text, r.list.ids(), r.head.title.Text(), r.strip.phase.Word())
	}
	var code *blockView
	for _, b := range r.messages[r.view.Messages[1].ID].blocks {
		if b.view != nil && b.view.part.lang == "go" {
			code = b.view
		}
	}
	if code == nil || !tapIn(code, "Copy") || fyne.CurrentApp().Clipboard().Content() != "func f() {}" {
		t.Errorf("the code is not copied: %q", fyne.CurrentApp().Clipboard().Content())
	}
}

func TestKeys(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"word "}, Endless: true})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	entry := r.composer.entry
	r.typed("one")
	entry.KeyDown(&fyne.KeyEvent{Name: desktop.KeyShiftLeft})
	r.enter()
	entry.KeyUp(&fyne.KeyEvent{Name: desktop.KeyShiftLeft})
	r.typed("two")
	if entry.Text != "one\ntwo" || len(r.view.Messages) != 0 {
		t.Errorf("Shift+Enter gives %q", entry.Text)
	}
	r.enter()
	r.until("text", func() bool { return len(r.view.Messages) == 2 && r.view.Messages[1].Text != "" })
	if r.composer.send.Label() != "Stop" || r.view.Messages[0].Text != "one\ntwo" {
		t.Errorf("%q, %+v", r.composer.send.Label(), r.view.Messages)
	}
	r.typed("next")
	r.enter() // an answer is under way
	if entry.Text != "next" {
		t.Errorf("the text is gone: %q", entry.Text)
	}
	entry.TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	r.settled()
	wants(t, r, "You stopped this answer")

	control := func(k fyne.KeyName) *desktop.CustomShortcut {
		return &desktop.CustomShortcut{KeyName: k, Modifier: fyne.KeyModifierShortcutDefault}
	}
	entry.TypedShortcut(control(fyne.KeyLeft)) // the field's own
	if entry.CursorColumn != 0 {
		t.Errorf("Ctrl+Left leads to column %d", entry.CursorColumn)
	}
	entry.TypedShortcut(control(fyne.KeyF))
	if r.w.Canvas().Focused() != r.list.search {
		t.Error("Ctrl+F does not search")
	}
	first := r.view.Chat
	r.list.search.TypedShortcut(control(fyne.KeyN))
	r.until("a new chat", func() bool { return r.view.Chat != first })
	if r.w.Canvas().Focused() != entry || entry.Text != "" {
		t.Errorf("after Ctrl+N: %q", entry.Text)
	}
	// What was typed in the first chat is there again.
	r.list.chats.Select(slices.IndexFunc(r.list.lines, func(l line) bool { return l.entry.ID == first }))
	r.until("the first chat", func() bool { return r.view.Chat == first && entry.Text == "next" })
}

func TestEditAndVersions(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"first answer"}}, gatewaytest.Script{Pieces: []string{"second answer"}}, gatewaytest.Script{Pieces: []string{"third answer"}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.ask("a question")
	r.tap("Another answer")
	r.settled()
	wants(t, r, "second answer", "2 of 2")
	r.tap("Edit")
	dialog := r.w.Canvas().Focused()
	dialog.(interface{ SetText(string) }).SetText("another question")
	r.tap("Ask")
	r.until("the other question", func() bool { return len(r.view.Messages) > 0 && r.view.Messages[0].Text == "another question" })
	r.settled()
	wants(t, r, "another question", "third answer")
	r.model.Branch(r.view.Messages[0].ID, -1)
	r.until("the old question", func() bool { return r.view.Messages[0].Text == "a question" })
	wants(t, r, "second answer")
}

func TestProblemWithWaysOut(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"half an answer"}, Fail: gatewaytest.ErrLost, FailPhase: protocol.PhaseDecode},
		gatewaytest.Script{Refuse: protocol.Errorf(protocol.CodeNoRoute, "no")}, gatewaytest.Script{Pieces: []string{"well"}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.ask("q")
	wants(t, r, "half an answer", "The answer is not complete; what has come of it is kept.", "The connection to a computer of the route broke. (Computer 2 of the route.)")
	r.composer.policy.TypedKey(&fyne.KeyEvent{Name: fyne.KeyRight})
	r.tap("Try again")
	r.settled()
	wants(t, r, "A private route is not possible")
	if !strings.Contains(r.composer.who.Text(), "only your own computers") {
		t.Errorf("%q", r.composer.who.Text())
	}
	r.tap("Open Network")
	r.tap("Switch to public")
	r.settled()
	wants(t, r, "well")
	if !slices.Equal(r.opened, []string{"network"}) || r.composer.policy.Selected() != 0 {
		t.Errorf("%v, %d", r.opened, r.composer.policy.Selected())
	}
}

// An engine that dies while it answers takes its connections with it.
func TestAnswerBreaksOff(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"half an answer "}, Endless: true}, gatewaytest.Script{Pieces: []string{"a whole one"}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.typed("q")
	r.enter()
	r.until("a part of the answer", func() bool { return len(r.view.Messages) == 2 && r.view.Messages[1].Text != "" })
	e.srv.CloseClientConnections()
	e.set(link.Lost)
	r.settled()
	wants(t, r, "half an answer", "The answer is not complete; what has come of it is kept.", "The answer broke off: ", "Try again once the engine runs")
	e.set(link.Connected)
	r.until("the engine is back", func() bool { return r.view.Engine.Phase == link.Connected })
	r.tap("Try again")
	r.settled()
	wants(t, r, "a whole one", "2 of 2")
}

// Try again did nothing while no engine ran.
func TestTryAgainStartsTheEngine(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"half an answer"}, Fail: gatewaytest.ErrLost, FailPhase: protocol.PhaseDecode}, gatewaytest.Script{Pieces: []string{"a whole one"}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.ask("q")
	e.mu.Lock()
	e.slow = true
	e.mu.Unlock()
	e.set(link.Absent)
	r.until("no engine", func() bool { return r.view.Engine.Phase == link.Absent })
	r.tap("Try again")
	r.until("it says that it is coming", func() bool { return strings.Contains(r.shown(), "Then your question is asked again.") })
	e.set(link.Connected)
	r.until("the answer", func() bool { return strings.Contains(r.shown(), "a whole one") })
	if e.retried != 1 || strings.Contains(r.shown(), "asked again") {
		t.Errorf("%d, %s", e.retried, r.shown())
	}
}

func TestSearchDeleteUndo(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"alpha"}}, gatewaytest.Script{Pieces: []string{"beta"}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.ask("first")
	r.newChat()
	r.until("a new chat", func() bool { return len(r.view.Messages) == 0 })
	r.ask("second")
	r.list.search.SetText("alph")
	r.until("one is found", func() bool { return len(r.list.ids()) == 1 && r.list.lines[0].heading == "Found" })
	r.list.search.TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	r.until("all are back", func() bool { return len(r.list.ids()) == 2 })
	r.model.Delete(r.view.Chat)
	r.until("it is gone", func() bool { return len(r.list.ids()) == 1 && r.list.undoer.Visible() })
	r.tap("Undo")
	r.until("it is back", func() bool { return len(r.list.ids()) == 2 && !r.list.undoer.Visible() && len(r.view.Messages) == 2 })
}

func TestExportAsks(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"alpha"}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.ask("first")
	var name string
	var out bytes.Buffer
	r.save = func(n string, write func(io.Writer) error) {
		name = n
		if err := write(&out); err != nil {
			t.Error(err)
		}
	}
	r.export("md")
	r.until("the file", func() bool { return out.Len() > 0 })
	if name != "chat first.md" || !strings.Contains(out.String(), "alpha") {
		t.Errorf("%s:\n%s", name, out.String())
	}
}

// An address in an answer comes from somebody else's computer: it is shown before
// it is opened.
func TestLinkIsAskedFor(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"See [the site](https://example.org/a?b=c)."}})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.ask("q")
	body := r.messages[r.view.Messages[1].ID].blocks[0].view.body
	var at fyne.Position
	for _, g := range body.frags {
		if g.style.Link != "" {
			at = fyne.NewPos(g.x+g.w/2, g.y+5)
		}
	}
	body.Tapped(&fyne.PointEvent{Position: at})
	if top := r.w.Canvas().Overlays().Top(); top == nil || !strings.Contains(textOf(top), "https://example.org/a?b=c") || len(r.opened) != 0 {
		t.Fatalf("%v", r.opened)
	}
	r.tap("Open")
	if !slices.Equal(r.opened, []string{"https://example.org/a?b=c"}) {
		t.Errorf("%v", r.opened)
	}
	body.Tapped(&fyne.PointEvent{Position: fyne.NewPos(2, 5)})
	if r.w.Canvas().Overlays().Top() != nil {
		t.Error("text that is no link asks")
	}
}

func TestNoEngine(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"x"}})
	e.phase = link.Absent
	r := open(t, e, t.TempDir(), "en", theme.Dark, 1100, 760)
	r.until("it is told", func() bool { return r.engineBar() })
	if !r.composer.send.Disabled() {
		t.Error("nothing can answer, and Send is on")
	}
	r.tap("Start")
	r.until("it is there", func() bool { return !r.engineBar() && r.view.CanSend })
	if e.retried != 1 {
		t.Errorf("%d", e.retried)
	}
}

func (r *rig) engineBar() bool { return r.Page.engine.box.Visible() }

func TestSheet(t *testing.T) {
	e := newEngine(t, gatewaytest.Script{Pieces: []string{"x"}})
	r := open(t, e, t.TempDir(), "de", theme.Dark, 1100, 760)
	r.sheet.open(true)
	r.sheet.system.SetText("Kurz.")
	r.sheet.fields[0].entry.SetText("0,7")
	r.sheet.fields[1].entry.SetText("7")
	if r.sheet.fields[1].hint.Text() == r.sheet.fields[1].meaning || r.sheet.fields[0].hint.Text() != r.sheet.fields[0].meaning {
		t.Errorf("%q, %q", r.sheet.fields[0].hint.Text(), r.sheet.fields[1].hint.Text())
	}
	r.ask("q")
	if v := r.view; v.System != "Kurz." || v.Params.Temperature != "0,7" || v.Params.TopP != "" {
		t.Errorf("%+v", v.Params)
	}
	r.newChat()
	r.until("a new chat", func() bool { return len(r.view.Messages) == 0 })
	if r.sheet.system.Text != "" || r.sheet.fields[0].entry.Text != "" {
		t.Error("a new chat has the settings of the one before")
	}
}

// The view follows an answer only while the reader is at its end.
func TestFollow(t *testing.T) {
	hold := make(chan struct{})
	e := newEngine(t, gatewaytest.Script{Pieces: []string{strings.Repeat("A long paragraph of many words. ", 100) + "\n\n" + strings.Repeat("line\n\n", 100)}},
		gatewaytest.Script{Pieces: []string{strings.Repeat("more\n\n", 100)}, Hold: hold})
	r := open(t, e, t.TempDir(), "en", theme.Dark, 900, 500)
	r.ask("q")
	end := func() float32 { return r.talk.body.total - r.talk.scroll.Size().Height }
	if got := r.talk.scroll.Offset.Y; got != end() || end() < 100 || r.newest.Visible() {
		t.Errorf("at %v of %v", got, end())
	}
	r.typed("again")
	r.enter()
	r.until("the question", func() bool { return len(r.view.Messages) == 4 })
	r.talk.scroll.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, 900)})
	at := r.talk.scroll.Offset.Y
	if !r.newest.Visible() || at >= end()-500 {
		t.Errorf("at %v of %v", at, end())
	}
	close(hold)
	r.settled()
	if r.talk.scroll.Offset.Y != at {
		t.Errorf("the reader was moved from %v to %v", at, r.talk.scroll.Offset.Y)
	}
	r.tap("Jump to newest")
	if r.talk.scroll.Offset.Y != end() || r.newest.Visible() {
		t.Errorf("at %v of %v", r.talk.scroll.Offset.Y, end())
	}
}

// TestTabLeavesTheQuestion: the field kept Tab for itself, so that the keyboard
// could not leave it.
func TestTabLeavesTheQuestion(t *testing.T) {
	var f fyne.Tabbable = &questionEntry{}
	if f.AcceptsTab() {
		t.Error("the question's field takes Tab")
	}
}
