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
}

func newWriter(x *exchange, i int) *writer {
	w := &writer{x: x, i: i, scan: textscan.New(x.job.p.stops), spans: &logprob.Spans{On: x.job.p.sampler.Logprobs}}
	if c := x.job.caller; c != nil {
		w.calls = toolcall.NewParser(c.form, c.tools)
	}
	return w
}

// token takes a token; stopped says that the answer is over. Errors mean that
// the client is gone.
func (w *writer) token(tok protocol.Token) (stopped bool, err error) {
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
	return w.ended, nil
}

// finish shows what was held back.
func (w *writer) finish() error {
	if err := w.show(w.scan.Finish()); err != nil {
		return err
	}
	return w.flush()
}

func (w *writer) flush() error {
	if w.calls == nil || w.ended {
		return nil
	}
	return w.events(w.calls.Finish(), nil)
}

func (w *writer) show(text string) error {
	toks := w.spans.Release(w.scan.Emitted())
	switch {
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
	if r == protocol.FinishStop && w.calls != nil && w.calls.Calls() > 0 && !w.x.job.caller.named {
		return finishToolCalls
	}
	return r
}
