package server

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	trackerhttp "github.com/anacrolix/torrent/tracker/http"
	"github.com/anacrolix/torrent/types/infohash"

	"neuron/internal/publish"
)

const guideFile = "../../assets/model/guide-q8_0.gguf"

// TestAnnounceOfTheLibrary: the client that engines use understands the
// answers, with a token too, though it writes its own "key".
func TestAnnounceOfTheLibrary(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	m := tr.publishGuide(true)
	u, err := url.Parse(tr.URL() + "announce/" + tr.join(newKey(), "gateway").welcome.AnnounceToken)
	if err != nil {
		t.Fatal(err)
	}
	c := trackerhttp.NewClient(u, trackerhttp.NewClientOpts{})
	defer c.Close()
	ask := func(port uint16, left int64) (trackerhttp.AnnounceResponse, error) {
		r := trackerhttp.AnnounceRequest{InfoHash: infohash.FromHexString(m.Torrent.InfoHash), Port: port, Left: left, NumWant: -1, Key: 7}
		copy(r.PeerId[:], "-AA0001-abcdefghijkl")
		return c.Announce(t.Context(), r, trackerhttp.AnnounceOpt{})
	}
	if _, err := ask(1001, 0); err != nil {
		t.Fatal(err)
	}
	a, err := ask(1002, -1)
	if err != nil || a.Seeders != 1 || a.Leechers != 1 || a.Interval != 60 || len(a.Peers) != 1 || a.Peers[0].Port != 1001 || a.Peers[0].IP.String() != "127.0.0.1" {
		t.Errorf("answer %+v, %v", a, err)
	}
	u.Path = "/announce"
	c = trackerhttp.NewClient(u, trackerhttp.NewClientOpts{})
	defer c.Close()
	if _, err := ask(1003, 1); err == nil || !strings.Contains(err.Error(), "private") {
		t.Errorf("without a token: %v", err)
	}
}

// TestAria2 lets two foreign clients find each other by this tracker alone: one
// has the published file, the other one ends with the same bytes.
func TestAria2(t *testing.T) {
	t.Parallel()
	aria2, err := exec.LookPath("aria2c")
	if err != nil {
		t.Skip("SKIPPED: aria2c is not installed")
	}
	tr := start(t, t.TempDir(), &clock{})
	r, err := publish.Build(t.Context(), []string{guideFile}, publish.Options{Announce: []string{tr.URL() + "announce"}})
	if err != nil {
		t.Fatal(err)
	}
	tr.publish(r, false)
	eventually(t, "the model in the catalog", func() bool { return len(tr.core.Catalog()) == 1 })
	resp, metainfo := tr.request("GET", "/v1/models/"+string(r.Manifest.Model)+"/torrent", nil)
	if resp.StatusCode != 200 {
		t.Fatalf("torrent: %d", resp.StatusCode)
	}
	dir := t.TempDir()
	torrent := filepath.Join(dir, "x.torrent")
	whole, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(guideFile)
	seedDir, getDir := filepath.Join(dir, "seed"), filepath.Join(dir, "get")
	for path, b := range map[string][]byte{torrent: metainfo, filepath.Join(seedDir, name): whole, filepath.Join(getDir, "x"): nil} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	common := []string{"--no-conf", "--enable-dht=false", "--bt-enable-lpd=false", "--enable-peer-exchange=false", "--listen-port=20000-60000",
		"--interface=127.0.0.1", "--check-certificate=false", "--summary-interval=0", "--console-log-level=warn"}
	seedCtx, stop := context.WithCancel(t.Context())
	seed := exec.CommandContext(seedCtx, aria2, append(common, "--dir="+seedDir, "--check-integrity=true", "--seed-ratio=0.0", torrent)...)
	seed.Stdout, seed.Stderr = io.Discard, io.Discard
	if err := seed.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = seed.Wait() // killed
	}()
	eventually(t, "a seeder", func() bool { return tr.core.Catalog()[0].Seeders == 1 })
	getCtx, cancel := context.WithTimeout(t.Context(), patience*3)
	defer cancel()
	get := exec.CommandContext(getCtx, aria2, append(common, "--dir="+getDir, "--seed-time=0", torrent)...)
	if out, err := get.CombinedOutput(); err != nil {
		t.Fatalf("aria2c: %v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(getDir, name))
	if err != nil || !bytes.Equal(got, whole) {
		t.Errorf("%d bytes of %d, %v", len(got), len(whole), err)
	}
	var text string
	if tr.get("/metrics", &text); !strings.Contains(text, `kind="announce",result="ok"`) {
		t.Error("nobody announced")
	}
}
