package settings_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/desktop/settings"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/testdisk"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, dir string) *settings.Store {
	t.Helper()
	s, err := settings.Open(dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

func TestChangesSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if d := cmp.Diff(policy.Defaults(), s.Get()); d != "" || len(s.Trouble()) != 0 {
		t.Errorf("a new folder: %v\n%s", s.Trouble(), d)
	}
	_, changed := s.Watch()
	x := s.Get()
	x.Share, x.Rules.Apps, x.Tracker = true, []string{"doom"}, "https://tracker.example"
	got, err := s.Set(x)
	if err != nil || got.Revision != x.Revision+1 {
		t.Fatalf("%+v, %v", got, err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if err := s.Update(func(x *policy.Settings) { x.Pause.UntilResumed = true }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s.Get(), open(t, dir).Get()); d != "" {
		t.Errorf("another start reads\n%s", d)
	}
	// What a reader changes is his own.
	s.Get().Rules.Apps[0] = "quake"
	if s.Get().Rules.Apps[0] != "doom" {
		t.Error("a reader has changed the settings")
	}
}

func TestRefusedChangesChangeNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	before := s.Get()
	stale := before
	stale.Revision = 7
	if got, err := s.Set(stale); code(err) != protocol.CodeConflict || cmp.Diff(before, got) != "" {
		t.Errorf("another revision: %v", err)
	}
	wrong := before
	wrong.Rules.IdleMinutes = 0
	if got, err := s.Set(wrong); code(err) != protocol.CodeInvalidRequest || cmp.Diff(before, got) != "" {
		t.Errorf("a wrong value: %v", err)
	}
	if err := s.Update(func(x *policy.Settings) { x.Limits.UpRate = -1 }); code(err) != protocol.CodeInvalidRequest {
		t.Errorf("a wrong update: %v", err)
	}
	if d := cmp.Diff(before, s.Get()); d != "" {
		t.Error(d)
	}
}

// TestOnlyOneOfManyWins: of changes to the same revision one holds.
func TestOnlyOneOfManyWins(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	x := s.Get()
	var mu sync.Mutex
	won := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := s.Set(x); err == nil {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if won != 1 || s.Get().Revision != x.Revision+1 {
		t.Errorf("%d changes held, revision %d", won, s.Get().Revision)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "cut off": `{"form":1,"share":tr`, "another file": "not json", "a list": "[]", "null": "null",
		"too large": `{"tracker":"` + strings.Repeat("x", policy.MaxSize) + `"}`, "a newer version's": `{"form":99,"share":true}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, settings.File)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir)
		if d := cmp.Diff(policy.Defaults(), s.Get()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		aside := path + ".broken-20261130-120000"
		if kept, err := os.ReadFile(aside); err != nil || string(kept) != content {
			t.Errorf("%s: set aside %q, %v", name, kept, err)
		}
		if tr := s.Trouble(); len(tr) != 1 || tr[0].Code != protocol.CodeSettingsBroken || !strings.Contains(tr[0].Message, filepath.Base(aside)) {
			t.Errorf("%s: told %v", name, tr)
		}
		if err := s.Update(func(x *policy.Settings) { x.SetUp = true }); err != nil || len(s.Trouble()) != 0 {
			t.Errorf("%s: after a change: %v, %v", name, err, s.Trouble())
		}
	}
}

// TestMendedFieldsAreTold: one bad value does not cost the others.
func TestMendedFieldsAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, settings.File), []byte(`{"form":1,"share":true,"rules":{"idle_minutes":-5}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if got := s.Get(); !got.Share || got.Rules.IdleMinutes != policy.Defaults().Rules.IdleMinutes {
		t.Errorf("%+v", got)
	}
	if tr := s.Trouble(); len(tr) != 1 || !strings.Contains(tr[0].Message, "rules.idle_minutes") {
		t.Errorf("told %v", tr)
	}
}

// TestDiskIsFull: what the user wants is in force at once, is told as not saved,
// and is saved when there is room; the file is whole at every moment.
func TestDiskIsFull(t *testing.T) {
	dir := testdisk.Mount(t, "size=64k")
	s := open(t, dir)
	if err := s.Update(func(x *policy.Settings) { x.Share = true }); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, bytes.Repeat([]byte{1}, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	if err := s.Update(func(x *policy.Settings) { x.Share = false }); err != nil || s.Get().Share {
		t.Errorf("the wish is not in force: %v", err)
	}
	if tr := s.Trouble(); len(tr) != 1 || tr[0].Code != protocol.CodeDiskFull {
		t.Errorf("told %v", tr)
	}
	s.Save()
	if len(s.Trouble()) != 1 {
		t.Error("it counts as saved on a full disk")
	}
	if !open(t, dir).Get().Share {
		t.Error("the file does not have what was saved last")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	s.Save()
	if len(s.Trouble()) != 0 || open(t, dir).Get().Share {
		t.Errorf("with room again: %v", s.Trouble())
	}
}

// TestFolderThatCannotBeUsed is an error of the start: nothing could be kept.
func TestFolderThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, settings.File)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := settings.Open(dir, noon)
	if err != nil {
		t.Fatalf("a folder in the file's place is set aside like a broken file: %v", err)
	}
	if len(s.Trouble()) != 1 {
		t.Errorf("told %v", s.Trouble())
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
