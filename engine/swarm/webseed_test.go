package swarm_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
	"neuron/internal/publish"
)

// webSeeded publishes a model whose torrent names web seeds.
func webSeeded(t *testing.T, path string, urls ...string) *swarmtest.Model {
	t.Helper()
	return swarmtest.PublishFile(t, path, publish.Options{PieceLength: pieceLength, WebSeeds: urls})
}

func TestPlainFileServerIsAWebSeed(t *testing.T) {
	t.Parallel()
	m := swarmtest.Publish(t, 4, publish.Options{PieceLength: pieceLength})
	srv := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(m.Path))))
	defer srv.Close()
	n := &network{Model: webSeeded(t, m.Path, srv.URL+"/")}
	node := swarmtest.Start(t)
	w := n.Wanted(n.Folder(t))
	w.Ranges = []protocol.Range{{First: 1, Last: 3}}
	node.Only(w)
	s := node.UntilState(swarm.StateComplete)
	if need := n.need(t, w.Ranges...); s.Received != need.WireBytes || s.Dropped != 0 {
		t.Errorf("%d bytes received for %d, %d dropped", s.Received, need.WireBytes, s.Dropped)
	}
	node.Stop()
	n.holds(t, w.Dir, n.need(t, w.Ranges...))
}

// A web seed that lies is dropped and nothing that it sent is kept; the honest
// one beside it does the work.
func TestLyingWebSeedsAreDropped(t *testing.T) {
	t.Parallel()
	m := swarmtest.Publish(t, 2, publish.Options{PieceLength: pieceLength})
	file, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	ranges := []protocol.Range{{First: 1, Last: 2}}
	for name, lie := range map[string]http.HandlerFunc{
		"200 with the whole body": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) },
		"206 with wrong content": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, len(file))))
		},
		"cut": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(&cutter{ResponseWriter: w, left: 3 * pieceLength / 2}, r, "", time.Time{}, bytes.NewReader(file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 100)
			liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case asked <- struct{}{}:
				default:
				}
				lie(w, r)
			}))
			defer liar.Close()
			n := &network{Model: webSeeded(t, m.Path, liar.URL+"/model.gguf")}
			node := swarmtest.Start(t)
			w := n.Wanted(n.Folder(t))
			w.Ranges = ranges
			node.Only(w)
			s := node.Until("the liar is dropped", func(s swarm.Status) bool { return len(s.Models) == 1 && s.Models[0].Dropped > 0 }).Models[0]
			if name != "cut" && s.Done != 0 {
				t.Errorf("%d bytes of a liar are kept", s.Done)
			}
			select {
			case <-asked:
			default:
				t.Error("the liar was not asked")
			}
			// An honest peer does the rest.
			seeder := swarmtest.Start(t)
			sm := n.Wanted(n.Folder(t))
			sm.Adopted = []string{n.Path}
			seeder.Only(sm)
			w.Peers = []string{seeder.Addr().String()}
			node.Only(w)
			node.UntilState(swarm.StateComplete)
			node.Stop()
			n.holds(t, w.Dir, n.need(t, ranges...))
		})
	}
}

// cutter breaks the connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}
