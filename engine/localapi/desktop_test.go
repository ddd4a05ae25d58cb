package localapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// table answers with what it was asked, so that a lost argument shows.
type table struct {
	mu       sync.Mutex
	settings policy.Settings     // guarded by mu
	pause    localapi.PauseOrder // guarded by mu
	resumed  int                 // guarded by mu
}

func (d *table) Settings() policy.Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}

func (d *table) SetSettings(_ context.Context, s policy.Settings) (policy.Settings, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.Revision != d.settings.Revision {
		return d.settings, protocol.Errorf(protocol.CodeConflict, "changed meanwhile")
	}
	s.Revision++
	d.settings = s
	return s, nil
}

func (d *table) Pause(_ context.Context, p localapi.PauseOrder) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause = p
	return nil
}

func (d *table) Resume(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resumed++
	return nil
}

func hardware(text string) *localapi.Hardware {
	return &localapi.Hardware{CPU: "c", Cores: 2, Features: []string{"avx2"}, GPUs: []localapi.GPU{{Name: "g", Usable: true}}, Battery: &localapi.Battery{Percent: 5}, Text: text}
}

func (d *table) Hardware(context.Context) (*localapi.Hardware, error) { return hardware("seen"), nil }
func (d *table) Probe(context.Context) (*localapi.Hardware, error)    { return hardware("probed"), nil }

func (d *table) Network(context.Context) (*localapi.Network, error) {
	return &localapi.Network{Name: "n", Nodes: 3, Models: []localapi.NetworkModel{{License: "MIT", Bytes: 7}}}, nil
}

func (d *table) Access(context.Context) (*localapi.Access, error) {
	return &localapi.Access{URL: "http://127.0.0.1:1/v1", Key: "nk-1"}, nil
}

func (d *table) Report(context.Context) (string, error) { return "line\n\"second\" <line>\n", nil }

func (d *table) Logs(after int64) []localapi.LogLine {
	if after > 5 {
		return nil
	}
	return []localapi.LogLine{{Number: after + 1, Level: "warn", Part: "p", Text: "t"}}
}

func startDesktop(t *testing.T) (*table, *source, *localapi.Server, *localapi.Client) {
	t.Helper()
	dir := t.TempDir()
	d, src := &table{settings: policy.Defaults()}, new(source)
	srv, err := localapi.Start(localapi.Options{Dir: dir, Source: src, Desktop: d, Owner: new(desk), EventEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close(context.Background()) })
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return d, src, srv, c
}

// TestDesktopOverHTTP: what a call gives over the API is what it gives without.
func TestDesktopOverHTTP(t *testing.T) {
	t.Parallel()
	d, _, _, c := startDesktop(t)
	ctx := t.Context()
	same := func(what string, want, got any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", what, err, diff)
		}
	}
	s, err := c.Settings(ctx)
	same("settings", policy.Defaults(), s, err)
	s.Share, s.Rules.Apps = true, []string{"doom"}
	changed, err := c.SetSettings(ctx, s)
	s.Revision++
	same("changed settings", s, changed, err)
	if _, err := c.SetSettings(ctx, policy.Defaults()); code(err) != protocol.CodeConflict {
		t.Errorf("settings that have changed meanwhile: %v", err)
	}
	hw, err := c.Hardware(ctx)
	same("hardware", hardware("seen"), hw, err)
	hw, err = c.Probe(ctx)
	same("probe", hardware("probed"), hw, err)
	net, err := c.Network(ctx)
	want, _ := d.Network(ctx)
	same("network", want, net, err)
	acc, err := c.Access(ctx)
	same("access", &localapi.Access{URL: "http://127.0.0.1:1/v1", Key: "nk-1"}, acc, err)
	text, err := c.Report(ctx)
	same("report", "line\n\"second\" <line>\n", text, err)
	lines, err := c.Logs(ctx, 3)
	same("logs", []localapi.LogLine{{Number: 4, Level: "warn", Part: "p", Text: "t"}}, lines, err)
	lines, err = c.Logs(ctx, 9)
	same("no logs", []localapi.LogLine{}, lines, err)
	for _, p := range []localapi.PauseOrder{{Seconds: 60}, {Seconds: 604800}, {Tomorrow: true}, {UntilResumed: true}} {
		if err := c.Pause(ctx, p); err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		if d.pause != p {
			t.Errorf("%+v came as %+v", p, d.pause)
		}
		d.mu.Unlock()
	}
	for _, p := range []localapi.PauseOrder{{}, {Seconds: 59}, {Seconds: 604801}, {Seconds: -60}, {Seconds: 1 << 62}, {Seconds: 60, Tomorrow: true}, {Tomorrow: true, UntilResumed: true}} {
		if err := c.Pause(ctx, p); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := c.Resume(ctx); err != nil || d.resumed != 1 {
		t.Errorf("resume: %v, %d", err, d.resumed)
	}
}

// TestPlainEngineHasNoDesktop: an engine of "run" says so, on every path.
func TestPlainEngineHasNoDesktop(t *testing.T) {
	t.Parallel()
	_, _, dir := start(t)
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"settings": func() error { _, err := c.Settings(ctx); return err },
		"set":      func() error { _, err := c.SetSettings(ctx, policy.Defaults()); return err },
		"pause":    func() error { return c.Pause(ctx, localapi.PauseOrder{Tomorrow: true}) },
		"resume":   func() error { return c.Resume(ctx) },
		"hardware": func() error { _, err := c.Hardware(ctx); return err },
		"probe":    func() error { _, err := c.Probe(ctx); return err },
		"network":  func() error { _, err := c.Network(ctx); return err },
		"access":   func() error { _, err := c.Access(ctx); return err },
		"report":   func() error { _, err := c.Report(ctx); return err },
		"logs":     func() error { _, err := c.Logs(ctx, 0); return err },
	} {
		if err := ask(); code(err) != protocol.CodeUnsupported || !strings.Contains(err.Error(), "run") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSettingsBodyIsBounded: a body above the bound, or of another form, changes
// nothing.
func TestSettingsBodyIsBounded(t *testing.T) {
	t.Parallel()
	d, _, srv, _ := startDesktop(t)
	for _, body := range []string{"", "[]", `{"unknown":1}`, `{"share":"yes"}`, `{"rules":{"apps":["` + strings.Repeat("x", 70<<10) + `"]}}`} {
		r, err := http.NewRequest(http.MethodPut, srv.Address().URL+"/local/v1/settings", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+srv.Address().Token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%.20q: status %d", body, resp.StatusCode)
		}
	}
	if diff := cmp.Diff(policy.Defaults(), d.Settings()); diff != "" {
		t.Error(diff)
	}
}
