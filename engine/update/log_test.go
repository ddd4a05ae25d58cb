//go:build unix

package update_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/update/feed"
)

// installer is a computer that has fetched a .run which is the given script. log
// is where it writes.
func installer(t *testing.T, script string) (c *computer, log string) {
	t.Helper()
	p := newPublisher(t)
	p.pack = []byte(script)
	f := p.release()
	f.Packages[0].Kind, f.Packages[0].Name = feed.KindRun, "neuron.run"
	p.publish(f, releaseKey(1))
	o := p.options(t.TempDir())
	o.Kind, o.Log = feed.KindRun, filepath.Join(t.TempDir(), "logs", "update.out")
	c = checked(t, run(t, o))
	fetched(t, c)
	return c, o.Log
}

// TestInstallersWordsAreKept: what an installer said went to /dev/null, and so did
// why nothing was installed.
func TestInstallersWordsAreKept(t *testing.T) {
	t.Parallel()
	c, log := installer(t, "echo \"asked with $*\"\necho 'Neuron was not installed: no room' >&2\nexit 3\n")
	for range 2 { // each time anew
		_, err := c.InstallUpdate(t.Context())
		told := protocol.AsError(err)
		if told == nil || told.Code != protocol.CodeUnsupported || told.Detail["log"] != log || told.Detail["said"] != "Neuron was not installed: no room" ||
			!strings.Contains(told.Message, "no room; what it wrote is in "+log+"; in a terminal: sh ") || !strings.Contains(told.Message, "exit status 3") {
			t.Fatalf("%v, %+v", err, told)
		}
		raw, err := os.ReadFile(log)
		must(t, err)
		head, rest, _ := strings.Cut(string(raw), "\n")
		if !strings.Contains(head, "Neuron 2.0.0: /bin/sh ") || rest != "asked with --quiet --nox11\nNeuron was not installed: no room\n" {
			t.Errorf("the log has %q", raw)
		}
	}
	if st, err := os.Stat(log); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
}

// TestInstallerFailsLater: sessions that do not end are a matter of minutes, and
// nobody was told.
func TestInstallerFailsLater(t *testing.T) {
	t.Parallel()
	c, log := installer(t, "sleep 4\necho 'running work did not end'\nexit 1\n")
	in, err := c.InstallUpdate(t.Context())
	must(t, err)
	if !in.Silent || c.Update().Error != nil {
		t.Fatalf("%+v, %v", in, c.Update().Error)
	}
	for end := time.Now().Add(patience); c.Update().Error == nil; <-time.After(10 * time.Millisecond) { // polling
		if time.Now().After(end) {
			t.Fatal("it is not told")
		}
	}
	if e := c.Update().Error; e.Detail["log"] != log || e.Detail["said"] != "running work did not end" || !strings.Contains(e.Message, log) {
		t.Errorf("%+v", e)
	}
	// It may be tried again, with nothing told of the last time, and is no list or
	// package that is not to be believed.
	if got := c.noted(); strings.Contains(got, "unsupported") || !strings.Contains(got, "update_available") {
		t.Errorf("%s", got)
	}
	if _, err := c.InstallUpdate(t.Context()); err != nil || c.Update().Error != nil {
		t.Errorf("%v, %v", err, c.Update().Error)
	}
}

// TestInstallersLogIsBounded, whatever was written, and an update needs no log.
func TestInstallersLogIsBounded(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	o := p.options(t.TempDir())
	o.Log = filepath.Join(t.TempDir(), "update.out")
	must(t, os.WriteFile(o.Log, make([]byte, 3<<20), 0o600))
	c := run(t, o)
	checked(t, c)
	c.stop()
	if st, err := os.Stat(o.Log); err != nil || st.Size() != 1<<20 {
		t.Errorf("%v, %v", st, err)
	}

	c, log := installer(t, "echo lost\nexit 5\n")
	must(t, os.WriteFile(filepath.Dir(log), nil, 0o600)) // no folder can be made there
	_, err := c.InstallUpdate(t.Context())
	if told := protocol.AsError(err); told == nil || told.Detail != nil || !strings.Contains(told.Message, "without installing; in a terminal: ") {
		t.Errorf("%v", err)
	}
}
