package program

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/audit"
	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/ownership/desk"
	"neuron/engine/planner"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/receipt/hooks"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/stage"
	"neuron/engine/swarm"
	"neuron/internal/filelock"
	"neuron/internal/identity"
	"neuron/internal/version"
)

// NodeOptions configure a Node. Zero values take the defaults in brackets.
type NodeOptions struct {
	Data    string // folder for key, shards and the local API
	Owner   string // folder of the owner key [Data]
	Tracker string // URL; "" works alone
	// TrackerKey pins the tracker; empty trusts the first key seen.
	TrackerKey ed25519.PublicKey
	// Model is a GGUF file (any part of a split one), or the name or id of a
	// model in the tracker's catalog; "" leaves the choice to the tracker.
	Model string
	// Layers is "all" or "FIRST-LAST"; "" is all of a file, and the tracker's
	// choice for a model of the catalog.
	Layers string
	// Adopt are GGUF files of this computer that are seeded from where they
	// lie, and used instead of fetching the same model.
	Adopt []string
	// SeedOnly holds no layers: the node gives what it adopted, and runs nothing.
	SeedOnly bool
	// Publishers may sign manifests besides the tracker.
	Publishers  []ed25519.PublicKey
	SwarmListen string // ["127.0.0.1:0"]
	Swarm       swarm.Limits
	SeamListen  string // ["127.0.0.1:0"]
	SeamAddr    string // what others dial [the listener's address]
	APIListen   string // local API ["127.0.0.1:0"]
	// Changed is called when Source or Owner have news. With it the node has no
	// local API of its own: the caller shows both.
	Changed func()
	// Parked makes the node begin as after Park(true).
	Parked bool
	// Wrap stands between the seam and the stage [nothing].
	Wrap func(seam.Stage) seam.Stage

	Threads     int   // per call [as many as other programs leave free]
	ChunkRows   int   // [256]
	MaxContext  int   // [the model's, at most 128K]
	MaxSessions int   // [16]
	KVBudget    int64 // bytes [a quarter of the memory that is available]
	MemoryLimit int64 // bytes for weights and sessions [what is available]
	NoRepack    bool
	// GPUs are the devices that stages may use, by their names of
	// engine/stage/gpu [the processor alone].
	GPUs []string
	// PrefixDisk bounds the snapshots of prompts' beginnings [1 GiB]; negative:
	// none. PrivatePrefixes writes those of private sessions, too.
	PrefixDisk      int64
	PrivatePrefixes bool

	NativeDir string // [found by the stage]
	Exe       string // program that runs stages [this one]
	Log       Log
}

const (
	defaultChunkRows   = 256
	defaultMaxSessions = 16
	defaultPrefixDisk  = 1 << 30
	kvShare            = 4
	closeTimeout       = 5 * time.Second
	// quietTimeout is for connections that carry nothing any more.
	quietTimeout = time.Second
)

// Node is a running engine that holds layers.
type Node struct {
	o     NodeOptions
	log   *slog.Logger
	began time.Time
	host  probe.Host
	spawn stage.Spawn

	lock     *filelock.Lock
	id       *identity.Identity
	models   *models // nil without a tracker
	shard    *shard
	seamL    net.Listener
	seam     *seam.Server
	client   *seamclient.Client
	book     *receipt.Book
	peers    *peers
	audits   *audit.Service
	owner    *desk.Desk
	api      *localapi.Server        // nil with NodeOptions.Changed
	stop     context.CancelCauseFunc // set by Run
	ctlMade  chan struct{}           // closed when ctl is set
	settled  chan struct{}           // closed when a stage is ready or failed for the first time
	settleMu sync.Once

	newFiles chan *artifact.Source // adopted while it runs
	devices  []planner.Device      // GPUs that were chosen and are there; constant

	seenMu sync.Mutex
	// Protected by seenMu.
	seen   use
	seenAt time.Time
	seenOf []int // the stages that were seen

	mu sync.Mutex
	// Protected by mu.
	ctl     *control.Client    // nil until the library has said its version, or without a tracker
	health  *protocol.Error    // why there is no assignment
	adopted []*artifact.Source // files of this computer, to be seeded
	off     string             // why no sessions are taken, "" when some are
}

// NewNode takes the data folder and ports, and cuts what is missing of a model
// that is a file; nothing runs yet. The caller must Run or Close it.
func NewNode(ctx context.Context, o NodeOptions) (_ *Node, err error) {
	n := &Node{o: o.withDefaults(), began: time.Now(), settled: make(chan struct{}), ctlMade: make(chan struct{}), newFiles: make(chan *artifact.Source)}
	n.log = n.o.Log("node")
	defer func() {
		if err != nil {
			n.release()
		}
	}()
	if n.lock, err = OpenData(n.o.Data); err != nil {
		return nil, err
	}
	if n.id, err = identity.LoadOrCreate(n.o.Data); err != nil {
		return nil, err
	}
	if n.host, err = probe.Read(); err != nil {
		return nil, err
	}
	if err := n.checkOptions(); err != nil {
		return nil, err
	}
	if n.spawn, err = spawn(n.o.Exe, n.o.Log); err != nil {
		return nil, err
	}
	n.lookForDevices(ctx)
	want, err := n.openFiles(ctx)
	if err != nil {
		return nil, err
	}
	if n.seamL, err = listen(ctx, "seam", n.o.SeamListen); err != nil {
		return nil, err
	}
	if n.o.SeamAddr == "" {
		n.o.SeamAddr = n.seamL.Addr().String()
	}
	if n.o.Tracker != "" {
		n.models, err = newModels(modelsOptions{
			data: n.o.Data, tracker: n.o.Tracker, listen: n.o.SwarmListen, limits: n.o.Swarm, spawn: n.spawn,
			trusted: trustedKeys(n.trackerKey, n.o.Publishers), token: n.announceToken, changed: n.changed, log: n.o.Log,
		})
		if err != nil {
			return nil, err
		}
	}
	n.shard = n.newShard(want)
	n.client = seamclient.New(n.id)
	if n.book, err = openBook(n.o.Data, n.id, n.client, trackerOf(n.control), n.o.Log("receipts")); err != nil {
		return nil, err
	}
	n.peers = newPeers(n.client, n.id.ID(), n.log)
	n.audits = n.newAudits()
	n.seam = seam.NewServer(seam.ServerOptions{
		Taps: n.audits.Keeper(), Audits: n.audits.Receive,
		Identity: n.id, Stage: n.readyStage, TrackerKey: n.trackerKey, Logger: n.o.Log("seam"), HopFailed: n.hopFailed,
		Receipts: hooks.Hops{Book: n.book, Engine: version.String()},
	})
	n.owner, err = desk.New(desk.Options{
		Data: n.o.Data, Wallet: n.o.Owner, Tracker: n.o.Tracker, Key: n.trackerKey, Node: n.id, Changed: n.changed, Log: n.o.Log,
	})
	if err != nil {
		return nil, err
	}
	if n.o.Changed != nil {
		return n, nil
	}
	n.api, err = localapi.Start(localapi.Options{
		Dir: n.o.Data, Listen: n.o.APIListen, Source: (*nodeStatus)(n), Owner: n.owner, Version: version.String(), Logger: n.o.Log("localapi"),
	})
	return n, err
}

func (o NodeOptions) withDefaults() NodeOptions {
	str := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	str(&o.SeamListen, "127.0.0.1:0")
	str(&o.APIListen, "127.0.0.1:0")
	str(&o.SwarmListen, "127.0.0.1:0")
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	num(&o.ChunkRows, defaultChunkRows)
	num(&o.MaxSessions, defaultMaxSessions)
	if o.PrefixDisk == 0 {
		o.PrefixDisk = defaultPrefixDisk
	}
	if o.Log == nil {
		o.Log = func(string) *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	return o
}

func (n *Node) checkOptions() error {
	if n.o.ChunkRows < 64 || n.o.ChunkRows > protocol.MaxChunkRows || n.o.ChunkRows%64 != 0 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "prefill chunks have 64 to %d rows, in steps of 64", protocol.MaxChunkRows)
	}
	if n.o.SeedOnly && (n.o.Tracker == "" || len(n.o.Adopt) == 0) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "seeding needs a tracker and at least one file")
	}
	if n.o.Tracker == "" && !isFile(n.o.Model) {
		if n.o.Model == "" {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a node needs a model: a GGUF file, or a tracker that knows some")
		}
		return protocol.Errorf(protocol.CodeModelUnknown, "there is no file %s, and no tracker is given that may know a model of this name", n.o.Model)
	}
	return nil
}

// closeAPI ends the local API, where the node has one of its own.
func (n *Node) closeAPI(ctx context.Context) error {
	if n.api == nil {
		return nil
	}
	return n.api.Close(ctx)
}

// Source and Owner are what a local API shows and does.
func (n *Node) Source() localapi.Source { return (*nodeStatus)(n) }

// Owner is the owner's part.
func (n *Node) Owner() localapi.Owner { return n.owner }

// ID is the node's id.
func (n *Node) ID() protocol.NodeID { return n.id.ID() }

// SeamAddr is where other nodes dial.
func (n *Node) SeamAddr() string { return n.o.SeamAddr }

// Stage gives the stage host, for tests that break it; nil while the shard's
// files are missing.
func (n *Node) Stage() *stage.Host { return n.shard.Host() }

// Children are the ids of the processes that work for this node.
func (n *Node) Children() []int {
	var ids []int
	if h := n.shard.Host(); h != nil {
		ids = h.Pids()
	}
	if n.models != nil {
		if id := n.models.host.Pid(); id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// Ready is closed when a stage has loaded for the first time or failed to.
func (n *Node) Ready() <-chan struct{} { return n.settled }

// Run serves until ctx ends or a part fails for good, and returns when
// everything has stopped. It returns nil for an ordered end.
func (n *Node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	n.mu.Lock()
	n.stop = stop
	n.mu.Unlock()
	// The stage outlives the seam, so that sessions end with a reason.
	stageCtx, stopStage := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStage()

	var parts sync.WaitGroup
	serve := func(name string, f func() error) {
		parts.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	var stageDone sync.WaitGroup
	stageDone.Go(func() { n.shard.Run(stageCtx) })
	serve("seam", func() error { return n.seam.Serve(n.seamL) })
	serve("stage", func() error { return n.watchStage(ctx) })
	serve("control channel", func() error { return n.runControl(ctx) })
	if n.models != nil {
		parts.Go(func() { n.models.host.Run(ctx) })
		parts.Go(func() { n.seed(ctx) })
		if !n.o.SeedOnly {
			serve("assignment", func() error { return n.choose(ctx) })
		}
	}
	parts.Go(func() { n.peers.run(ctx) })
	parts.Go(func() { n.owner.Run(ctx) })
	parts.Go(func() { n.audits.Run(ctx) })

	<-ctx.Done()
	n.log.Info("Node stops")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	n.seam.Drain(true)
	err := errors.Join(n.seam.Close(end), n.closeAPI(end))
	stopStage()
	stageDone.Wait()
	parts.Wait()
	err = errors.Join(err, n.book.Close()) // no session adds to it any more
	n.client.Close()
	n.owner.Close()
	n.lock.Unlock()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// Close frees what NewNode took when Run was never called.
func (n *Node) Close() error {
	n.release()
	return nil
}

func (n *Node) release() {
	if n.seamL != nil {
		n.seamL.Close()
	}
	if n.book != nil {
		if err := n.book.Close(); err != nil {
			n.log.Error("The receipts are not closed in order", "error", err)
		}
	}
	if n.client != nil {
		n.client.Close()
	}
	if n.owner != nil {
		n.owner.Close()
	}
	end, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := n.closeAPI(end); err != nil {
		n.log.Error("The local API is not closed in order", "error", err)
	}
	if n.lock != nil {
		n.lock.Unlock()
	}
}
