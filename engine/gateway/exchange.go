package gateway

import (
	"context"
	"time"

	"neuron/engine/gateway/admit"
	"neuron/engine/gateway/recent"
	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// finishToolCalls is OpenAI's reason for an answer that ends in calls; the
// session itself has stopped.
const finishToolCalls protocol.FinishReason = "tool_calls"

// Times of an exchange.
const (
	// grace is how long a stream waits for its first token before it sends
	// headers, so that early failures are plain HTTP errors. Streams with
	// telemetry do not wait.
	grace = time.Second
	// telemetryEvery is the least time between snapshots of one phase.
	telemetryEvery = 250 * time.Millisecond
	// telemetryLast is how long the last snapshot is waited for.
	telemetryLast = 2 * time.Second
)

// promptIDs is one prompt of a request.
type promptIDs struct {
	ids       []int32
	echo      string // text in front of the answer
	maxTokens int
}

// job is a request that was checked and tokenized; it only has to run.
type job struct {
	id      string // "chatcmpl-..." or "cmpl-..."
	created int64
	name    string // the model's name in answers
	model   string // what the backend is asked for
	prompts []promptIDs
	p       params
	caller  *caller // nil: answers are text
}

// sink receives an exchange's output in order, from one goroutine. Errors mean
// that the client is gone.
type sink interface {
	// begin tells a session's id as soon as it is known.
	begin(id protocol.SessionID) error
	// commit sends what can be sent before the first text.
	commit() error
	// text adds to answer i; tokens are those whose text begins in it, only
	// with logprobs asked for.
	text(i int, delta string, tokens []protocol.Token) error
	// thought adds to what the model thought before answer i.
	thought(i int, delta string) error
	// call adds to call e.Call of answer i; id is set at a call's beginning.
	call(i int, e toolcall.Event, id string) error
	finish(i int, reason protocol.FinishReason) error
	telemetry(t protocol.Telemetry) error
	// idle keeps the connection alive.
	idle() error
	done(u usage) error
	fail(e *protocol.Error)
}

// usage is OpenAI's usage object.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`

	PromptDetails promptDetails `json:"prompt_tokens_details,omitzero"`
}

// promptDetails is OpenAI's object for the prompt's part of usage.
type promptDetails struct {
	// CachedTokens are prompt tokens that no hop had to compute, of the first
	// answer to each prompt.
	CachedTokens int `json:"cached_tokens"`
}

// exchange runs one job in the handler's goroutine.
type exchange struct {
	g    *Gateway
	job  *job
	sink sink

	usage     usage
	started   time.Time
	lastPhase protocol.Phase
	lastSent  time.Time
	keepAlive *time.Timer
	grace     *time.Timer
}

// run makes all answers and reports to the sink. The result is for the log.
func (g *Gateway) run(ctx context.Context, j *job, s sink) *protocol.Error {
	x := &exchange{g: g, job: j, sink: s, started: g.o.Now()}
	x.keepAlive = time.NewTimer(g.o.KeepAlive)
	defer x.keepAlive.Stop()
	x.grace = time.NewTimer(grace)
	defer x.grace.Stop()

	err := x.answers(ctx)
	if err == nil {
		if werr := s.done(x.usage); werr != nil {
			err = gone(ctx)
		}
	} else if ctx.Err() == nil || err.Code == protocol.CodeShutdown {
		s.fail(err)
	}
	g.metrics.tokens.WithLabelValues("prompt").Add(float64(x.usage.PromptTokens))
	g.metrics.tokens.WithLabelValues("completion").Add(float64(x.usage.CompletionTokens))
	code := "ok"
	if err != nil {
		code = string(err.Code)
	}
	g.metrics.generations.WithLabelValues(code).Inc()
	g.o.Logger.Info("answered", "request", j.id, "model", j.name, "code", code, "prompt_tokens", x.usage.PromptTokens,
		"completion_tokens", x.usage.CompletionTokens, "took", g.o.Now().Sub(x.started))
	return err
}

func (x *exchange) answers(ctx context.Context) *protocol.Error {
	tk, err := x.g.queue.Join()
	if err != nil {
		return err
	}
	defer tk.Leave()
	if err := x.await(ctx, tk); err != nil {
		return err
	}
	for pi := range x.job.prompts {
		x.usage.PromptTokens += len(x.job.prompts[pi].ids)
		for k := range x.job.p.n {
			if err := x.answer(ctx, &x.job.prompts[pi], pi*x.job.p.n+k, k); err != nil {
				return err
			}
		}
	}
	x.usage.TotalTokens = x.usage.PromptTokens + x.usage.CompletionTokens
	return nil
}

// await waits for the request's turn.
func (x *exchange) await(ctx context.Context, tk *admit.Ticket) *protocol.Error {
	select {
	case <-tk.Ready():
		return nil
	default:
	}
	var poll <-chan time.Time
	if x.job.p.telemetry {
		t := time.NewTicker(telemetryEvery)
		defer t.Stop()
		poll = t.C
	}
	for seq, last := uint64(1), 0; ; {
		if pos := tk.Position(); x.job.p.telemetry && pos > 0 && pos != last {
			t := x.snapshot("")
			t.Seq, t.QueuePosition = seq, pos
			seq, last = seq+1, pos
			if x.sent(x.sink.telemetry(t)) != nil {
				return gone(ctx)
			}
		}
		select {
		case <-tk.Ready():
			return nil
		case <-x.g.drain.Refusing:
			return errShutdown // it has not begun
		case <-poll:
		case <-ctx.Done():
			return gone(ctx)
		case <-x.grace.C:
			if x.sink.commit() != nil {
				return gone(ctx)
			}
		case <-x.keepAlive.C:
			if x.sent(x.sink.idle()) != nil {
				return gone(ctx)
			}
		}
	}
}

// snapshot is what can be told of a session that the backend has not described.
func (x *exchange) snapshot(id protocol.SessionID) protocol.Telemetry {
	now := x.g.o.Now()
	return protocol.Telemetry{Session: id, Request: x.job.id, Name: x.job.name, Phase: protocol.PhaseQueued, At: now,
		ElapsedMillis: float64(now.Sub(x.started)) / float64(time.Millisecond)}
}

// sent restarts the keep-alive time after something was sent.
func (x *exchange) sent(err error) error {
	x.keepAlive.Reset(x.g.o.KeepAlive)
	return err
}

// gone is why ctx ended: a shutdown, or the client left.
func gone(ctx context.Context) *protocol.Error {
	if e := protocol.AsError(context.Cause(ctx)); e != nil && e.Code == protocol.CodeShutdown {
		return e
	}
	return protocol.Errorf(protocol.CodeCancelled, "the client left")
}

// answer makes answer i in a session of its own; k is its number among the
// answers to the same prompt.
func (x *exchange) answer(ctx context.Context, pr *promptIDs, i, k int) *protocol.Error {
	g := x.g
	sampler := x.job.p.sampler
	sampler.Seed += uint32(k)
	gen, gerr := g.o.Backend.Generate(ctx, GenerateRequest{Request: x.job.id, Model: x.job.model, Prompt: pr.ids,
		MaxTokens: pr.maxTokens, Sampler: sampler, Policy: x.job.p.policy, NoDraft: x.job.p.noDraft,
		NoPrefix: x.job.p.noPrefix, Client: client(ctx)})
	if gerr != nil {
		return protocol.AsError(gerr)
	}
	defer func() {
		gen.Cancel()
		for range gen.Tokens() { // the session's owner must not block on us
		}
	}()
	g.recent.Add(gen.Session())
	if x.sink.begin(gen.Session()) != nil {
		return gone(ctx)
	}
	var watch <-chan protocol.Telemetry
	if x.job.p.telemetry {
		wctx, stop := context.WithCancel(ctx)
		defer stop()
		watch = g.o.Backend.Watch(wctx, gen.Session())
		t, ok := g.o.Backend.Telemetry(gen.Session())
		if !ok {
			t = x.snapshot(gen.Session())
		}
		x.lastPhase = ""
		if x.report(t) != nil {
			return gone(ctx)
		}
	}
	reason, err := x.tokens(ctx, gen, watch, pr, i)
	if err != nil {
		if x.job.p.telemetry && ctx.Err() == nil {
			_ = x.last(gen, watch, "") // the request fails with err already
		}
		return err
	}
	if t, ok := g.o.Backend.Telemetry(gen.Session()); ok && k == 0 {
		x.usage.PromptDetails.CachedTokens += t.PrefillCached
	}
	seen := reason
	if seen == finishToolCalls {
		seen = protocol.FinishStop
	}
	g.recent.Finished(gen.Session(), seen)
	if x.sent(x.sink.finish(i, reason)) != nil {
		return gone(ctx)
	}
	if x.job.p.telemetry && x.last(gen, watch, seen) != nil {
		return gone(ctx)
	}
	return nil
}

// tokens turns a session's tokens into text until it ends or a stop string is
// complete.
func (x *exchange) tokens(ctx context.Context, gen Generation, watch <-chan protocol.Telemetry, pr *promptIDs, i int) (protocol.FinishReason, *protocol.Error) {
	out := newWriter(x, i)
	if pr.echo != "" && x.sent(x.sink.text(i, pr.echo, nil)) != nil {
		return "", gone(ctx)
	}
	count, ended := 0, false
	for {
		select {
		case tok, open := <-gen.Tokens():
			if !open {
				return x.ended(ctx, gen, out)
			}
			if tok.EOG || ended {
				ended = true
				continue
			}
			if count++; count > pr.maxTokens {
				return "", protocol.Errorf(protocol.CodeInternal, "the session made more tokens than asked for").InPhase(protocol.PhaseDecode)
			}
			x.usage.CompletionTokens++
			if count == 1 {
				x.g.metrics.firstToken.Observe(x.g.o.Now().Sub(x.started).Seconds())
			}
			stopped, err := out.token(tok)
			if err != nil {
				return "", gone(ctx)
			}
			if stopped {
				gen.Cancel()
				return out.reason(protocol.FinishStop), nil
			}
		case t, open := <-watch:
			if !open {
				watch = nil
				continue
			}
			if !t.Phase.Ended() && x.report(t) != nil {
				return "", gone(ctx)
			}
		case <-x.grace.C:
			if x.sink.commit() != nil {
				return "", gone(ctx)
			}
		case <-x.keepAlive.C:
			if x.sent(x.sink.idle()) != nil {
				return "", gone(ctx)
			}
		case <-ctx.Done():
			gen.Cancel()
			return "", gone(ctx)
		}
	}
}

// ended judges a session whose tokens are over, and shows what out held back.
func (x *exchange) ended(ctx context.Context, gen Generation, out *writer) (protocol.FinishReason, *protocol.Error) {
	if ctx.Err() != nil {
		return "", gone(ctx)
	}
	reason, err := gen.Result()
	switch {
	case err != nil:
		return "", err
	case reason == protocol.FinishStop || reason == protocol.FinishLength:
		if out.finish() != nil {
			return "", gone(ctx)
		}
		return out.reason(reason), nil
	case reason == protocol.FinishCancelled:
		return "", protocol.Errorf(protocol.CodeCancelled, "the session was cancelled")
	}
	return "", protocol.Errorf(protocol.CodeInternal, "the session ended without a reason")
}

// report sends a snapshot, at once when the phase changed, else no more often
// than telemetryEvery.
func (x *exchange) report(t protocol.Telemetry) error {
	now := time.Now()
	if t.Phase == x.lastPhase && now.Sub(x.lastSent) < telemetryEvery {
		return nil
	}
	x.lastPhase, x.lastSent = t.Phase, now
	return x.sent(x.sink.telemetry(t))
}

// last sends the final snapshot. reason is how the answer ended for the
// client, "" for a failure: after a stop string the session itself was
// cancelled, which is not what the client should read.
func (x *exchange) last(gen Generation, watch <-chan protocol.Telemetry, reason protocol.FinishReason) error {
	gen.Cancel()
	limit := time.NewTimer(telemetryLast)
	defer limit.Stop()
	tokens := gen.Tokens()
	for watch != nil || tokens != nil {
		select {
		case t, open := <-watch:
			if !open || t.Phase.Ended() {
				watch = nil
			}
		case _, open := <-tokens:
			if !open {
				tokens = nil
			}
		case <-limit.C:
			watch, tokens = nil, nil
		}
	}
	t, ok := x.g.o.Backend.Telemetry(gen.Session())
	if !ok {
		t = x.snapshot(gen.Session())
	}
	return x.sent(x.sink.telemetry(recent.Corrected(t, reason)))
}
