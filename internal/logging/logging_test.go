package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLevels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		want Levels
	}{
		{"", Levels{Default: slog.LevelInfo}},
		{"debug", Levels{Default: slog.LevelDebug}},
		{" WARN ", Levels{Default: slog.LevelWarn}},
		{"seam=debug", Levels{Default: slog.LevelInfo, Components: map[string]slog.Level{"seam": slog.LevelDebug}}},
		{"error, seam=debug,gateway=info", Levels{Default: slog.LevelError, Components: map[string]slog.Level{"seam": slog.LevelDebug, "gateway": slog.LevelInfo}}},
	} {
		got, err := ParseLevels(tc.in)
		if err != nil {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", tc.in, d)
		}
		again, err := ParseLevels(got.String())
		if err != nil || cmp.Diff(got, again) != "" {
			t.Errorf("%q does not survive String: %q (%v)", tc.in, got.String(), err)
		}
	}
	for _, bad := range []string{"loud", "seam=", "=debug", "info,,warn", "seam=loud"} {
		if l, err := ParseLevels(bad); err == nil {
			t.Errorf("%q accepted as %s", bad, l)
		} else if l.Default != slog.LevelInfo || l.Components != nil {
			t.Errorf("%q: the error comes with %s, want info", bad, l)
		}
	}
}

func TestComponentLevels(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	l := New(&buf, Levels{Default: slog.LevelWarn, Components: map[string]slog.Level{"seam": slog.LevelDebug}})
	l.For("seam").With("hop", 1).Debug("stream open")
	l.For("gateway").Info("request")
	l.For("gateway").WithGroup("g").Warn("slow client", "key", Secret("sk-1"))
	got := buf.String()
	for _, want := range []string{"component=seam", "hop=1", `msg="stream open"`, "component=gateway", "g.key=[redacted]"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "msg=request") || strings.Contains(got, "sk-1") {
		t.Errorf("too much in:\n%s", got)
	}
}

// Lines of several components never mix.
func TestWholeLines(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	l := New(&buf, Levels{Default: slog.LevelInfo})
	var wg sync.WaitGroup
	for c := range 4 {
		log := l.For(fmt.Sprintf("c%d", c))
		wg.Go(func() {
			for i := range 50 {
				log.Info("tick", "n", i)
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 200 {
		t.Fatalf("%d lines, want 200", len(lines))
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "time=") || strings.Count(line, "msg=tick") != 1 {
			t.Fatalf("broken line %q", line)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	type config struct {
		Key  Secret   `json:"key"`
		None Secret   `json:"none"`
		More []Secret `json:"more,omitempty"`
	}
	const plain = "sk-very-secret"
	c := config{Key: plain, More: []Secret{plain}}
	js, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("start", "config", c, "key", c.Key)
	shown := []string{string(js), buf.String()}
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, c), fmt.Sprintf(verb, c.Key), fmt.Sprintf(verb, []Secret{c.Key}))
	}
	for _, s := range shown {
		if strings.Contains(s, plain) || strings.Contains(s, fmt.Sprintf("%x", plain)) {
			t.Errorf("the secret shows in %q", s)
		}
	}
	if !strings.Contains(string(js), `"key":"[redacted]"`) || !strings.Contains(string(js), `"none":""`) {
		t.Errorf("JSON: %s", js)
	}
	var back config
	if err := json.Unmarshal([]byte(`{"key":"sk-very-secret"}`), &back); err != nil || back.Key.Reveal() != plain {
		t.Errorf("read back %q, %v", back.Key.Reveal(), err)
	}
}
