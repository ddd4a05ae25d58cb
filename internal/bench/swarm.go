package bench

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest/announce"
	"neuron/internal/publish"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// SwarmOptions configure Swarm. Bin and Dir are required.
type SwarmOptions struct {
	Bin    string // folder with neuron-engine
	Dir    string // folder for files; emptied of what Swarm put there
	Layers int    // of 33 MB each [15, which is half a gigabyte]
	Rounds int    // of each side, in turn [3]
}

// SwarmFigures are the outcome of Swarm.
type SwarmFigures struct {
	Bytes int64           // of the file
	Ours  []time.Duration // from "wanted" to "complete" of one node that fetches from another
	Aria2 []time.Duration // from start to end of aria2c that fetches from aria2c
}

// Ratio is our speed over aria2c's, of the medians.
func (f *SwarmFigures) Ratio() float64 {
	return float64(middle(f.Aria2)) / float64(middle(f.Ours))
}

func middle(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}

// Swarm compares the throughput of one of our nodes that fetches a whole model
// from another on the loopback network with that of aria2c, on the same file
// with pieces of 4 MiB, in turns. Each side has one seeder for all its turns,
// and a new node that fetches for each. Both run at the priority at which our process
// puts itself, the lowest.
func Swarm(ctx context.Context, o SwarmOptions) (_ *SwarmFigures, err error) {
	if o.Layers == 0 {
		o.Layers = 15
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	aria, err := exec.LookPath("aria2c")
	if err != nil {
		return nil, fmt.Errorf("aria2c is missing (Debian package aria2): %w", err)
	}
	parent, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "swarm-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &swarmBench{o: o, dir: dir, aria: aria}
	if err := b.publish(ctx); err != nil {
		return nil, err
	}
	if err := b.seedOurs(ctx); err != nil {
		return nil, fmt.Errorf("our seeder: %w", err)
	}
	defer b.seeder.stop()
	stop, err := b.seedAria2(ctx)
	if err != nil {
		return nil, fmt.Errorf("aria2c's seeder: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	f := &SwarmFigures{Bytes: b.man.Size()}
	for i := range o.Rounds {
		ours, err := b.ours(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("our round %d: %w", i, err)
		}
		theirs, err := b.aria2(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("aria2c's round %d: %w", i, err)
		}
		f.Ours, f.Aria2 = append(f.Ours, ours), append(f.Aria2, theirs)
	}
	return f, nil
}

type swarmBench struct {
	o         SwarmOptions
	dir, aria string
	file      string
	man       *manifest.Manifest
	signed    []byte
	torrent   []byte
	seeder    *swarmNode // ours
	addr      string     // of it
	url       string     // of aria2c's tracker
}

func (b *swarmBench) publish(ctx context.Context) error {
	if err := os.Mkdir(filepath.Join(b.dir, "publisher"), 0o700); err != nil {
		return err
	}
	b.file = filepath.Join(b.dir, "publisher", "model.gguf")
	shape := synth.Shape{Family: synth.FamilyLlama, Layers: b.o.Layers, Embd: 1024, FF: 4096, Heads: 16, KVHeads: 16, HeadDim: 64, Vocab: 1024, Context: 2048}
	if err := synth.Write(b.file, shape, synth.Options{Type: gguf.TypeF16, Seed: 1}); err != nil {
		return err
	}
	r, err := publish.Build(ctx, []string{b.file}, publish.Options{PieceLength: 4 << 20})
	if err != nil {
		return err
	}
	s, err := manifest.Sign(r.Manifest, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		return err
	}
	b.man, b.signed, b.torrent = r.Manifest, s.Raw, r.Torrent
	return os.WriteFile(filepath.Join(b.dir, "m.torrent"), b.torrent, 0o600)
}

// swarmNode is one of our BitTorrent processes with its host.
type swarmNode struct {
	host    *swarm.Host
	changed chan struct{}
	stop    func()
}

func (b *swarmBench) node(ctx context.Context) *swarmNode {
	n := &swarmNode{changed: make(chan struct{}, 1)}
	n.host = swarm.NewHost(swarm.HostOptions{
		Spawn: swarm.Spawn{Exe: filepath.Join(b.o.Bin, "neuron-engine"), Args: []string{"swarm"}, Logger: slog.New(slog.DiscardHandler)},
		Changed: func() {
			select {
			case n.changed <- struct{}{}:
			default:
			}
		},
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.host.Run(ctx)
	}()
	n.stop = func() { cancel(); <-done }
	return n
}

// complete waits until the node has what it wants.
func (n *swarmNode) complete(ctx context.Context) (swarm.Status, error) {
	for {
		s := n.host.Status()
		if s.Version == 1 && len(s.Models) == 1 && s.Models[0].State == swarm.StateComplete {
			return s, nil
		}
		if len(s.Models) == 1 && s.Models[0].State == swarm.StateFailed {
			return s, s.Models[0].Error
		}
		select {
		case <-ctx.Done():
			return s, context.Cause(ctx)
		case <-n.changed:
		}
	}
}

func (b *swarmBench) folder(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, "manifest.json"), b.signed, 0o600),
		os.WriteFile(filepath.Join(dir, "model.torrent"), b.torrent, 0o600))
}

// wanted is what one of our nodes is told, of the model.
func (b *swarmBench) wanted(m swarm.Model) swarm.Wanted {
	m.Model = b.man.Model
	return swarm.Wanted{Version: 1, Listen: "127.0.0.1:0", Models: []swarm.Model{m}}
}

// seedOurs starts our seeder and waits until it has looked at the file.
func (b *swarmBench) seedOurs(ctx context.Context) error {
	from, err := b.folder("ours-from")
	if err != nil {
		return err
	}
	n := b.node(ctx)
	err = n.host.Set(b.wanted(swarm.Model{Dir: from, Adopted: []string{b.file}}))
	if err == nil {
		var s swarm.Status
		s, err = n.complete(ctx)
		b.addr = s.Addr
	}
	if err != nil {
		n.stop()
		return err
	}
	b.seeder = n
	return nil
}

// ours is one round of our side.
func (b *swarmBench) ours(ctx context.Context, round int) (took time.Duration, err error) {
	to, err := b.folder(fmt.Sprintf("ours-%d-to", round))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	leecher := b.node(ctx)
	defer leecher.stop()
	w := b.wanted(swarm.Model{Dir: to, Ranges: []protocol.Range{{First: 0, Last: b.o.Layers}}, Peers: []string{b.addr}})
	began := time.Now()
	if err := leecher.host.Set(w); err != nil {
		return 0, err
	}
	_, err = leecher.complete(ctx)
	return time.Since(began), err
}

// seedAria2 starts the other side's tracker and seeder, and waits until it has
// looked at the file.
func (b *swarmBench) seedAria2(ctx context.Context) (stop func() error, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	tr := announce.New()
	srv := &http.Server{Handler: tr, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // ends by Close
	}()
	b.url = "http://" + l.Addr().String() + "/announce"

	sctx, cancel := context.WithCancel(ctx)
	seeder := b.ariaCommand(sctx, filepath.Dir(b.file), "--seed-ratio=0.0", "--check-integrity=true")
	started := false
	stop = func() error {
		cancel()
		if started {
			_ = seeder.Wait() // killed: its end is no news
		}
		err := srv.Close()
		<-served
		return err
	}
	if err := seeder.Start(); err != nil {
		return nil, errors.Join(err, stop())
	}
	started = true
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(tr.Peers(b.man.Torrent.InfoHash)) == 0 {
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), stop())
		case <-tick.C:
		}
	}
	return stop, nil
}

// aria2 is one round of the other side.
func (b *swarmBench) aria2(ctx context.Context, round int) (took time.Duration, err error) {
	to := filepath.Join(b.dir, fmt.Sprintf("aria2-%d", round))
	if err := os.Mkdir(to, 0o700); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	began := time.Now()
	leecher := b.ariaCommand(ctx, to, "--seed-time=0")
	if out, err := leecher.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %.300s", err, out)
	}
	took = time.Since(began)
	st, err := os.Stat(filepath.Join(to, filepath.Base(b.file)))
	if err == nil && st.Size() != b.man.Size() {
		err = fmt.Errorf("aria2c fetched %d bytes of %d", st.Size(), b.man.Size())
	}
	return took, err
}

func (b *swarmBench) ariaCommand(ctx context.Context, dir string, more ...string) *exec.Cmd {
	args := append([]string{
		"-n", "19", b.aria, "--no-conf", "--dir=" + dir, "--interface=127.0.0.1", "--listen-port=20000-60000",
		"--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--enable-peer-exchange=false",
		"--bt-tracker=" + b.url, "--file-allocation=none", "--summary-interval=0", "--console-log-level=error", "--quiet=true",
		fmt.Sprintf("--stop-with-process=%d", os.Getpid()),
	}, more...)
	return exec.CommandContext(ctx, "nice", append(args, filepath.Join(b.dir, "m.torrent"))...)
}
