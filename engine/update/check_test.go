package update_test

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/update"
	"neuron/engine/update/feed"
	"neuron/internal/leaktest"
)

func TestANewerVersionIsTold(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	c := run(t, p.options(t.TempDir()))
	if u := c.Update(); u.State != localapi.UpdateUnknown || u.Release != nil || c.noted() != "" {
		t.Errorf("before the first check: %+v, %s", u, c.noted())
	}
	u, err := c.CheckUpdate(t.Context())
	must(t, err)
	r := u.Release
	if u.State != localapi.UpdateAvailable || r == nil || r.Version != "2.0.0" || r.Notes["en"] == "" || r.Name != packName || r.Bytes != int64(len(p.pack)) || u.Checked.IsZero() || u.Next.Before(u.Checked.Add(24*time.Hour)) {
		t.Errorf("%+v %+v", u, r)
	}
	if c.noted() != "info update_available" || c.Health()[0].Remedy == "" {
		t.Errorf("%+v", c.Health())
	}
	// What is dismissed is not told any more, and is still to be had.
	u, err = c.DismissUpdate(t.Context(), "2.0.0")
	must(t, err)
	if c.noted() != "" || u.State != localapi.UpdateAvailable || !u.Release.Dismissed {
		t.Errorf("%+v, %s", u, c.noted())
	}
	next := p.release()
	next.Version, next.Serial = "2.0.1", 11
	p.publish(next, releaseKey(1))
	if u, err = c.CheckUpdate(t.Context()); err != nil || u.Release.Dismissed || c.noted() != "info update_available" {
		t.Errorf("a newer one than the dismissed: %+v, %v", u, err)
	}
	if _, err := c.DismissUpdate(t.Context(), "<script>"); code(err) != protocol.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
	// Nothing was fetched by itself.
	for _, path := range p.requests() {
		if path != "/stable.json" {
			t.Errorf("asked for %s", path)
		}
	}
	// It is known after a restart, without asking anybody.
	c.stop()
	asked := len(p.requests())
	c = run(t, p.options(c.dir))
	if u := c.Update(); u.State != localapi.UpdateAvailable || u.Release.Version != "2.0.1" || u.Next.Before(time.Now().Add(23*time.Hour)) || len(p.requests()) != asked {
		t.Errorf("%+v", u)
	}
	// The version that was installed ends it.
	c.stop()
	o := p.options(c.dir)
	o.Version = "2.0.1"
	if u := run(t, o).Update(); u.State != localapi.UpdateCurrent || u.Release != nil {
		t.Errorf("%+v", u)
	}
}

// TestFalseListsDoNothing: what was known stays, nothing is fetched, and the user
// finds a note.
func TestFalseListsDoNothing(t *testing.T) {
	leaktest.Check(t)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t.Error("an address without TLS was asked") }))
	t.Cleanup(plain.Close)
	edited := func(f func(*feed.Feed)) func(*publisher) {
		return func(p *publisher) {
			x := p.release()
			f(x)
			p.publish(x, releaseKey(1))
		}
	}
	for name, c := range map[string]struct {
		do   func(*publisher)
		code protocol.Code
		note string
	}{
		"broken":  {func(p *publisher) { p.set(func(p *publisher) { p.feed = []byte("<html>") }) }, protocol.CodeUpdateInvalid, "no signed list"},
		"cut off": {func(p *publisher) { p.set(func(p *publisher) { p.feed = p.feed[:len(p.feed)-40] }) }, protocol.CodeUpdateInvalid, "no signed list"},
		"too big": {func(p *publisher) {
			p.set(func(p *publisher) { p.feed = append(p.feed, make([]byte, feed.MaxBytes)...) })
		}, protocol.CodeUpdateInvalid, "bytes"},
		"another key":     {func(p *publisher) { x := p.release(); x.Serial = 12; p.publish(x, releaseKey(2)) }, protocol.CodeUpdateInvalid, "key"},
		"replayed":        {edited(func(f *feed.Feed) { f.Serial = 9 }), protocol.CodeUpdateInvalid, "serial 9 after 10"},
		"same serial":     {edited(func(f *feed.Feed) { f.Version = "3.0.0" }), protocol.CodeUpdateInvalid, "serial 10 of another"},
		"older version":   {edited(func(f *feed.Feed) { f.Serial, f.Version = 11, "1.9.0" }), protocol.CodeUpdateInvalid, "1.9.0 after 2.0.0"},
		"expired":         {edited(func(f *feed.Feed) { f.Serial, f.Expires = 11, time.Now().Add(-time.Minute) }), protocol.CodeUpdateInvalid, "valid until"},
		"another channel": {edited(func(f *feed.Feed) { f.Serial, f.Channel = 11, "beta" }), protocol.CodeUpdateInvalid, "channel"},
		"not there":       {func(p *publisher) { p.set(func(p *publisher) { p.answer = http.NotFound }) }, protocol.CodeUnavailable, ""},
		"sent on to http": {func(p *publisher) {
			p.set(func(p *publisher) {
				p.answer = http.RedirectHandler(plain.URL+"/stable.json", http.StatusFound).ServeHTTP
			})
		}, protocol.CodeUpdateInvalid, "without TLS"},
		"sent round": {func(p *publisher) {
			p.set(func(p *publisher) { p.answer = http.RedirectHandler("/stable.json", http.StatusFound).ServeHTTP })
		}, protocol.CodeUnavailable, ""},
		"broken off": {func(p *publisher) {
			p.set(func(p *publisher) {
				p.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Length", "1000")
					w.Write([]byte("half"))
				}
			})
		}, protocol.CodeUnavailable, ""},
	} {
		p := newPublisher(t)
		k := run(t, p.options(t.TempDir()))
		before, err := k.CheckUpdate(t.Context())
		must(t, err)
		c.do(p)
		asked := len(p.requests())
		if _, err := k.CheckUpdate(t.Context()); code(err) != c.code || !strings.Contains(err.Error(), c.note) {
			t.Errorf("%s: %v", name, err)
		}
		u := k.Update()
		if u.State != localapi.UpdateAvailable || u.Release.Version != "2.0.0" || !u.Checked.Equal(before.Checked) || code(u.Error) != c.code {
			t.Errorf("%s: what was known has changed: %+v", name, u)
		}
		want := "info update_available"
		if c.code == protocol.CodeUpdateInvalid {
			want = "info update_invalid, " + want
		}
		if got := k.noted(); got != want {
			t.Errorf("%s: told %s", name, got)
		}
		if got := k.files(t); got != "feed.json state.json" {
			t.Errorf("%s: files %s", name, got)
		}
		for _, path := range p.requests()[asked:] {
			if path != "/stable.json" {
				t.Errorf("%s: asked for %s", name, path)
			}
		}
		// A good list ends the note.
		p.set(func(p *publisher) { p.answer = nil })
		good := p.release()
		good.Serial = 12
		p.publish(good, releaseKey(1))
		if _, err := k.CheckUpdate(t.Context()); err != nil || k.noted() != "info update_available" {
			t.Errorf("%s: afterwards %v, %s", name, err, k.noted())
		}
		k.stop()
	}
}

// TestReplayAfterRestart: what was seen counts over restarts.
func TestReplayAfterRestart(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	old := p.feed
	c := run(t, p.options(t.TempDir()))
	next := p.release()
	next.Version, next.Serial = "2.1.0", 11
	p.publish(next, releaseKey(1))
	_, err := c.CheckUpdate(t.Context())
	must(t, err)
	c.stop()
	p.set(func(p *publisher) { p.feed = old })
	c = run(t, p.options(c.dir))
	if _, err := c.CheckUpdate(t.Context()); code(err) != protocol.CodeUpdateInvalid {
		t.Errorf("%v", err)
	}
	c.stop()
	// Also with the newer list's file replaced by the old one.
	must(t, os.WriteFile(filepath.Join(c.dir, "feed.json"), old, 0o600))
	c = run(t, p.options(c.dir))
	if u := c.Update(); u.Release != nil {
		t.Errorf("an old list on disk is believed: %+v", u)
	}
}

func TestBuildsThatCannotCheck(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	for name, edit := range map[string]func(*update.Options){
		"release key": func(o *update.Options) { o.Keys = nil },
		"address":     func(o *update.Options) { o.Feed = "" },
		"version":     func(o *update.Options) { o.Version = "0.0" },
	} {
		o := p.options(t.TempDir())
		edit(&o)
		c := run(t, o)
		u := c.Update()
		if u.State != localapi.UpdateUnsupported || !strings.Contains(u.Reason, name) || !strings.Contains(u.Reason, "not available in this build") {
			t.Errorf("%s: %+v", name, u)
		}
		if _, err := c.CheckUpdate(t.Context()); code(err) != protocol.CodeUnsupported {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.DownloadUpdate(t.Context()); code(err) != protocol.CodeUnsupported {
			t.Errorf("%s: %v", name, err)
		}
		if c.noted() != "" {
			t.Errorf("%s: told %s", name, c.noted())
		}
		c.stop()
	}
	if got := p.requests(); len(got) != 0 {
		t.Errorf("asked for %v", got)
	}
}

// TestNothingForThisComputer: a release without a package for this kind is told
// with its page.
func TestNothingForThisComputer(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	o := p.options(t.TempDir())
	o.Arch = "arm64"
	c := run(t, o)
	u, err := c.CheckUpdate(t.Context())
	must(t, err)
	if u.State != localapi.UpdateAvailable || u.Release.Name != "" || u.Release.Page == "" {
		t.Errorf("%+v", u)
	}
	if _, err := c.DownloadUpdate(t.Context()); code(err) != protocol.CodeNotFound || !strings.Contains(err.Error(), "https://neuron.example/2.0.0") {
		t.Errorf("%v", err)
	}
}

// TestStateThatCannotBeRead: the check begins anew and works.
func TestStateThatCannotBeRead(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	for _, content := range []string{"", "{", "null", `{"seen":null}`, `{"seen":3}`, strings.Repeat("x", 1<<20)} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "state.json"), []byte(content), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "feed.json"), []byte(content), 0o600))
		c := run(t, p.options(dir))
		if u, err := c.CheckUpdate(t.Context()); err != nil || u.State != localapi.UpdateAvailable {
			t.Errorf("%.10q: %+v, %v", content, u, err)
		}
		c.stop()
	}
}

func TestTwoReleaseKeys(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	p.publish(p.release(), releaseKey(1), releaseKey(2))
	o := p.options(t.TempDir())
	o.Keys = []ed25519.PublicKey{releaseKey(2).Public().(ed25519.PublicKey)}
	if u, err := run(t, o).CheckUpdate(t.Context()); err != nil || u.State != localapi.UpdateAvailable {
		t.Errorf("%+v, %v", u, err)
	}
}
