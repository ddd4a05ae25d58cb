package gateway

import (
	"neuron/engine/gateway/logprob"
	"neuron/engine/gateway/textscan"
	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// writer turns one answer's tokens into what its sink gets: whole characters,
// cut at stop strings, and calls told from text.
type writer struct {
	x     *exchange
	i     int // the answer
	scan  *textscan.Scanner
	spans *logprob.Spans
	calls *toolcall.Parser // nil: all is text
	ended bool             // the one call that was allowed is complete
	// channels reads answers that come in channels; calls is nil then.
	channels *toolcall.Channels
}

func newWriter(x *exchange, i int) *writer {
	w := &writer{x: x, i: i, scan: textscan.New(x.job.p.stops), spans: &logprob.Spans{On: x.job.p.sampler.Logprobs}}
	switch c := x.job.caller; {
	case c == nil:
	case c.form.Channels():
		w.channels = toolcall.NewChannels(len(c.tools) > 0)
		if c.markers != nil {
			w.scan = textscan.New(nil) // until there is content
		}
	default:
		w.calls = toolcall.NewParser(c.form, c.tools)
	}
	return w
}

// token takes a token; stopped says that the answer is over. Errors mean that
// the client is gone.
func (w *writer) token(tok protocol.Token) (stopped bool, err error) {
	if w.channels != nil {
		if mark := w.x.job.caller.markers[tok.ID]; mark != "" {
			return w.mark(mark)
		}
	}
	if c := w.x.job.caller; c != nil && len(tok.Piece) == 0 && c.markers[tok.ID] != "" {
		tok.Piece = []byte(c.markers[tok.ID])
	}
	w.spans.Add(tok)
	text, stopped := w.scan.Feed(tok.Piece)
	if err := w.show(text); err != nil {
		return false, err
	}
	if stopped {
		return true, w.flush()
	}
	return w.ended || w.channels != nil && w.channels.Over(), nil
}

// mark takes a token that is a mark of the form: what was held back of the text
// before it comes out, and stop strings count from here on if content follows.
func (w *writer) mark(mark string) (over bool, err error) {
	if err := w.show(w.scan.Finish()); err != nil {
		return false, err
	}
	if err := w.events(w.channels.Mark(mark), nil); err != nil {
		return false, err
	}
	var stops []string
	if w.channels.Content() {
		stops = w.x.job.p.stops
	}
	w.scan, w.spans = textscan.New(stops), &logprob.Spans{On: w.spans.On}
	return w.channels.Over(), nil
}

// finish shows what was held back.
func (w *writer) finish() error {
	if err := w.show(w.scan.Finish()); err != nil {
		return err
	}
	return w.flush()
}

func (w *writer) flush() error {
	switch {
	case w.channels != nil:
		return w.events(w.channels.Finish(), nil)
	case w.calls == nil || w.ended:
		return nil
	}
	return w.events(w.calls.Finish(), nil)
}

func (w *writer) show(text string) error {
	toks := w.spans.Release(w.scan.Emitted())
	switch {
	case w.channels != nil && w.x.job.caller.markers != nil:
		return w.events(w.channels.Text(text), toks)
	case w.channels != nil:
		return w.events(w.channels.Feed(text), toks)
	case w.calls != nil && !w.ended:
		return w.events(w.calls.Feed(text), toks)
	case w.ended || text == "" && len(toks) == 0:
		return nil
	}
	return w.x.sent(w.x.sink.text(w.i, text, toks))
}

// events hands on what the parser made of a text; toks are its tokens, which
// go with the text among it. Calls have no probabilities, as with OpenAI.
func (w *writer) events(es []toolcall.Event, toks []protocol.Token) error {
	for _, e := range es {
		if e.Text != "" {
			if err := w.x.sent(w.x.sink.text(w.i, e.Text, toks)); err != nil {
				return err
			}
			toks = nil
			continue
		}
		if e.Thought != "" {
			if err := w.x.sent(w.x.sink.thought(w.i, e.Thought)); err != nil {
				return err
			}
			continue
		}
		id := ""
		if e.Name != "" {
			id = w.x.job.caller.callID()
		}
		if e.Name != "" || e.Args != "" {
			if err := w.x.sent(w.x.sink.call(w.i, e, id)); err != nil {
				return err
			}
		}
		if e.End && w.x.job.caller.single {
			w.ended = true
			return nil
		}
	}
	return nil
}

// reason is how the answer ended for the client.
func (w *writer) reason(r protocol.FinishReason) protocol.FinishReason {
	called := w.calls != nil && w.calls.Calls() > 0 || w.channels != nil && w.channels.Calls() > 0
	if r == protocol.FinishStop && called && !w.x.job.caller.named {
		return finishToolCalls
	}
	return r
}
