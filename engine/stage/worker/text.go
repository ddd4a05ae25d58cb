package worker

import (
	"context"
	"encoding/json"
	"runtime/metrics"
	"sync"
	"time"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/engine/stage/worker/sampling"
	"neuron/llama"
)

// call does text work.
func (st *state) call(f *protocol.Frame) {
	var c wire.Call
	var r wire.Reply
	err := json.Unmarshal(f.Payload, &c)
	switch {
	case err != nil:
		err = protocol.Errorf(protocol.CodeFrameInvalid, "call: %w", err)
	case st.vocab == 0, st.vocab.Type() == llama.VocabNone:
		err = protocol.Errorf(protocol.CodeUnsupported, "this stage has no vocabulary")
	case c.Op == wire.OpTokenize:
		r.IDs, err = st.vocab.Tokenize(c.Text, c.AddSpecial, c.ParseSpecial)
	case c.Op == wire.OpDetokenize:
		for _, id := range c.IDs {
			var piece []byte
			if piece, err = st.vocab.Piece(id, c.Special); err != nil {
				break
			}
			r.Bytes = append(r.Bytes, piece...)
		}
	case c.Op == wire.OpGrammar:
		var g llama.Sampler
		if g, err = llama.Grammar(st.vocab, c.Grammar, "root"); err == nil {
			g.Free()
		} else {
			err = sampling.GrammarError(err)
		}
	case c.Op == wire.OpRender && !st.cfg.VocabOnly:
		err = protocol.Errorf(protocol.CodeUnsupported, "templates run in the process of a tokenizer alone")
	case c.Op == wire.OpRender && c.Render == nil:
		err = protocol.Errorf(protocol.CodeFrameInvalid, "call: nothing to render")
	case c.Op == wire.OpRender:
		r.Rendered, err = st.render(&c)
	default:
		err = protocol.Errorf(protocol.CodeUnknownMessage, "unknown call %.32q", c.Op)
	}
	if err != nil {
		r = wire.Reply{Error: protocol.AsError(coded(err))}
	}
	st.w.sendJSON(protocol.KindReply, f.Slot, r)
}

// render runs the model's chat template, which came with the model and is as
// hostile as that. The language bounds loops and time; what one expression of
// it can take in memory nothing bounds but a watch over the whole process.
func (st *state) render(c *wire.Call) (*chattmpl.Output, error) {
	if st.templates == nil {
		st.templates = chattmpl.NewCache(1)
		st.template = st.model.ChatTemplate()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { watchMemory(ctx, maxTemplateMemory) })
	defer watch.Wait()
	defer cancel()
	out, err := st.templates.Run(ctx, st.template, *c.Render, c.Spans)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

const (
	// maxTemplateMemory is what the process may use in Go while a template
	// runs, in bytes. A conversation of 8 MiB needs some 100 MiB.
	maxTemplateMemory = 512 << 20
	watchEvery        = 5 * time.Millisecond
)

// watchMemory ends the process when it takes more than limit bytes before ctx
// ends: there is no way to stop an expression. The parent starts another one
// and tells the client.
func watchMemory(ctx context.Context, limit uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		if sample[0].Value.Uint64()+sample[1].Value.Uint64() > limit {
			panic("a chat template takes too much memory")
		}
	}
}
