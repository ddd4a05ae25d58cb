package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/chat/thread"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
	"neuron/engine/gateway/gatewaytest"
)

// longChat is a view of a chat with 100,000 characters before the answer that is
// being written.
func longChat() *vm.View {
	v := &vm.View{Chat: 1, Version: 1, Answering: true}
	text := longAnswer + "\n\n" + strings.Repeat("And a paragraph of plain words that say nothing in particular, but take their room. ", 8)
	for size := 0; size < 100_000; size += len(text) {
		id := thread.ID(len(v.Messages) + 10)
		v.Messages = append(v.Messages, vm.Message{ID: id, User: true, Text: "A question of middling length?", Place: 1, Of: 1},
			vm.Message{ID: id + 1, Name: "model", Text: text, Place: 1, Of: 1})
	}
	v.Messages = append(v.Messages, vm.Message{ID: 2, User: true, Text: "The last question", Place: 1, Of: 1}, vm.Message{ID: 3, Name: "model", Writing: true, Place: 1, Of: 1})
	return v
}

// walk does what the driver does with all visible objects before each frame.
func walk(o fyne.CanvasObject) int {
	if !o.Visible() {
		return 0
	}
	n := 1
	var children []fyne.CanvasObject
	switch o := o.(type) {
	case *fyne.Container:
		children = o.Objects
	case fyne.Widget:
		children = test.WidgetRenderer(o).Objects()
	}
	for _, x := range children {
		n += walk(x)
	}
	o.MinSize()
	return n
}

// streams feeds an answer of 6,000 characters into the long chat, five tokens at
// each update, which are 50 tokens a second, and gives the time of each update
// with the driver's walk.
func streams(t testing.TB, r *rig, v *vm.View) (times []time.Duration, objects int) {
	answer := strings.Repeat(longAnswer+"\n\n", 6)
	const step = 25 // characters of five tokens
	last := &v.Messages[len(v.Messages)-1]
	for n := step; n < len(answer); n += step {
		last.Text = strings.ToValidUTF8(answer[:n], "")
		start := time.Now()
		r.showMessages(v)
		objects = walk(r.w.Content())
		times = append(times, time.Since(start))
	}
	return times, objects
}

// An update must fit into a frame of 60 a second, also in a long chat. The bound
// is wide for slow and busy machines; docs have the figures.
func TestUpdateOfALongChatIsQuick(t *testing.T) {
	r := open(t, newEngine(t, gatewaytest.Script{Pieces: []string{"x"}}), t.TempDir(), "en", theme.Dark, 1120, 780)
	v := longChat()
	start := time.Now()
	r.showMessages(v)
	first := time.Since(start)
	times, objects := streams(t, r, v)
	var sum, worst time.Duration
	for _, d := range times {
		sum += d
		worst = max(worst, d)
	}
	mean := sum / time.Duration(len(times))
	slices.Sort(times)
	t.Logf("first view %s; %d updates: mean %s, half within %s, 99 %% within %s, worst %s; %d objects",
		first, len(times), mean, times[len(times)/2], times[len(times)*99/100], worst, objects)
	if mean > 50*time.Millisecond {
		t.Errorf("an update takes %s", mean)
	}
	if objects > 2500 {
		t.Errorf("%d objects exist: rows out of sight are not left out", objects)
	}
}

// BenchmarkStream gives the time of one update.
func BenchmarkStream(b *testing.B) {
	r := open(b, newEngine(b, gatewaytest.Script{Pieces: []string{"x"}}), b.TempDir(), "en", theme.Dark, 1120, 780)
	v := longChat()
	r.showMessages(v)
	answer := strings.Repeat(longAnswer+"\n\n", 6)
	last := &v.Messages[len(v.Messages)-1]
	n := 0
	for b.Loop() {
		if n += 25; n >= len(answer) {
			n = 25
		}
		last.Text = strings.ToValidUTF8(answer[:n], "")
		r.showMessages(v)
		walk(r.w.Content())
	}
	b.ReportMetric(float64(len(fmt.Sprint(v.Messages))), "chars")
}
