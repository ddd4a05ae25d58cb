package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/torrentfile"
)

// guide is the small model that comes with the source.
const guide = "../assets/model/guide-q8_0.gguf"

// cli runs a command to its end.
func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := cli(t, args...)
	if code != 0 {
		t.Fatalf("%v: status %d\n%s%s", args, code, out, errs)
	}
	return out
}

// running starts a tracker and returns its URL, without the last slash.
func running(t *testing.T, data string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"--listen", "127.0.0.1:0", "--data", data, "--log-level", "error"}, args...), w, t.Output())
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, r)
		if code := <-done; code != 0 {
			t.Errorf("the tracker ended with %d", code)
		}
	})
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(strings.TrimSpace(string(line[:n])), "/")
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, raw
}

// waitCatalog polls until the tracker shows what is wanted.
func waitCatalog(t *testing.T, base string, ok func([]protocol.CatalogModel) bool) []protocol.CatalogModel {
	t.Helper()
	var last []byte
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		var c protocol.Catalog
		if _, last = get(t, base+"/v1/catalog"); json.Unmarshal(last, &c) == nil && ok(c.Models) {
			return c.Models
		}
	}
	t.Fatalf("the catalog never became so: %s", last)
	return nil
}

// TestPublishBesideARunningTracker is the life of a model in the catalog.
func TestPublishBesideARunningTracker(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	base := running(t, data)
	out := mustRun(t, "publish", guide, "--data", data, "--webseed", "https://seed.example/guide-q8_0.gguf", "--name", "the guide")
	if !strings.Contains(out, "the guide: published\n") {
		t.Errorf("output %s", out)
	}
	models := waitCatalog(t, base, func(m []protocol.CatalogModel) bool { return len(m) == 1 })
	m := models[0]
	info, err := os.Stat(guide)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "the guide" || m.Bytes != info.Size() || m.Layers < 1 || len(m.Replicas) != m.Layers || m.Missing != fmt.Sprintf("0-%d", m.Layers) ||
		m.Routable || len(m.WebSeeds) != 1 || m.Private || !strings.Contains(out, m.InfoHash) || !strings.Contains(out, string(m.Model)) {
		t.Errorf("catalog %+v\n%s", m, out)
	}
	status, raw := get(t, base+"/v1/models/"+string(m.Model)+"/manifest")
	s, err := manifest.ParseSigned(raw)
	if status != 200 || err != nil || !bytes.Equal(s.Publisher, m.Publisher) || s.Manifest.Model != m.Model {
		t.Fatalf("manifest: %d, %v", status, err)
	}
	status, raw = get(t, base+"/v1/models/"+string(m.Model)+"/torrent")
	if err := torrentfile.CheckTorrent(raw, s.Manifest); status != 200 || err != nil {
		t.Fatalf("torrent: %d, %v", status, err)
	}
	if tf, err := torrentfile.Parse(raw); err != nil || len(tf.Announce) != 1 || tf.Announce[0] != base+"/announce" || len(tf.WebSeeds) != 1 {
		t.Errorf("torrent %+v, %v", tf, err)
	}
	again := mustRun(t, "publish", "--data", data, "--name", "the guide", "--webseed", "https://seed.example/guide-q8_0.gguf", "--", guide)
	if !strings.Contains(again, "already published, nothing has changed") {
		t.Errorf("again: %s", again)
	}
	if list := mustRun(t, "catalog", "--data", data); !strings.Contains(list, "the guide") || !strings.Contains(list, m.Model.Short()) {
		t.Errorf("list %s", list)
	}
	var rows []row
	if err := json.Unmarshal([]byte(mustRun(t, "catalog", "--json", "--data", data)), &rows); err != nil || len(rows) != 1 || rows[0].Bytes != m.Bytes || !bytes.Equal(rows[0].Publisher, m.Publisher) {
		t.Errorf("rows %+v, %v", rows, err)
	}
	// Other options for the same bytes replace the entry.
	if out := mustRun(t, "publish", guide, "--data", data, "--private"); !strings.Contains(out, "guide-q8_0: updated") {
		t.Errorf("update: %s", out)
	}
	waitCatalog(t, base, func(m []protocol.CatalogModel) bool { return len(m) == 1 && m[0].Name == "guide-q8_0" && m[0].Private })
	if status, raw := get(t, base+"/v1/models/"+string(m.Model)+"/torrent"); status != 403 || !bytes.Contains(raw, []byte("forbidden")) {
		t.Errorf("a private torrent without a token: %d %s", status, raw)
	}
	if out := mustRun(t, "unpublish", string(m.Model[:8]), "--data", data); !strings.Contains(out, "guide-q8_0: unpublished") {
		t.Errorf("unpublish: %s", out)
	}
	waitCatalog(t, base, func(m []protocol.CatalogModel) bool { return len(m) == 0 })
	if status, _ := get(t, base+"/v1/models/"+string(m.Model)+"/manifest"); status != 404 {
		t.Errorf("an unpublished manifest: %d", status)
	}
	if list := mustRun(t, "catalog", "--data", data); !strings.Contains(list, "no model is published") {
		t.Errorf("empty list %q", list)
	}
}

// TestPublishFirst: a publisher may come before the tracker; the tracker then
// has the key that signed.
func TestPublishFirst(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	mustRun(t, "publish", guide, "--data", data)
	base := running(t, data)
	m := waitCatalog(t, base, func(m []protocol.CatalogModel) bool { return len(m) == 1 })[0]
	_, raw := get(t, base+"/v1/models/"+string(m.Model)+"/torrent")
	if tf, err := torrentfile.Parse(raw); err != nil || len(tf.Announce) != 1 || tf.Announce[0] != "http://127.0.0.1:7700/announce" {
		t.Errorf("torrent %+v, %v", tf, err)
	}
}

func TestPublishMistakes(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	text := filepath.Join(t.TempDir(), "a.gguf")
	if err := os.WriteFile(text, []byte("hello, I am a text"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, _ = cli(t, "publish", "absent.gguf", "--data", data) // makes the folder and its database
	for name, c := range map[string]struct {
		args []string
		code int
		text string
	}{
		"no file":           {[]string{"publish", "--data", data}, 2, "name the model"},
		"absent":            {[]string{"publish", "absent.gguf", "--data", data}, 1, "model_not_found"},
		"text":              {[]string{"publish", text, "--data", data}, 1, "model_invalid"},
		"web seed":          {[]string{"publish", guide, "--data", data, "--webseed", "ftp://x/y"}, 2, "not an http or https URL"},
		"no key":            {[]string{"publish", guide, "--data", data, "--key", "absent.pem"}, 1, "publisher's key"},
		"bad key":           {[]string{"publish", guide, "--data", data, "--key", text}, 1, "damaged"},
		"data is a file":    {[]string{"publish", guide, "--data", text}, 1, "data_folder"},
		"unpublish nothing": {[]string{"unpublish", "--data", data}, 2, "name one model"},
		"unpublish unknown": {[]string{"unpublish", "x", "--data", data}, 1, "model_not_found"},
		"catalog arguments": {[]string{"catalog", "x", "--data", data}, 2, "unknown argument"},
		"no such folder":    {[]string{"catalog", "--data", filepath.Join(data, "absent")}, 1, "data_folder"},
		"no database":       {[]string{"catalog", "--data", t.TempDir()}, 1, "is not the data folder of a tracker"},
		"unknown command":   {[]string{"dance"}, 2, "no command"},
		"serve argument":    {[]string{"serve", "x"}, 2, "unknown argument"},
		"bad proxies":       {[]string{"--trusted-proxies", "x"}, 2, "not an IP address"},
		"bad public URL":    {[]string{"--public-url", "x", "--data", data}, 1, "public URL"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := cli(t, c.args...)
			if code != c.code || !strings.Contains(errs, c.text) || out != "" {
				t.Errorf("status %d, want %d with %q:\n%s%s", code, c.code, c.text, out, errs)
			}
		})
	}
}

func TestHelpNamesTheCommands(t *testing.T) {
	t.Parallel()
	_, _, help := cli(t, "--help")
	for _, c := range commands() {
		if !strings.Contains(help, c.name) {
			t.Errorf("%s is missing in %s", c.name, help)
		}
		if code, _, errs := cli(t, c.name, "--help"); code != 0 || !strings.Contains(errs, c.about) {
			t.Errorf("help of %s: %d %s", c.name, code, errs)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var b bytes.Buffer
	p := &progress{w: &b, now: func() time.Time { return now }}
	for i := range 101 {
		p.update(int64(i)<<20, 100<<20)
		now = now.Add(time.Second)
	}
	p.end()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 20 || lines[0] != "hashing 5 %  5.0 MiB of 100.0 MiB  1.0 MiB/s  ETA 1:35" {
		t.Errorf("%d lines, first %q", len(lines), lines[0])
	}
	b.Reset()
	p = &progress{w: &b, terminal: true, now: func() time.Time { return now }}
	p.update(0, 1<<20)
	p.update(1<<20, 1<<20)
	p.end()
	if got := b.String(); got != "\r[########################] 100 %  1.0 MiB of 1.0 MiB\n" {
		t.Errorf("bar %q", got)
	}
	for d, want := range map[time.Duration]string{0: "0:00", time.Second / 2: "0:01", 61 * time.Second: "1:01", 3661 * time.Second: "1:01:01"} {
		if got := clock(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
