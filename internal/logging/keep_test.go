package logging

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRing(t *testing.T) {
	t.Parallel()
	r := NewRing(3)
	if got := r.After(0); len(got) != 0 {
		t.Errorf("an empty ring has %v", got)
	}
	l := NewTo(Levels{Default: slog.LevelInfo, Components: map[string]slog.Level{"loud": slog.LevelDebug}}, r.Handler(), slog.DiscardHandler)
	seam := l.For("seam").With("node", "n 1")
	seam.Debug("not kept")
	l.For("loud").Debug("kept")
	seam.Warn("went wrong", "error", errors.New(`no "good"`), "count", 3, slog.Group("g", "a", 1, "b", ""))
	seam.WithGroup("x").Info("grouped", "a", 1)
	want := []Line{
		{Number: 1, Level: slog.LevelDebug, Component: "loud", Text: "kept"},
		{Number: 2, Level: slog.LevelWarn, Component: "seam", Text: `went wrong node="n 1" error="no \"good\"" count=3 g.a=1 g.b=""`},
		{Number: 3, Level: slog.LevelInfo, Component: "seam", Text: `grouped node="n 1" x.a=1`},
	}
	check := func(after int64, want []Line) {
		t.Helper()
		got := r.After(after)
		for i := range got {
			if got[i].Time.IsZero() {
				t.Error("a line without a time")
			}
			got[i].Time = want[min(i, len(want)-1)].Time
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("after %d:\n%s", after, d)
		}
	}
	check(0, want)
	check(2, want[2:])
	if got := r.After(3); len(got) != 0 {
		t.Errorf("nothing is newer, but %v", got)
	}
	seam.Info("fourth")
	check(0, append(want[1:], Line{Number: 4, Component: "seam", Text: `fourth node="n 1"`}))
	seam.Info(strings.Repeat("ä", maxLine))
	if got := r.After(4)[0].Text; len(got) > maxLine || !strings.HasSuffix(got, "ä...") {
		t.Errorf("a long line of %d bytes ends with %q", len(got), got[len(got)-8:])
	}
}

// TestFilesKeepTheirBound: however much is logged, by several at once, the
// folder holds no more than was allowed, and the newest line.
func TestFilesKeepTheirBound(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "engine.log")
	const total = 20_000
	w := NewFiles(path, total)
	l := New(w, Levels{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for k := range 500 {
				l.For("test").Info("A line of the log", "writer", i, "number", k)
			}
		})
	}
	all.Wait()
	if _, err := fmt.Fprintf(w, "%s\n", strings.Repeat("x", total)); err != nil || w.Err() != nil {
		t.Errorf("a line larger than a file: %v, %v", err, w.Err())
	}
	l.For("test").Info("the last one")
	size := int64(0)
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != files {
		t.Fatalf("%d files: %v", len(list), err)
	}
	for _, f := range list {
		st, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > total {
		t.Errorf("%d bytes of at most %d", size, total)
	}
	if raw, err := os.ReadFile(path); err != nil || !strings.Contains(string(raw), "the last one") {
		t.Errorf("the newest line is not in the file: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}

	// The next run goes on with the file.
	w = NewFiles(path, total)
	defer w.Close()
	w.Write([]byte("next run\n"))
	if raw, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(raw), "next run\n") || !strings.Contains(string(raw), "the last one") {
		t.Errorf("%q, %v", raw, err)
	}
}

// TestLogFolderIsGone: the log's folder is deleted under a running program, or
// cannot be made. The program goes on, and so does the log once it can.
func TestLogFolderIsGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "engine.log")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	w := NewFiles(path, 500)
	defer w.Close()
	line := []byte(strings.Repeat("x", 80) + "\n")
	for range 3 {
		if n, err := w.Write(line); n != len(line) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if w.Err() == nil {
		t.Error("nobody was told that lines are lost")
	}
	for range 2 {
		if err := os.RemoveAll(dir); err != nil {
			t.Skipf("SKIPPED: an open file cannot be removed here: %v", err)
		}
		for range 2 { // the second one fills the file, which is made anew
			w.Write(line)
		}
		if raw, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(raw), string(line)) || w.Err() != nil {
			t.Errorf("%q, %v, %v", raw, err, w.Err())
		}
	}
}
