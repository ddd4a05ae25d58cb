package stage

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// Text does a model's text work in a child that has loaded its vocabulary
// alone. The child is started on first use and again after it died, so a
// hostile tokenizer costs one request.
type Text struct {
	// Constant.
	spawn Spawn
	load  wire.Load

	mu    sync.Mutex
	child *child                            // guarded by mu; nil before use and after Close
	calls map[uint32]chan<- *protocol.Frame // guarded by mu
	next  uint32                            // guarded by mu
	shut  bool                              // guarded by mu
}

// NewText returns the text tools of the model in path.
func NewText(s Spawn, nativeDir, path string) *Text {
	return &Text{
		spawn: s, load: wire.Load{NativeDir: nativeDir, Paths: []string{path}, VocabOnly: true},
		calls: map[uint32]chan<- *protocol.Frame{},
	}
}

// About is what the tokenizer says of itself, and the library's version.
func (t *Text) About(ctx context.Context) (about wire.Text, llama string, err error) {
	c, err := t.get(ctx)
	if err != nil {
		return wire.Text{}, "", err
	}
	return c.loaded.Text, c.loaded.Llama, nil
}

// get returns the living child, starting one if needed. Starting happens under
// the lock: others would only start a second one.
func (t *Text) get(ctx context.Context) (*child, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return nil, protocol.Errorf(protocol.CodeShutdown, "the text tools are closed")
	}
	if t.child != nil {
		select {
		case <-t.child.done:
		default:
			return t.child, nil
		}
	}
	c, err := startChild(ctx, t.spawn, t.load, t.handle, nil)
	if err != nil {
		return nil, err
	}
	t.child = c
	return c, nil
}

func (t *Text) handle(f *protocol.Frame) {
	if f.Kind != protocol.KindReply {
		return
	}
	t.mu.Lock()
	ch := t.calls[f.Slot]
	delete(t.calls, f.Slot)
	t.mu.Unlock()
	if ch != nil {
		ch <- f // buffered, one answer per call
	}
}

// call asks the child and waits for its answer.
func (t *Text) call(ctx context.Context, q wire.Call) (*wire.Reply, error) {
	c, err := t.get(ctx)
	if err != nil {
		return nil, err
	}
	ch := make(chan *protocol.Frame, 1)
	t.mu.Lock()
	t.next++
	id := t.next
	t.calls[id] = ch
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.calls, id)
		t.mu.Unlock()
	}()
	if err := c.sendJSON(protocol.KindCall, id, q); err != nil {
		return nil, err
	}
	select {
	case f := <-ch:
		var r wire.Reply
		if err := json.Unmarshal(f.Payload, &r); err != nil {
			return nil, protocol.Errorf(protocol.CodeStageLost, "the text tools' answer is malformed: %w", err)
		}
		if r.Error != nil {
			return nil, r.Error
		}
		return &r, nil
	case <-c.done:
		return nil, c.cause()
	case <-ctx.Done():
		return nil, protocol.Errorf(protocol.CodeTimeout, "text tools: %w", context.Cause(ctx))
	}
}

// Tokenize encodes text; see gateway.TextModel.
func (t *Text) Tokenize(ctx context.Context, text string, addSpecial, parseSpecial bool) ([]int32, error) {
	r, err := t.call(ctx, wire.Call{Op: wire.OpTokenize, Text: text, AddSpecial: addSpecial, ParseSpecial: parseSpecial})
	if err != nil {
		return nil, err
	}
	return r.IDs, nil
}

// Detokenize decodes ids; see gateway.TextModel.
func (t *Text) Detokenize(ctx context.Context, ids []int32, special bool) ([]byte, error) {
	r, err := t.call(ctx, wire.Call{Op: wire.OpDetokenize, IDs: ids, Special: special})
	if err != nil {
		return nil, err
	}
	return r.Bytes, nil
}

// CheckGrammar asks whether the tail's sampler would take a GBNF grammar; see
// gateway.TextModel.
func (t *Text) CheckGrammar(ctx context.Context, gbnf string) error {
	_, err := t.call(ctx, wire.Call{Op: wire.OpGrammar, Grammar: gbnf})
	return err
}

// renderTime is when a child that still runs a template is given up: the
// template language ends by itself after chattmpl.MaxTime, but for single
// expressions. A conversation may be rendered twice (for spans).
const renderTime = 3 * chattmpl.MaxTime

// Render runs the model's chat template in the child; see gateway.TextModel. A
// template that takes too much time or memory costs the child, which the next
// call starts again.
func (t *Text) Render(ctx context.Context, in chattmpl.Input, spans bool) (chattmpl.Output, error) {
	c, err := t.get(ctx)
	if err != nil {
		return chattmpl.Output{}, err
	}
	limit := time.AfterFunc(renderTime, c.kill)
	r, err := t.call(ctx, wire.Call{Op: wire.OpRender, Render: &in, Spans: spans})
	late := !limit.Stop()
	switch {
	case err != nil && ctx.Err() == nil && (late || errors.Is(err, &protocol.Error{Code: protocol.CodeStageLost})):
		return chattmpl.Output{}, protocol.Errorf(protocol.CodeTemplateInvalid, "the model's chat template takes too much time or memory: %w", err)
	case err != nil:
		return chattmpl.Output{}, err
	case r.Rendered == nil:
		return chattmpl.Output{}, protocol.Errorf(protocol.CodeStageLost, "the text tools rendered nothing")
	}
	return *r.Rendered, nil
}

// Close ends the child; later calls fail with shutdown.
func (t *Text) Close() {
	t.mu.Lock()
	t.shut = true
	c := t.child
	t.child = nil
	t.mu.Unlock()
	if c != nil {
		c.stop()
	}
}
