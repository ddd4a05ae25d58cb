package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--listen", "127.0.0.1:0", "--data", data}, w, io.Discard)
		w.Close()
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(string(line[:n]))
	resp, err := http.Get(url + "health")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %v %v", url, resp, err)
	}
	resp.Body.Close()
	var stderr bytes.Buffer
	if c := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--data", data}, io.Discard, &stderr); c != 1 ||
		!strings.Contains(stderr.String(), "already_running") || !strings.Contains(stderr.String(), "choose another data folder") {
		t.Errorf("second tracker: %d %s", c, stderr.String())
	}
	cancel()
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("more than one line on stdout: %q", rest)
	}
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	if c := run(t.Context(), []string{"--nonsense"}, io.Discard, io.Discard); c != 2 {
		t.Errorf("wrong flag: %d", c)
	}
	if c := run(t.Context(), []string{"--help"}, io.Discard, io.Discard); c != 0 {
		t.Errorf("help: %d", c)
	}
}
