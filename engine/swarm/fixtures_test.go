package swarm_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
	"neuron/internal/publish"
)

// Torrents of libtorrent's and webtorrent's tests, most of them broken on
// purpose, do not belong to the model: each is refused with a code, and the
// child lives on.
func TestForeignTorrentsAreRefused(t *testing.T) {
	t.Parallel()
	var files []string
	root := filepath.Join("..", "..", "..", "shared", "testdata", "torrent")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".torrent") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Skipf("SKIPPED: no torrents in %s (%v)", root, err)
	}
	m := swarmtest.Publish(t, 2, publish.Options{PieceLength: pieceLength})
	node := swarmtest.Start(t)
	pid := 0
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w := m.Wanted(m.Folder(t))
		if err := os.WriteFile(filepath.Join(w.Dir, "model.torrent"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		node.Only(w)
		if s := node.UntilState(swarm.StateFailed); s.Error == nil || s.Error.Code != protocol.CodeModelInvalid {
			t.Errorf("%s: %+v", filepath.Base(path), s.Error)
		}
		if now := node.Host.Pid(); pid == 0 {
			pid = now
		} else if now != pid {
			t.Fatalf("%s ended the child", filepath.Base(path))
		}
	}
	t.Logf("%d torrents", len(files))
	node.Only(m.Wanted(m.Folder(t)))
	node.UntilState(swarm.StateDownloading)
}
