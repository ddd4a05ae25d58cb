package launch

import (
	"context"
	"testing"
	"time"

	"neuron/engine/localapi"
)

// endingSource is an engine that was asked to end by somebody else.
type endingSource struct {
	source
	looked chan struct{}
}

func (s *endingSource) Status() localapi.Status {
	select {
	case s.looked <- struct{}{}:
	default:
	}
	return localapi.Status{Ending: &localapi.Ending{Answers: 1}}
}

// TestStopEngineAsksOnce: an engine that ends already is waited for; a second
// order would have it cut off what it finishes.
func TestStopEngineAsksOnce(t *testing.T) {
	t.Parallel()
	src := &endingSource{source: source{stop: make(chan struct{})}, looked: make(chan struct{}, 1)}
	p := &Programs{Data: t.TempDir()}
	srv, err := localapi.Start(localapi.Options{Dir: p.Data, Source: src})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.StopEngine(ctx) }()
	select {
	case <-src.looked:
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	}
	if err := srv.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case <-src.stop:
		t.Error("it was asked a second time")
	default:
	}
}
