package chat

import (
	"fmt"
	"strings"
	"testing"

	"fyne.io/fyne/v2"

	"neuron/app/ui/uitest"
	vm "neuron/app/viewmodel/chat"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

const longAnswer = `## Wie ein Modell verteilt rechnet

Ein Modell besteht aus **Schichten**, die nacheinander rechnen. Jeder Computer hält einen *zusammenhängenden* Bereich davon und gibt den Zustand an den nächsten weiter; siehe [die Erklärung](https://example.org/layers) oder ` + "`neuron-engine status`" + `.

1. Der erste Computer liest die Frage.
2. Die mittleren rechnen ihre Schichten:
   - ohne Wörterbuch
   - mit eigenem Zwischenspeicher
3. Der letzte wählt das nächste Wort.

> Was über eine öffentliche Route geht, können andere Computer lesen.

` + "```go\nfunc (r *Route) Step(ctx context.Context, x []float32) ([]float32, error) {\n\tfor _, hop := range r.hops {\n\t\tvar err error\n\t\tif x, err = hop.Run(ctx, x); err != nil {\n\t\t\treturn nil, fmt.Errorf(\"hop %d: %w\", hop.Index, err)\n\t\t}\n\t}\n\treturn x, nil\n}\n```" + `

| Computer | Schichten | Zeit je Token |
|---|---|---:|
| Küche | 0–11 | 3,2 ms |
| Arbeitszimmer | 12–23 | 2,9 ms |

---
Das war es.`

var route = []protocol.HopTelemetry{
	{Node: "a", Use: protocol.Range{First: 0, Last: 12}, Health: "ok", Counters: protocol.Counters{DecodeSteps: 10, DecodeMicros: 32000}},
	{Hop: 1, Node: "b", Use: protocol.Range{First: 12, Last: 24}, Health: "slow", Counters: protocol.Counters{DecodeSteps: 10, DecodeMicros: 129000}},
	{Hop: 2, Node: "c", Use: protocol.Range{First: 24, Last: 32}, Health: "ok", Counters: protocol.Counters{DecodeSteps: 10, DecodeMicros: 21000}},
}

func (r *rig) picture(name string) {
	r.t.Helper()
	r.update()
	uitest.Settle(r.w)
	r.talk.arrange()
	uitest.Picture(r.t, r.w, name)
}

// TestMasters holds the page against its masters: with nothing asked, and with an
// answer of all that answers are made of.
func TestMasters(t *testing.T) {
	for _, mode := range uitest.Themes {
		r := open(t, newEngine(t, gatewaytest.Script{Pieces: []string{"x"}}), t.TempDir(), "en", mode, 1120, 780)
		r.picture("chat-master-empty-" + string(mode))
		uitest.Master(t, r.w, mode, "chat-empty")
		r.showMessages(&vm.View{Chat: 1, Version: 1, Messages: []vm.Message{
			{ID: 1, User: true, Text: "How does a distributed model compute?", Place: 1, Of: 1},
			{ID: 2, Name: "model", Text: longAnswer, Place: 2, Of: 2},
		}})
		uitest.Settle(r.w)
		r.talk.arrange()
		uitest.Picture(t, r.w, "chat-master-answer-"+string(mode))
		uitest.Master(t, r.w, mode, "chat-answer")
	}
}

// TestPictures shows the page's states in both themes and all languages, for
// those who look.
func TestPictures(t *testing.T) {
	for _, language := range []string{"de", "en", "fr"} {
		for _, mode := range uitest.Themes {
			t.Run(fmt.Sprint(language, "-", mode), func(t *testing.T) {
				hold := make(chan struct{})
				defer close(hold)
				e := newEngine(t, gatewaytest.Script{Pieces: []string{"Gern. " + strings.Repeat("Das ist schon eine Weile her. ", 3)}},
					gatewaytest.Script{Pieces: strings.SplitAfter(longAnswer, " ")},
					gatewaytest.Script{Pieces: []string{"Es begann mit"}, Fail: gatewaytest.ErrLost, FailPhase: protocol.PhaseDecode},
					gatewaytest.Script{Refuse: protocol.Errorf(protocol.CodeNoRoute, "no")},
					gatewaytest.Script{Pieces: []string{"x"}, Hold: hold})
				e.route = route
				name := func(state string) string { return "chat-" + state + "-" + language + "-" + string(mode) }
				r := open(t, e, t.TempDir(), language, mode, 1120, 780)
				r.picture(name("empty"))
				r.ask("Erzähle mir etwas über die Donaudampfschifffahrtsgesellschaft")
				r.newChat()
				r.update()
				r.ask("Wie rechnet ein verteiltes Modell?\nBitte mit einem Beispiel in Go.")
				r.talk.scroll.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, 9000)})
				r.picture(name("answer"))
				r.talk.toEnd()
				r.picture(name("answer-end"))
				r.ask("Und wie fing das an?")
				r.picture(name("problem"))
				r.model.SetPrivate(true)
				r.update()
				r.model.Regenerate(r.view.Messages[len(r.view.Messages)-1].ID)
				r.settled()
				r.sheet.open(true)
				r.picture(name("private-sheet"))
				r.sheet.open(false)
				r.typed("Noch eine Frage, die schon unterwegs ist")
				r.enter()
				r.until("it reads", func() bool { return r.view.Strip.Progress >= 0 })
				for _, id := range r.list.ids() {
					if id != r.view.Chat {
						r.model.Delete(id)
					}
				}
				r.picture(name("reading"))
				e.set(link.Absent)
				r.until("no engine", func() bool { return r.engineBar() })
				r.w.Resize(fyne.NewSize(700, 620))
				r.picture(name("no-engine-narrow"))
				r.model.Stop()
				r.settled()
			})
		}
	}
}
