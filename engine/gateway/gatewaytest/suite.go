package gatewaytest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
)

// Env is a backend under test.
type Env struct {
	Backend gateway.Backend
	Model   string
	// Prompt must let the model make at least 8 tokens with IgnoreEOG.
	Prompt []int32
}

// BackendSuite checks what gateway.Backend promises. make is called once per
// test and cleans up through t.
func BackendSuite(t *testing.T, make func(t *testing.T) Env) {
	t.Run("models", func(t *testing.T) {
		e := make(t)
		models, err := e.Backend.Models(t.Context())
		if err != nil || len(models) == 0 {
			t.Fatalf("%d models, %v", len(models), err)
		}
		if _, err := e.Backend.Text(t.Context(), "no such model"); !errors.Is(err, &protocol.Error{Code: protocol.CodeModelUnknown}) {
			t.Errorf("unknown model: %v", err)
		}
	})
	t.Run("text", func(t *testing.T) {
		e := make(t)
		tm, err := e.Backend.Text(t.Context(), e.Model)
		if err != nil {
			t.Fatal(err)
		}
		if n := tm.ContextLength(); n < 1 || n > protocol.MaxContext {
			t.Errorf("context of %d", n)
		}
		for _, special := range []bool{false, true} {
			ids, err := tm.Tokenize(t.Context(), "Hello there", false, special)
			if err != nil || len(ids) == 0 {
				t.Fatalf("%v, %v", ids, err)
			}
			back, err := tm.Detokenize(t.Context(), ids, false)
			if err != nil || string(back) != "Hello there" && string(back) != " Hello there" {
				t.Errorf("round trip gives %q, %v", back, err)
			}
		}
	})
	t.Run("length", func(t *testing.T) {
		e := make(t)
		gen := start(t, e, 4)
		if tm, ok := e.Backend.Telemetry(gen.Session()); !ok || tm.Session != gen.Session() || tm.Phase == "" {
			t.Errorf("telemetry right after the start: %+v, %v", tm, ok)
		}
		n := 0
		for tok := range gen.Tokens() {
			if tok.EOG {
				t.Error("end of generation although it is forbidden")
			}
			n++
		}
		if reason, err := gen.Result(); reason != protocol.FinishLength || err != nil || n != 4 {
			t.Errorf("%d tokens, %s, %v", n, reason, err)
		}
		gen.Cancel() // harmless now
		tm, ok := e.Backend.Telemetry(gen.Session())
		if !ok || tm.Phase != protocol.PhaseDone || tm.Finish != protocol.FinishLength || tm.Tokens != 4 {
			t.Errorf("final telemetry %+v, %v", tm, ok)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		e := make(t)
		gen := start(t, e, 8)
		<-gen.Tokens()
		gen.Cancel()
		gen.Cancel()
		for range gen.Tokens() {
		}
		if reason, err := gen.Result(); reason != protocol.FinishLength && (reason != protocol.FinishCancelled || err == nil) {
			t.Errorf("%s, %v", reason, err)
		}
	})
	t.Run("context", func(t *testing.T) {
		e := make(t)
		ctx, cancel := context.WithCancel(t.Context())
		gen, err := e.Backend.Generate(ctx, request(e, 8))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		gen.Cancel()
		for range gen.Tokens() {
		}
	})
	t.Run("watch", func(t *testing.T) {
		e := make(t)
		gen := start(t, e, 4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		watch := e.Backend.Watch(ctx, gen.Session())
		for range gen.Tokens() {
		}
		order := []protocol.Phase{protocol.PhaseQueued, protocol.PhaseRouting, protocol.PhaseOpening, protocol.PhasePrefill, protocol.PhaseDecode, protocol.PhaseDone}
		var last protocol.Telemetry
		for tm := range watch {
			if tm.Session != gen.Session() || tm.Seq <= last.Seq || slices.Index(order, tm.Phase) < slices.Index(order, last.Phase) {
				t.Errorf("snapshot %+v after %+v", tm, last)
			}
			last = tm
		}
		if last.Phase != protocol.PhaseDone {
			t.Errorf("the last snapshot is %+v, %v", last, ctx.Err())
		}
	})
	t.Run("unknown session", func(t *testing.T) {
		e := make(t)
		if tm, ok := e.Backend.Telemetry(protocol.NewSessionID()); ok {
			t.Errorf("%+v", tm)
		}
	})
}

func request(e Env, n int) gateway.GenerateRequest {
	return gateway.GenerateRequest{Request: "chatcmpl-suite", Model: e.Model, Prompt: e.Prompt, MaxTokens: n,
		Sampler: protocol.Sampler{Seed: 1, IgnoreEOG: true}, Policy: "public"}
}

func start(t *testing.T, e Env, n int) gateway.Generation {
	t.Helper()
	gen, err := e.Backend.Generate(t.Context(), request(e, n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gen.Cancel()
		for range gen.Tokens() {
		}
	})
	return gen
}
