package update_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/update"
	"neuron/engine/update/feed"
	"neuron/internal/leaktest"
	"neuron/internal/testdisk"
)

// fetched orders the release and waits for the end of it.
func fetched(t testing.TB, c *computer) localapi.Update {
	t.Helper()
	_, err := c.DownloadUpdate(t.Context())
	must(t, err)
	return c.until(t, "the download's end", func(u localapi.Update) bool { return u.State != localapi.UpdateDownloading })
}

func checked(t testing.TB, c *computer) *computer {
	t.Helper()
	_, err := c.CheckUpdate(t.Context())
	must(t, err)
	return c
}

func TestDownloadAndInstall(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	o := p.options(t.TempDir())
	var mu sync.Mutex
	var started []string
	var fail error
	o.Start = func(_ context.Context, c update.Command) error {
		mu.Lock()
		defer mu.Unlock()
		started = append(started, strings.Join(c.Argv, " "))
		return fail
	}
	c := run(t, o)
	if _, err := c.DownloadUpdate(t.Context()); code(err) != protocol.CodeNotFound {
		t.Errorf("before a check: %v", err)
	}
	checked(t, c)
	if _, err := c.InstallUpdate(t.Context()); code(err) != protocol.CodeNotFound {
		t.Errorf("before the download: %v", err)
	}
	u := fetched(t, c)
	file := filepath.Join(c.dir, packName)
	if u.State != localapi.UpdateReady || u.Release.File != file || u.Done != u.Release.Bytes || u.Error != nil {
		t.Fatalf("%+v", u)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, p.pack) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got := c.Health(); len(got) != 1 || !strings.Contains(got[0].Text, "can be installed") {
		t.Errorf("%+v", got)
	}
	if again := fetched(t, c); again.State != localapi.UpdateReady || len(p.requests()) != 2 {
		t.Errorf("it was fetched again: %v", p.requests())
	}
	if len(started) != 0 {
		t.Fatalf("installed without an order: %v", started)
	}
	in, err := c.InstallUpdate(t.Context())
	must(t, err)
	if in.Version != "2.0.0" || in.File != file || in.Silent || in.Command != "sudo apt install '"+file+"'" || len(started) != 1 || started[0] != "xdg-open "+file {
		t.Errorf("%+v, %v", in, started)
	}
	mu.Lock()
	fail = errors.New("nothing opens it")
	mu.Unlock()
	if _, err := c.InstallUpdate(t.Context()); code(err) != protocol.CodeUnsupported || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	// Another start finds it, after a look at its bytes.
	c.stop()
	c = run(t, o)
	c.wants(t, localapi.UpdateReady)
	// What was changed on the disk is not run.
	changed := bytes.Clone(p.pack)
	changed[len(changed)-1] ^= 1
	must(t, os.WriteFile(file, changed, 0o600))
	if _, err := c.InstallUpdate(t.Context()); code(err) != protocol.CodeUpdateInvalid {
		t.Errorf("%v", err)
	}
	if u := c.Update(); u.State != localapi.UpdateAvailable || !strings.Contains(c.noted(), "update_invalid") || len(started) != 2 {
		t.Errorf("%+v, %s, %v", u, c.noted(), started)
	}
	// After the new version's first start the package is gone.
	c.stop()
	c = run(t, p.options(c.dir))
	checked(t, c)
	fetched(t, c)
	c.stop()
	o.Version = "2.0.0"
	c = run(t, o)
	deadline := time.Now().Add(patience)
	for c.files(t) != "feed.json state.json" {
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %s", c.files(t))
		}
		time.Sleep(5 * time.Millisecond) // polling, bounded by patience
	}
}

// TestResume: a broken transfer is taken up where it ended, in the same run and
// after a restart.
func TestResume(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	const part = 100_000
	p.set(func(p *publisher) {
		p.transfer = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				w.Header().Set("Content-Length", "320000")
				w.Write(p.pack[:part])
				panic(http.ErrAbortHandler)
			}
			http.ServeContent(w, r, packName, time.Time{}, bytes.NewReader(p.pack))
		}
	})
	c := checked(t, run(t, p.options(t.TempDir())))
	if u := fetched(t, c); u.State != localapi.UpdateReady {
		t.Fatalf("%+v", u)
	}
	got := p.requests()
	if last := got[len(got)-1]; !strings.HasPrefix(last, "/"+packName+" bytes=") || last == "/"+packName+" bytes=0-" || len(got) != 3 {
		t.Errorf("%v", got)
	}
	c.stop()

	// A restart in the middle: the server hangs, the program ends.
	hung := make(chan struct{})
	var once sync.Once
	p = newPublisher(t)
	p.set(func(p *publisher) {
		p.transfer = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "320000")
			w.Write(p.pack[:part])
			w.(http.Flusher).Flush()
			once.Do(func() { close(hung) })
			<-r.Context().Done()
		}
	})
	c = checked(t, run(t, p.options(t.TempDir())))
	_, err := c.DownloadUpdate(t.Context())
	must(t, err)
	<-hung
	c.until(t, "the part", func(u localapi.Update) bool { return u.Done >= part })
	c.stop()
	if u := c.Update(); u.Error != nil {
		t.Errorf("an end in order is told as %v", u.Error)
	}
	p.set(func(p *publisher) { p.transfer = nil })
	c = run(t, p.options(c.dir))
	c.until(t, "what was there", func(u localapi.Update) bool { return u.Done == part })
	if u := fetched(t, c); u.State != localapi.UpdateReady {
		t.Fatalf("%+v", u)
	}
	if got := p.requests(); got[len(got)-1] != "/"+packName+" bytes=100000-" {
		t.Errorf("%v", got)
	}
}

// TestServersThatDoNotResume begin again, whatever they answer.
func TestServersThatDoNotResume(t *testing.T) {
	leaktest.Check(t)
	for name, answer := range map[string]func(p *publisher, w http.ResponseWriter){
		"whole":           func(p *publisher, w http.ResponseWriter) { w.Write(p.pack) },
		"not satisfiable": func(_ *publisher, w http.ResponseWriter) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) },
		"another range": func(p *publisher, w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 0-9/320000")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(p.pack[:10])
		},
	} {
		p := newPublisher(t)
		p.set(func(p *publisher) {
			p.transfer = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					answer(p, w)
					return
				}
				w.Write(p.pack)
			}
		})
		dir := t.TempDir()
		part := filepath.Join(dir, packName+"."+p.release().Packages[0].SHA256[:12]+".part")
		must(t, os.WriteFile(part, []byte("what was there"), 0o600))
		c := checked(t, run(t, p.options(dir)))
		if u := fetched(t, c); u.State != localapi.UpdateReady {
			t.Errorf("%s: %+v", name, u)
		}
		c.stop()
	}
}

// TestFalsePackagesAreNotKept: nothing but the signed bytes is ever ready.
func TestFalsePackagesAreNotKept(t *testing.T) {
	leaktest.Check(t)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an address without TLS was asked") }))
	t.Cleanup(plain.Close)
	for name, c := range map[string]struct {
		transfer func(p *publisher) http.HandlerFunc
		code     protocol.Code
		note     string
	}{
		"another content": {func(p *publisher) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Write(bytes.Repeat([]byte("package?"), 40_000))
			}
		}, protocol.CodeUpdateInvalid, "SHA-256"},
		"larger, and says so": {func(p *publisher) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "99999999999")
				w.Write(p.pack)
			}
		}, protocol.CodeUpdateInvalid, "99999999999 bytes"},
		"larger, and does not": {func(p *publisher) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				for range 3 {
					w.Write(p.pack)
				}
			}
		}, protocol.CodeUpdateInvalid, "320001 bytes"},
		"smaller": {func(*publisher) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("short")) }
		}, protocol.CodeUpdateInvalid, "5 bytes"},
		"sent on to http": {func(*publisher) http.HandlerFunc {
			return http.RedirectHandler(plain.URL, http.StatusFound).ServeHTTP
		}, protocol.CodeUpdateInvalid, "without TLS"},
		"not there": {func(*publisher) http.HandlerFunc { return http.NotFound }, protocol.CodeUnavailable, "404"},
	} {
		p := newPublisher(t)
		p.set(func(p *publisher) { p.transfer = c.transfer(p) })
		k := checked(t, run(t, p.options(t.TempDir())))
		u := fetched(t, k)
		if u.State != localapi.UpdateAvailable || code(u.Error) != c.code || !strings.Contains(u.Error.Message, c.note) || u.Release.File != "" {
			t.Errorf("%s: %+v %v", name, u, u.Error)
		}
		if _, err := k.InstallUpdate(t.Context()); code(err) != protocol.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(" "+k.files(t)+" ", " "+packName+" ") {
			t.Errorf("%s: kept %s", name, k.files(t))
		}
		// The right one can be had afterwards.
		p.set(func(p *publisher) { p.transfer = nil })
		if u := fetched(t, k); u.State != localapi.UpdateReady {
			t.Errorf("%s: afterwards %+v", name, u)
		}
		k.stop()
	}
}

func TestRoomIsLookedAtFirst(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	o := p.options(t.TempDir())
	o.Free = func(string) (int64, error) { return 200 << 20, nil }
	c := checked(t, run(t, o))
	if _, err := c.DownloadUpdate(t.Context()); code(err) != protocol.CodeDiskFull || len(p.requests()) != 1 {
		t.Errorf("%v, %v", err, p.requests())
	}
	if u := c.Update(); u.State != localapi.UpdateAvailable {
		t.Errorf("%+v", u)
	}
}

// TestDiskGetsFull in the middle of it: told as such, and taken up with room.
func TestDiskGetsFull(t *testing.T) {
	dir := testdisk.Mount(t, "size=256k")
	p := newPublisher(t)
	c := checked(t, run(t, p.options(dir)))
	u := fetched(t, c)
	if code(u.Error) != protocol.CodeDiskFull || u.State != localapi.UpdateAvailable {
		t.Errorf("%+v", u)
	}
	c.stop()
}

// TestReleaseChangesMeanwhile: the older package is not offered as the newer.
func TestReleaseChangesMeanwhile(t *testing.T) {
	leaktest.Check(t)
	p := newPublisher(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	p.set(func(p *publisher) {
		p.transfer = func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-goOn
			w.Write(p.pack)
		}
	})
	c := checked(t, run(t, p.options(t.TempDir())))
	_, err := c.DownloadUpdate(t.Context())
	must(t, err)
	<-begun
	next := releaseOf([]byte("the newer one"))
	next.Version, next.Serial = "2.1.0", 11
	p.publish(next, releaseKey(1))
	checked(t, c)
	close(goOn)
	u := c.until(t, "the download's end", func(u localapi.Update) bool { return u.State != localapi.UpdateDownloading })
	if u.State != localapi.UpdateAvailable || u.Release.Version != "2.1.0" || u.Release.File != "" {
		t.Errorf("%+v", u)
	}
}

// TestRunIsSilent: Neuron's own packages need no more of the user.
func TestRunIsSilent(t *testing.T) {
	leaktest.Check(t)
	for _, c := range []struct {
		system string
		kind   feed.Kind
		name   string
		argv   string
		silent bool
	}{
		{"linux", feed.KindRun, "neuron.run", "/bin/sh FILE --quiet --nox11", true},
		{"windows", feed.KindSetup, "Setup.exe", "FILE /S", true},
		{"darwin", feed.KindDMG, "Neuron.dmg", "/usr/bin/open FILE", false},
		{"linux", feed.KindTar, "neuron.tar.xz", "xdg-open DIR", false},
		{"linux", feed.KindRPM, "neuron.rpm", "xdg-open FILE", false},
	} {
		p := newPublisher(t)
		f := p.release()
		f.Packages[0].OS, f.Packages[0].Kind, f.Packages[0].Name = c.system, c.kind, c.name
		p.publish(f, releaseKey(1))
		o := p.options(t.TempDir())
		o.OS, o.Kind = c.system, c.kind
		var got []string
		o.Start = func(_ context.Context, x update.Command) error {
			if x.Wait == c.silent || (x.Failed != nil) != c.silent || x.Output != nil {
				t.Errorf("%s: %+v", c.kind, x)
			}
			got = x.Argv
			return nil
		}
		k := checked(t, run(t, o))
		fetched(t, k)
		in, err := k.InstallUpdate(t.Context())
		must(t, err)
		want := strings.NewReplacer("FILE", in.File, "DIR", filepath.Dir(in.File)).Replace(c.argv)
		if in.Silent != c.silent || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %+v", c.kind, got, in)
		}
		k.stop()
	}
}
