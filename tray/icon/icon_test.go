package icon

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"neuron/assets/icons"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
	"neuron/tray/menu"
)

// script is a Bar that writes down what is asked of it.
type script struct {
	mu     sync.Mutex
	calls  []string
	clicks map[menu.ID]chan struct{}
}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *script) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls
	s.calls = nil
	return c
}

func (s *script) SetIcon(i icons.State)  { s.note("icon %s", i) }
func (s *script) SetTooltip(text string) { s.note("tooltip %s", text) }
func (s *script) AddLine()               { s.note("line") }
func (s *script) Add(parent Item, i menu.Item) (Item, <-chan struct{}) {
	p := ""
	if parent != nil {
		p = " in " + string(parent.(line).id)
	}
	s.note("add %s%s", i.ID, p)
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clicks[i.ID] = c
	return line{s, i.ID}, c
}

type line struct {
	s  *script
	id menu.ID
}

func (l line) SetTitle(t string)  { l.s.note("%s title %s", l.id, t) }
func (l line) SetChecked(on bool) { l.s.note("%s checked %v", l.id, on) }
func (l line) SetEnabled(on bool) { l.s.note("%s enabled %v", l.id, on) }
func (l line) SetVisible(on bool) { l.s.note("%s visible %v", l.id, on) }

var w = words.New("en")

func view(tokens float64, p localapi.Sharing) menu.View {
	no := false
	return menu.Make(menu.Input{OnlyAway: &no, Now: time.Unix(0, 0), State: link.State{Phase: link.Connected, Event: localapi.Event{Status: localapi.Status{
		Sharing: true, Policy: &p, Work: &localapi.Work{TokensPerSecond: tokens},
	}}}}, w)
}

var on = localapi.Sharing{State: protocol.SharingOn}

func TestOnlyWhatChangesIsDrawn(t *testing.T) {
	t.Parallel()
	bar := &script{clicks: map[menu.ID]chan struct{}{}}
	now := time.Unix(1000, 0)
	b := NewBoard(bar, view(1, on), now)
	defer b.Close()
	want := []string{
		"icon sharing",
		"add sentence", "line", "add share", "add pause", "add pause_30 in pause", "add pause_60 in pause", "add pause_180 in pause",
		"add pause_tomorrow in pause", "add pause_until_resumed in pause", "add resume", "add only_away", "line", "add open", "add start", "line", "add quit",
	}
	if got := bar.take(); !slices.Equal(got, want) {
		t.Errorf("at first %q", got)
	}
	if again := b.Show(view(1, on), now); again != TooltipEvery || len(bar.take()) != 0 {
		t.Error("the tooltip comes at once")
	}
	now = now.Add(TooltipEvery)
	if again := b.Show(view(1, on), now); again != 0 || !slices.Equal(bar.take(), []string{"tooltip Neuron: Sharing this computer.\n1.0 tokens/s"}) {
		t.Error("the tooltip does not come")
	}
	if again := b.Show(view(1, on), now); again != 0 || len(bar.take()) != 0 {
		t.Error("drawn without a change")
	}
	// Figures change many times a second; the tooltip once.
	for i := range 10 {
		now = now.Add(50 * time.Millisecond)
		if again := b.Show(view(float64(2+i), on), now); again <= 0 || again > TooltipEvery {
			t.Errorf("to be called again in %v", again)
		}
	}
	if got := bar.take(); len(got) != 0 {
		t.Errorf("drawn too soon: %q", got)
	}
	now = now.Add(TooltipEvery)
	if again := b.Show(view(11, on), now); again != 0 {
		t.Errorf("to be called again in %v", again)
	}
	if got := bar.take(); !slices.Equal(got, []string{"tooltip Neuron: Sharing this computer.\n11.0 tokens/s"}) {
		t.Errorf("%q", got)
	}
	// A change of state is drawn at once, items and all.
	b.Show(view(0, localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingUserPause}), now)
	if got := bar.take(); !slices.Equal(got, []string{"icon paused", "sentence title Paused by you.", "pause visible false", "resume visible true"}) {
		t.Errorf("%q", got)
	}
}

func TestClicksAreTold(t *testing.T) {
	t.Parallel()
	bar := &script{clicks: map[menu.ID]chan struct{}{}}
	b := NewBoard(bar, view(1, on), time.Unix(0, 0))
	bar.clicks[menu.Pause60] <- struct{}{}
	if id := <-b.Clicked(); id != menu.Pause60 {
		t.Errorf("%s", id)
	}
	for range 100 { // nobody listens: nothing blocks
		bar.clicks[menu.Share] <- struct{}{}
	}
	close(bar.clicks[menu.Open]) // the item was removed
	b.Close()
}

func TestLongTooltipsAreCut(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "short", string(make([]rune, 200)), "😀😀😀😀😀😀😀😀😀😀"} {
		got := fit(s, 9)
		if n := len(utf16.Encode([]rune(got))); n > 9 || len(s) <= 9 && got != s {
			t.Errorf("%q became %q with %d units", s, got, n)
		}
	}
}
