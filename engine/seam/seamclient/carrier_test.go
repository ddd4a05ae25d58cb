package seamclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"neuron/internal/leaktest"
)

// TestPostIsWrittenByItsSender: net/http gives a body its own writer to write to.
// Should it read one day instead, all works on through a pipe, but each frame
// wakes two goroutines.
func TestPostIsWrittenByItsSender(t *testing.T) {
	leaktest.Check(t)
	for name, c := range map[string]struct {
		wrap   func(*streamBody) io.ReadCloser // hides WriteTo
		direct bool
	}{
		"written": {func(b *streamBody) io.ReadCloser { return b }, true},
		"read":    {func(b *streamBody) io.ReadCloser { return struct{ io.ReadCloser }{b} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				if err := errors.Join(rc.EnableFullDuplex(), rc.Flush()); err != nil {
					t.Error(err)
				}
				for b := make([]byte, 4); ; { // an echo of what comes
					if _, err := io.ReadFull(r.Body, b); err != nil {
						if !errors.Is(err, io.EOF) {
							t.Error("the end of the body:", err)
						}
						return
					}
					if _, err := w.Write(b); err != nil || rc.Flush() != nil {
						t.Error("echo:", err)
					}
				}
			}))
			defer srv.Close()
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			b := newStreamBody(t.Context())
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, c.wrap(b))
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = -1
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got := make([]byte, 4)
			for _, word := range []string{"ping", "pong"} {
				if _, err := io.WriteString(b, word); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != word {
					t.Fatalf("%q, %v", got, err)
				}
			}
			b.mu.Lock()
			direct := b.dst != nil
			b.mu.Unlock()
			if direct != c.direct {
				t.Errorf("written without a pipe: %v", direct)
			}
			b.finish()
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
				t.Errorf("after the end: %q, %v", rest, err)
			}
			if _, err := io.WriteString(b, "more"); err == nil {
				t.Error("written after the end")
			}
		})
	}
}

// TestBodyEndsWithItsContext: a Read or Write that waits would keep the
// transport's round trip, and with it the session.
func TestBodyEndsWithItsContext(t *testing.T) {
	leaktest.Check(t)
	why := errors.New("over")
	for name, wait := range map[string]func(*streamBody) error{
		"read":  func(b *streamBody) error { _, err := io.ReadAll(b); return err },
		"write": func(b *streamBody) error { _, err := io.Copy(b, strings.NewReader("nobody reads")); return err },
		"to":    func(b *streamBody) error { _, err := b.WriteTo(io.Discard); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			b := newStreamBody(ctx)
			done := make(chan error, 1)
			go func() { done <- wait(b) }()
			cancel(why)
			if err := <-done; err == nil {
				t.Error("it ended in order")
			}
			b.Close()
		})
	}
}
