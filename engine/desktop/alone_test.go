package desktop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/desktop"
	"neuron/engine/desktop/settings"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// TestNothingIsSet: with no tracker, no model and nobody who has answered the
// first questions, the local API is there and says what to do; the owner key can
// be saved.
func TestNothingIsSet(t *testing.T) {
	t.Parallel()
	r := begin(t, desktop.Options{})
	ctx := t.Context()
	s := r.wants(t, protocol.SharingUserOff)
	if s.Role != "desktop" || s.Policy.State != protocol.SharingOff || s.Sharing || s.Work == nil || s.Node != r.Node() || s.Tracker.Connected {
		t.Errorf("%+v", s)
	}
	for name, ask := range map[string]func() error{
		"network":  func() error { _, err := r.Network(ctx); return err },
		"access":   func() error { _, err := r.Access(ctx); return err },
		"plans":    func() error { _, err := r.Plans(ctx); return err },
		"earnings": func() error { _, err := r.Earnings(ctx, accounts.Query{}); return err },
	} {
		if err := ask(); code(err) != protocol.CodeUnavailable || !strings.Contains(err.Error(), "tracker") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o, err := r.Owner(ctx); err != nil || o.Own == "" || o.Node != r.Node() {
		t.Errorf("owner %+v, %v", o, err)
	}
	if key, err := r.Export(ctx, "a passphrase that is long"); err != nil || len(key) == 0 {
		t.Errorf("the owner key cannot be saved: %v", err)
	}
	must(t, r.Share(ctx, true))
	s = r.wants(t, protocol.SharingNoTracker)
	if !s.Sharing || s.Policy.State != protocol.SharingPaused || !strings.Contains(s.Policy.Detail, "settings") {
		t.Errorf("%+v", s.Policy)
	}
	must(t, r.Pause(ctx, localapi.PauseOrder{Seconds: 3600}))
	s = r.wants(t, protocol.SharingUserPause)
	if s.Policy.Until == nil || time.Until(*s.Policy.Until) < 59*time.Minute {
		t.Errorf("%+v", s.Policy)
	}
	must(t, r.Resume(ctx))
	r.wants(t, protocol.SharingNoTracker)
	// A layer that this computer holds is kept in the settings for later.
	must(t, r.Hold(ctx, localapi.Hold{Model: guideName, Layers: "0-4"}))
	if got, err := r.Settings(ctx); err != nil || got.Model != guideName || got.Layers != "0-4" || got.Pause != (policy.Pause{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.SetSettings(ctx, policy.Defaults()); code(err) != protocol.CodeConflict {
		t.Errorf("settings that nobody has seen: %v", err)
	}
	lines, err := r.Logs(ctx, 0)
	if err != nil || len(lines) == 0 || lines[0].Part == "" || lines[0].Text == "" {
		t.Errorf("%+v, %v", lines, err)
	}
}

// TestSecondEngine: one engine per folder, and the second says so and harms
// nothing.
func TestSecondEngine(t *testing.T) {
	t.Parallel()
	r := begin(t, desktop.Options{})
	o := r.o
	o.System = &computer{}
	if _, err := desktop.New(t.Context(), o); code(err) != protocol.CodeAlreadyRunning {
		t.Errorf("%v", err)
	}
	r.status(t)
	r.stop()
	e, err := desktop.New(t.Context(), o)
	must(t, err)
	must(t, e.Close())
}

// TestSettingsAreBroken: the file is set aside, told, and the defaults hold.
func TestSettingsAreBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, settings.File), []byte(`{"form":1,"share":tr`), 0o600))
	r := begin(t, desktop.Options{Data: dir})
	s := r.status(t)
	if len(s.Health) == 0 || s.Health[0].Code != protocol.CodeSettingsBroken || s.Health[0].Remedy == "" || !strings.Contains(s.Health[0].Text, "settings.json.broken-") {
		t.Errorf("%+v", s.Health)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "settings.json.broken-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	if raw, err := os.ReadFile(kept[0]); err != nil || string(raw) != `{"form":1,"share":tr` {
		t.Errorf("%q, %v", raw, err)
	}
	if s.Sharing || s.Policy.Reason == "" {
		t.Errorf("shares with settings that nobody made: %+v", s.Policy)
	}
}

// TestStartFails: the node cannot start (its folder is a file); the API tells it
// with a remedy, and what can be done without a node works.
func TestStartFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := begin(t, desktop.Options{Data: dir})
	must(t, os.WriteFile(filepath.Join(dir, desktop.GatewayFolder), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, desktop.NodeFolder, "shards"), nil, 0o600))
	r.change(t, func(s *policy.Settings) {
		s.SetUp, s.Share, s.Tracker = true, true, "http://127.0.0.1:1"
	})
	eventually(t, "the gateway's error", func() bool {
		for _, h := range r.status(t).Health {
			if h.Code == protocol.CodeDataFolder && h.Severity == localapi.SeverityError && h.Remedy != "" {
				return true
			}
		}
		return false
	})
	if _, err := r.Access(t.Context()); code(err) != protocol.CodeDataFolder {
		t.Errorf("access: %v", err)
	}
	// It is tried again: with the obstacle away it runs.
	must(t, os.Remove(filepath.Join(dir, desktop.GatewayFolder)))
	r.chat(t)
}

// TestTokenIsDeleted: under a running engine the files of the local API go; it
// writes new ones, and only the new token counts.
func TestTokenIsDeleted(t *testing.T) {
	t.Parallel()
	r := begin(t, desktop.Options{})
	old := r.Engine.Address()
	for _, f := range []string{localapi.TokenFile, localapi.AddressFile} {
		must(t, os.Remove(filepath.Join(r.o.Data, f)))
	}
	eventually(t, "a new token", func() bool {
		c, err := localapi.Dial(r.o.Data)
		if err != nil {
			return false
		}
		defer c.Close()
		return c.Address().Token != old.Token
	})
	if _, err := r.Status(t.Context()); code(err) != protocol.CodeUnauthorized {
		t.Errorf("with the old token: %v", err)
	}
}
