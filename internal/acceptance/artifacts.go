package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/localapi"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
	"neuron/internal/logging"
	"neuron/llama/cut"
)

// swarmNetwork is a network in which only a seeder has the guide's file: the
// gateway and the nodes fetch what they need.
type swarmNetwork struct {
	*network
	seeder   *localnet.Node
	manifest *manifest.Manifest
}

func (e *env) startSwarm(ctx context.Context, name string) (_ *swarmNetwork, err error) {
	n, err := e.start(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &swarmNetwork{network: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.net.Stop())
		}
	}()
	if err := n.net.Publish(ctx, guide); err != nil {
		return nil, err
	}
	if s.manifest, err = fetchManifest(ctx, n.net.TrackerURL, guide); err != nil {
		return nil, err
	}
	s.seeder, err = n.net.StartSeeder(ctx, "seeder", guide)
	return s, err
}

// fetchManifest gets a model's signed manifest from the tracker.
func fetchManifest(ctx context.Context, tracker, path string) (*manifest.Manifest, error) {
	src, err := artifact.Inspect(ctx, path, "", logging.Discard())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, tracker+"/v1/models/"+string(src.ID)+"/manifest", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, manifest.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the tracker answered %s: %.200s", resp.Status, raw)
	}
	signed, err := manifest.ParseSigned(raw)
	if err != nil {
		return nil, err
	}
	return signed.Manifest, nil
}

// join starts a node that fetches layers and waits until it serves them.
func (s *swarmNetwork) join(ctx context.Context, name, layers string) (*localnet.Node, localapi.Transfer, error) {
	x, err := s.net.StartNode(ctx, name, localnet.NodeOptions{Model: guideName, Layers: layers})
	if err != nil {
		return nil, localapi.Transfer{}, err
	}
	st, err := waitReady(ctx, x)
	if err != nil {
		return nil, localapi.Transfer{}, err
	}
	if len(st.Transfers) != 1 {
		return nil, localapi.Transfer{}, fmt.Errorf("%s transfers %d models", name, len(st.Transfers))
	}
	return x, st.Transfers[0], nil
}

// joinTime bounds fetching, verifying and loading a few layers of the guide.
const joinTime = time.Minute

func waitReady(ctx context.Context, x *localnet.Node) (*localapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	c, err := localapi.Dial(x.Data)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var last localapi.Status
	done := errors.New("ready")
	err = c.Events(ctx, func(e localapi.Event) error {
		last = e.Status
		if len(last.Shards) == 1 && last.Shards[0].State == protocol.ShardReady {
			return done
		}
		return nil
	})
	if errors.Is(err, done) {
		return &last, nil
	}
	return nil, fmt.Errorf("%s is not ready after %s: %+v, health %+v: %w", x.Name, joinTime, last.Shards, last.Health, err)
}

// checkFetched compares what a node has received and keeps with the manifest.
func (s *swarmNetwork) checkFetched(x *localnet.Node, t localapi.Transfer, layers string) (need *manifest.Need, err error) {
	r, err := protocol.ParseRange(layers)
	if err != nil {
		return nil, err
	}
	if need, err = s.manifest.Need(r); err != nil {
		return nil, err
	}
	// A tenth more than the extents, and two pieces at the ends of each run.
	limit := need.Bytes + need.Bytes/10 + 2*int64(len(need.Pieces))*s.manifest.Torrent.PieceLength
	switch {
	case t.Bytes != need.WireBytes || t.Done != t.Bytes:
		return nil, fmt.Errorf("%s has %d of %d bytes; the manifest names %d for layers %s", x.Name, t.Done, t.Bytes, need.WireBytes, layers)
	case t.Received < need.Bytes || t.Received > limit:
		return nil, fmt.Errorf("%s received %d bytes for layers %s, want %d to %d", x.Name, t.Received, layers, need.Bytes, limit)
	}
	dir, err := shardFolder(x)
	if err != nil {
		return nil, err
	}
	if _, err := sameBytes(dir, r.First, r.Last); err != nil {
		return nil, err
	}
	return need, nil
}

func shardFolder(x *localnet.Node) (string, error) {
	found, err := filepath.Glob(filepath.Join(x.Data, "shards", "*", "shard.json"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s has %d shard folders: %w", x.Name, len(found), err)
	}
	return filepath.Dir(found[0]), nil
}

// namesPieces is AC-06: for ranges at the head, in the middle, at the tail and
// of one layer, a node receives just the pieces that the manifest names and
// keeps the publisher's bytes of these layers.
func namesPieces(ctx context.Context, e *env) (figure string, err error) {
	s, err := e.startSwarm(ctx, "pieces")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.net.Stop()) }()
	var wanted, received int64
	pieces := 0
	ranges := []string{"0-2", "3-6", "5-6", "6-8"}
	for i, layers := range ranges {
		x, t, err := s.join(ctx, fmt.Sprintf("node-%d", i), layers)
		if err != nil {
			return "", err
		}
		need, err := s.checkFetched(x, t, layers)
		if err != nil {
			return "", err
		}
		for _, run := range need.Pieces {
			pieces += run.Last - run.First
		}
		wanted += need.Bytes
		received += t.Received
	}
	return fmt.Sprintf("ranges=%d pieces=%d of %d bytes_needed=%d bytes_received=%d", len(ranges), pieces, s.manifest.Torrent.Pieces, wanted, received), nil
}

// provesService is AC-11: nodes that had nothing serve what they can prove
// against the manifest. Three fetch from a seeder and answer together; without
// the seeder a fourth fetches from them; a damaged layer is found before it is
// loaded, fetched again, and the answer is the same.
func provesService(ctx context.Context, e *env) (figure string, err error) {
	s, err := e.startSwarm(ctx, "proves")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.net.Stop()) }()
	began := time.Now()
	layers := []string{"0-3", "3-6", "6-8"}
	nodes := make([]*localnet.Node, len(layers))
	for i, l := range layers {
		x, t, err := s.join(ctx, fmt.Sprintf("node-%d", i), l)
		if err != nil {
			return "", err
		}
		if _, err := s.checkFetched(x, t, l); err != nil {
			return "", err
		}
		nodes[i] = x
	}
	if _, err := s.net.WaitRoute(ctx, guideName, time.Minute); err != nil {
		return "", err
	}
	serving := time.Since(began)
	first, err := s.client.complete(ctx, guideName, promptIDs(60), 24, 0)
	if err != nil {
		return "", err
	}
	if err := s.net.Forget(s.seeder.Proc); err != nil {
		return "", err
	}
	fourth, t, err := s.join(ctx, "fourth", "2-7")
	if err != nil {
		return "", fmt.Errorf("without the seeder: %w", err)
	}
	if _, err := s.checkFetched(fourth, t, "2-7"); err != nil {
		return "", err
	}
	if err := s.net.Forget(fourth.Proc); err != nil {
		return "", err
	}

	kills, err := s.survivesKills(ctx)
	if err != nil {
		return "", err
	}

	// A node that was stopped comes back with a flipped bit in layer 4.
	if err := s.net.Forget(nodes[1].Proc); err != nil {
		return "", err
	}
	dir, err := shardFolder(nodes[1])
	if err != nil {
		return "", err
	}
	if err := flipBit(filepath.Join(dir, "blk.0004.gguf")); err != nil {
		return "", err
	}
	// The fourth node has the good bytes.
	if fourth, _, err = s.join(ctx, "fourth", "2-7"); err != nil {
		return "", err
	}
	again, t, err := s.join(ctx, "node-1", "3-6")
	if err != nil {
		return "", fmt.Errorf("after a flipped bit: %w", err)
	}
	if t.Received == 0 {
		return "", fmt.Errorf("a flipped bit was loaded")
	}
	if _, err := sameBytes(dir, 3, 6); err != nil {
		return "", fmt.Errorf("after the repair: %w", err)
	}
	if err := s.net.Forget(fourth.Proc); err != nil {
		return "", err
	}
	if err := s.net.WaitCovered(ctx, guideName, 1, time.Minute); err != nil {
		return "", err
	}
	second, err := s.client.complete(ctx, guideName, promptIDs(60), 24, 0)
	if err != nil {
		return "", err
	}
	if first.Choices[0].Text != second.Choices[0].Text {
		return "", fmt.Errorf("%s answers otherwise after the repair: %q, before %q", again.Name, second.Choices[0].Text, first.Choices[0].Text)
	}
	return fmt.Sprintf("nodes=3 join_to_serving_ms=%d kills_survived=%d repaired_bytes=%d", serving.Milliseconds(), kills, t.Received), nil
}

// survivesKills kills an engine again and again while it fetches slowly: what
// was committed stays, and in the end all of it is sound.
func (s *swarmNetwork) survivesKills(ctx context.Context) (kills int, err error) {
	const most, layers = 20, "1-7"
	rng := rand.New(rand.NewPCG(5, 8))
	var kept int64
	for range most {
		x, err := s.net.StartNode(ctx, "killed", localnet.NodeOptions{Model: guideName, Layers: layers, Args: []string{"--down-rate", "50000"}})
		if err != nil {
			return kills, err
		}
		t, err := transfers(ctx, x, func(t localapi.Transfer) bool { return t.State == "downloading" || t.State == "complete" })
		if err != nil {
			return kills, err
		}
		if t.Done < kept {
			return kills, fmt.Errorf("after kill %d there are %d bytes, before there were %d", kills, t.Done, kept)
		}
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		if t, err = transfers(ctx, x, func(localapi.Transfer) bool { return true }); err != nil {
			return kills, err
		}
		kept = t.Done
		if err := s.net.Kill(x.Proc); err != nil {
			return kills, err
		}
		kills++
	}
	x, t, err := s.join(ctx, "killed", layers)
	if err != nil {
		return kills, err
	}
	if t.Done != t.Bytes {
		return kills, fmt.Errorf("%d of %d bytes after %d kills", t.Done, t.Bytes, kills)
	}
	dir, err := shardFolder(x)
	if err != nil {
		return kills, err
	}
	if _, err := sameBytes(dir, 1, 7); err != nil {
		return kills, fmt.Errorf("after %d kills: %w", kills, err)
	}
	return kills, s.net.Forget(x.Proc)
}

// transfers waits until the node's one transfer is as wanted.
func transfers(ctx context.Context, x *localnet.Node, ok func(localapi.Transfer) bool) (out localapi.Transfer, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	c, err := localapi.Dial(x.Data)
	if err != nil {
		return out, err
	}
	defer c.Close()
	done := errors.New("done")
	err = c.Events(ctx, func(e localapi.Event) error {
		if t := e.Status.Transfers; len(t) == 1 && ok(t[0]) {
			out = t[0]
			return done
		}
		return nil
	})
	if errors.Is(err, done) {
		return out, nil
	}
	return out, fmt.Errorf("%s: no transfer: %w", x.Name, err)
}

// flipBit damages a byte in the middle of a layer file's data.
func flipBit(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	var b [1]byte
	at := cut.HeaderRegion + (st.Size()-cut.HeaderRegion)/2
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], at)
	return err
}
