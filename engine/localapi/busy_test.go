package localapi

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
)

// restless is a Source whose state is always another one.
type restless struct{ n atomic.Int64 }

func (r *restless) Status() Status                      { return Status{PID: int(r.n.Add(1))} }
func (*restless) Models() []Model                       { return nil }
func (*restless) Sessions() []protocol.SessionState     { return nil }
func (*restless) Shutdown()                             {}
func (*restless) Hold(context.Context, Hold) error      { return nil }
func (*restless) Share(bool) error                      { return nil }
func (*restless) Plans(context.Context) ([]Plan, error) { return nil, nil }

// TestBusyStreamIsAskedForALife: a stream that always had something to send
// asked for no sign of life, and was dropped after three silences.
func TestBusyStreamIsAskedForALife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{o: Options{Source: new(restless), EventEvery: time.Second}, changed: make(chan struct{}), renewed: make(chan struct{}), stop: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), 2*silence)
		defer cancel()
		sent, asked := 0, 0
		err := s.follow(ctx, func([]byte) error { sent++; return nil }, func() error { asked++; return nil })
		if err != nil || sent < 30 || asked < 5 {
			t.Errorf("%d states, asked %d times, %v", sent, asked, err)
		}
	})
}
