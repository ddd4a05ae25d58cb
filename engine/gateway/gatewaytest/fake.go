// Package gatewaytest holds a fake gateway.Backend with scripted answers, and
// the suite that it and the real backend (engine/session) both pass.
//
// Only tests import it.
package gatewaytest

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// ModelName is the fake's one model.
const ModelName = "fake/model"

// The fake's vocabulary: ids 0 to 255 are bytes, then come control tokens.
const (
	BOS     int32 = 256
	EOS     int32 = 257
	ImStart int32 = 258
	ImEnd   int32 = 259
	Calls   int32 = 260 // [TOOL_CALLS]
	// Of answers in channels, where the template has them.
	Start     int32 = 261
	Channel   int32 = 262
	Constrain int32 = 263
	Message   int32 = 264
	End       int32 = 265
	Call      int32 = 266
	Return    int32 = 267
)

var controls = []struct {
	id   int32
	text string
}{{BOS, "<s>"}, {EOS, "</s>"}, {ImStart, "<|im_start|>"}, {ImEnd, "<|im_end|>"}, {Calls, "[TOOL_CALLS]"},
	{Start, "<|start|>"}, {Channel, "<|channel|>"}, {Constrain, "<|constrain|>"}, {Message, "<|message|>"}, {End, "<|end|>"}, {Call, "<|call|>"}, {Return, "<|return|>"}}

// Script is what one session does.
type Script struct {
	// Pieces are the tokens; Tokens, if set, is used instead.
	Pieces []string
	Tokens []protocol.Token
	// Hold, if set, delays the first token until it is closed or the session
	// is cancelled: a slow prefill.
	Hold <-chan struct{}
	// Endless repeats the pieces until cancelled or full.
	Endless bool
	// Fail ends the session with this error when it reaches FailPhase (in
	// decode: after all pieces).
	Fail      *protocol.Error
	FailPhase protocol.Phase
	// Refuse makes Generate itself fail.
	Refuse *protocol.Error
}

// Fake is an in-memory Backend. Safe for concurrent use.
type Fake struct {
	// Set before use.
	Script   func(r gateway.GenerateRequest) Script
	Context  int
	Template string
	Cached   int // prompt tokens that the network says to have kept

	wg sync.WaitGroup

	mu        sync.Mutex
	requests  []gateway.GenerateRequest
	cancelled int
	sessions  map[protocol.SessionID]*session
	watchers  map[*watcher]bool
}

// New returns a fake whose sessions answer with pieces and then EOG.
func New(pieces ...string) *Fake {
	return &Fake{Context: 512, Script: func(gateway.GenerateRequest) Script { return Script{Pieces: pieces} },
		sessions: map[protocol.SessionID]*session{}, watchers: map[*watcher]bool{}}
}

// Requests are all sessions' requests so far.
func (f *Fake) Requests() []gateway.GenerateRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]gateway.GenerateRequest(nil), f.requests...)
}

// Cancelled counts sessions that were cancelled before their end.
func (f *Fake) Cancelled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancelled
}

// Wait waits for all sessions' goroutines.
func (f *Fake) Wait() { f.wg.Wait() }

func (f *Fake) info() protocol.ModelInfo {
	return protocol.ModelInfo{Model: protocol.ModelID(strings.Repeat("ab", 32)), Name: ModelName, Architecture: "fake", Layers: 2,
		Context: f.Context, Replicas: []int{1, 1}, Routable: true, Seen: time.Unix(1700000000, 0)}
}

// Models implements gateway.Backend.
func (f *Fake) Models(context.Context) ([]protocol.ModelInfo, error) {
	return []protocol.ModelInfo{f.info()}, nil
}

// Text implements gateway.Backend.
func (f *Fake) Text(_ context.Context, model string) (gateway.TextModel, error) {
	if model != ModelName && model != string(f.info().Model) {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "no such model")
	}
	return textModel{f}, nil
}

type textModel struct{ f *Fake }

func (m textModel) Info() protocol.ModelInfo { return m.f.info() }
func (m textModel) ContextLength() int       { return m.f.Context }
func (m textModel) ChatTemplate() string     { return m.f.Template }

// templates compiles for all fakes.
var templates = chattmpl.NewCache(64)

func (m textModel) Render(ctx context.Context, in chattmpl.Input, spans bool) (chattmpl.Output, error) {
	return templates.Run(ctx, m.f.Template, in, spans)
}

// CheckGrammar knows one mistake: a grammar without a rule named root.
func (m textModel) CheckGrammar(_ context.Context, gbnf string) error {
	if !strings.Contains(gbnf, "root ::=") {
		return protocol.Errorf(protocol.CodeGrammarInvalid, "there is no rule named root")
	}
	return nil
}

func (m textModel) BOS() string  { return "<s>" }
func (m textModel) EOS() string  { return "</s>" }
func (m textModel) AddBOS() bool { return true }

func (m textModel) Tokenize(_ context.Context, text string, addSpecial, parseSpecial bool) ([]int32, error) {
	var ids []int32
	if addSpecial {
		ids = append(ids, BOS)
	}
next:
	for len(text) > 0 {
		for _, c := range controls {
			if parseSpecial && strings.HasPrefix(text, c.text) {
				ids, text = append(ids, c.id), text[len(c.text):]
				continue next
			}
		}
		ids, text = append(ids, int32(text[0])), text[1:]
	}
	return ids, nil
}

func (m textModel) Detokenize(_ context.Context, ids []int32, special bool) ([]byte, error) {
	var out []byte
	for _, id := range ids {
		switch {
		case id < 0 || id > Return:
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "token id %d does not exist", id)
		case id < 256:
			out = append(out, byte(id))
		case special:
			out = append(out, controls[id-256].text...)
		}
	}
	return out, nil
}

// session is a running or ended Generation.
type session struct {
	f      *Fake
	id     protocol.SessionID
	tokens chan protocol.Token
	ctx    context.Context
	cancel context.CancelFunc

	// Written by the session's goroutine before tokens is closed.
	finish protocol.FinishReason
	err    *protocol.Error

	// Under f.mu.
	now protocol.Telemetry
}

// Generate implements gateway.Backend.
func (f *Fake) Generate(ctx context.Context, r gateway.GenerateRequest) (gateway.Generation, error) {
	script := f.Script(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	if script.Refuse != nil {
		return nil, script.Refuse
	}
	s := &session{f: f, id: protocol.NewSessionID(), tokens: make(chan protocol.Token)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.now = protocol.Telemetry{Session: s.id, Request: r.Request, Name: ModelName, Phase: protocol.PhaseQueued, Seq: 1,
		At: time.Now(), PrefillTotal: len(r.Prompt), PrefillCached: f.Cached}
	f.sessions[s.id] = s
	f.wg.Add(1)
	go s.run(script, r)
	return s, nil
}

func (s *session) Session() protocol.SessionID   { return s.id }
func (s *session) Tokens() <-chan protocol.Token { return s.tokens }
func (s *session) Cancel()                       { s.cancel() }
func (s *session) Result() (protocol.FinishReason, *protocol.Error) {
	return s.finish, s.err
}

func (s *session) run(script Script, r gateway.GenerateRequest) {
	defer s.f.wg.Done()
	defer s.cancel()
	s.finish, s.err = s.generate(script, r)
	s.update(func(t *protocol.Telemetry) {
		t.Finish, t.Phase = s.finish, protocol.PhaseDone
		if s.finish == protocol.FinishError {
			t.Phase, t.Error = protocol.PhaseFailed, s.err
		}
	})
	close(s.tokens)
}

func (s *session) generate(script Script, r gateway.GenerateRequest) (protocol.FinishReason, *protocol.Error) {
	cancelled := func() (protocol.FinishReason, *protocol.Error) {
		s.f.mu.Lock()
		s.f.cancelled++
		s.f.mu.Unlock()
		return protocol.FinishCancelled, protocol.Errorf(protocol.CodeCancelled, "cancelled")
	}
	failed := func(p protocol.Phase) (protocol.FinishReason, *protocol.Error) {
		return protocol.FinishError, script.Fail.InPhase(p)
	}
	for _, p := range []protocol.Phase{protocol.PhaseRouting, protocol.PhaseOpening, protocol.PhasePrefill} {
		s.update(func(t *protocol.Telemetry) { t.Phase = p })
		if script.Fail != nil && script.FailPhase == p {
			return failed(p)
		}
	}
	if script.Hold != nil {
		select {
		case <-script.Hold:
		case <-s.ctx.Done():
			return cancelled()
		}
	}
	s.update(func(t *protocol.Telemetry) { t.Phase, t.PrefillDone = protocol.PhaseDecode, t.PrefillTotal })
	toks := script.Tokens
	if toks == nil {
		for _, p := range script.Pieces {
			toks = append(toks, protocol.Token{ID: 1, Piece: []byte(p), Logprob: float32(math.NaN())})
		}
	}
	count := 0
	for again := true; again; again = script.Endless {
		for _, tok := range toks {
			if count == r.MaxTokens {
				return protocol.FinishLength, nil
			}
			count++
			select {
			case s.tokens <- tok:
			case <-s.ctx.Done():
				return cancelled()
			}
			s.update(func(t *protocol.Telemetry) { t.Tokens = count })
		}
	}
	if script.Fail != nil {
		return failed(protocol.PhaseDecode)
	}
	if count == r.MaxTokens {
		return protocol.FinishLength, nil
	}
	select {
	case s.tokens <- protocol.Token{ID: EOS, EOG: true}:
	case <-s.ctx.Done():
		return cancelled()
	}
	return protocol.FinishStop, nil
}

// watcher is one Watch call; its channel is written and closed under f.mu.
type watcher struct {
	id protocol.SessionID
	ch chan protocol.Telemetry
}

// update changes a session's snapshot and delivers it.
func (s *session) update(change func(*protocol.Telemetry)) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	change(&s.now)
	s.now.Seq++
	s.now.At = time.Now()
	for w := range s.f.watchers {
		if w.id != "" && w.id != s.id {
			continue
		}
		w.put(s.now)
		if w.id != "" && s.now.Phase.Ended() {
			s.f.dropLocked(w)
		}
	}
}

// put drops the oldest snapshot when the reader is slow.
func (w *watcher) put(t protocol.Telemetry) {
	for {
		select {
		case w.ch <- t:
			return
		default:
		}
		select {
		case <-w.ch:
		default:
		}
	}
}

func (f *Fake) dropLocked(w *watcher) {
	if f.watchers[w] {
		delete(f.watchers, w)
		close(w.ch)
	}
}

// Telemetry implements gateway.Backend.
func (f *Fake) Telemetry(id protocol.SessionID) (protocol.Telemetry, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[id]; s != nil {
		return s.now, true
	}
	return protocol.Telemetry{}, false
}

// Watch implements gateway.Backend.
func (f *Fake) Watch(ctx context.Context, id protocol.SessionID) <-chan protocol.Telemetry {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &watcher{id: id, ch: make(chan protocol.Telemetry, 8)}
	s := f.sessions[id]
	if id != "" && (s == nil || s.now.Phase.Ended()) {
		if s != nil {
			w.ch <- s.now
		}
		close(w.ch)
		return w.ch
	}
	f.watchers[w] = true
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dropLocked(w)
	})
	return w.ch
}

// ErrLost is a failure for scripts.
var ErrLost = protocol.Errorf(protocol.CodeHopLost, "the connection broke: %w", errors.New("reset")).AtHop(1)
