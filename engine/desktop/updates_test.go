package desktop_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/desktop"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/engine/update"
	"neuron/engine/update/feed"
)

// TestUpdates: the engine reads a signed list from the address of the settings,
// tells the user, and fetches the package when it is told to.
func TestUpdates(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	pack := []byte("a package")
	sum := sha256.Sum256(pack)
	now := time.Now().UTC().Truncate(time.Second)
	list := &feed.Feed{
		Form: feed.Form, Channel: "stable", Serial: 3, Issued: now, Expires: now.Add(time.Hour), Version: "9.0.0", Date: "2026-11-30",
		Packages: []feed.Package{{OS: "linux", Arch: "amd64", Kind: feed.KindDeb, URL: "n.deb", Name: "n.deb", Size: int64(len(pack)), SHA256: hex.EncodeToString(sum[:])}},
	}
	raw, err := feed.Sign(list, key)
	must(t, err)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".deb") {
			w.Write(pack)
			return
		}
		w.Write(raw)
	}))
	t.Cleanup(srv.Close)
	r := begin(t, desktop.Options{Updates: update.Options{
		Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, Version: "1.0.0", OS: "linux", Arch: "amd64", Kind: feed.KindDeb, Transport: srv.Client().Transport,
	}})
	ctx := t.Context()
	if u, err := r.Update(ctx); err != nil || u.State != localapi.UpdateUnsupported || !strings.Contains(u.Reason, "address") {
		t.Errorf("without an address: %+v, %v", u, err)
	}
	if _, err := r.CheckUpdate(ctx); code(err) != protocol.CodeUnsupported {
		t.Errorf("%v", err)
	}
	s, err := r.Settings(ctx)
	must(t, err)
	s.Updates.Feed = "http://neuron.example/f.json"
	if _, err := r.SetSettings(ctx, s); code(err) != protocol.CodeInvalidRequest || protocol.AsError(err).Param != "updates.feed" {
		t.Errorf("an address without TLS: %v", err)
	}
	r.change(t, func(s *policy.Settings) { s.Updates.Feed = srv.URL + "/stable.json" })
	u, err := r.CheckUpdate(ctx)
	must(t, err)
	if u.State != localapi.UpdateAvailable || u.Release.Version != "9.0.0" {
		t.Fatalf("%+v", u)
	}
	told := func(c protocol.Code) bool {
		for _, h := range r.status(t).Health {
			if h.Code == c {
				return h.Severity == localapi.SeverityInfo && h.Text != "" && h.Remedy != ""
			}
		}
		return false
	}
	if !told(protocol.CodeUpdateAvailable) {
		t.Errorf("health: %+v", r.status(t).Health)
	}
	_, err = r.DownloadUpdate(ctx)
	must(t, err)
	eventually(t, "the package", func() bool {
		u, err := r.Update(ctx)
		must(t, err)
		return u.State == localapi.UpdateReady
	})
	if got, err := os.ReadFile(filepath.Join(r.o.Data, desktop.UpdateFolder, "n.deb")); err != nil || !bytes.Equal(got, pack) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.DismissUpdate(ctx, "9.0.0"); err != nil || told(protocol.CodeUpdateAvailable) {
		t.Errorf("what was dismissed is told: %v", err)
	}
	raw = bytes.Replace(raw, []byte("9.0.0"), []byte("9.0.1"), 1)
	if _, err := r.CheckUpdate(ctx); code(err) != protocol.CodeUpdateInvalid || !told(protocol.CodeUpdateInvalid) {
		t.Errorf("a false list: %v, %+v", err, r.status(t).Health)
	}
	// The report says nothing of the address.
	report, err := r.Report(ctx)
	must(t, err)
	if !strings.Contains(report, "updates: checked true, own address true") || strings.Contains(report, srv.URL) {
		t.Errorf("%s", report)
	}
	if b, err := json.Marshal(r.status(t)); err != nil || strings.Contains(string(b), srv.URL) {
		t.Errorf("the address is in the status: %s, %v", b, err)
	}
}
