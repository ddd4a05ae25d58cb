package program

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/internal/filelock"
	"neuron/internal/identity"
	"neuron/internal/version"
)

// NodeOptions configure a Node. Zero values take the defaults in brackets.
type NodeOptions struct {
	Data    string // folder for key, shards and the local API
	Tracker string // URL; "" works alone
	// TrackerKey pins the tracker; empty trusts the first key seen.
	TrackerKey ed25519.PublicKey
	Model      string // GGUF file, or any part of a split one
	Layers     string // "all" or "FIRST-LAST" ["all"]
	SeamListen string // ["127.0.0.1:0"]
	SeamAddr   string // what others dial [the listener's address]
	APIListen  string // local API ["127.0.0.1:0"]

	Threads     int   // per call [as many as other programs leave free]
	ChunkRows   int   // [256]
	MaxContext  int   // [the model's, at most 128K]
	MaxSessions int   // [16]
	KVBudget    int64 // bytes [a quarter of the memory that is available]
	NoRepack    bool

	NativeDir string // [found by the stage]
	Exe       string // program that runs stages [this one]
	Log       Log
}

const (
	defaultChunkRows   = 256
	defaultMaxSessions = 16
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

	lock     *filelock.Lock
	id       *identity.Identity
	shard    *artifact.Shard
	stage    *stage.Host
	seamL    net.Listener
	seam     *seam.Server
	client   *seam.Client
	peers    *peers
	api      *localapi.Server
	stop     context.CancelCauseFunc // set by Run
	settled  chan struct{}           // closed when the stage is ready or failed for the first time
	settleMu sync.Once

	mu  sync.Mutex
	ctl *control.Client // guarded by mu; nil until the stage has settled, or without a tracker
}

// NewNode takes the data folder and ports and cuts what is missing of the
// shard; nothing runs yet. The caller must Run or Close it.
func NewNode(ctx context.Context, o NodeOptions) (_ *Node, err error) {
	n := &Node{o: o.withDefaults(), began: time.Now(), settled: make(chan struct{})}
	n.log = n.o.Log("node")
	defer func() {
		if err != nil {
			n.release()
		}
	}()
	if n.lock, err = openData(n.o.Data); err != nil {
		return nil, err
	}
	if n.id, err = identity.LoadOrCreate(n.o.Data); err != nil {
		return nil, err
	}
	if n.host, err = probe.Read(); err != nil {
		return nil, err
	}
	src, err := artifact.Inspect(ctx, n.o.Model, n.o.Data, n.log)
	if err != nil {
		return nil, err
	}
	layers, err := src.ParseLayers(n.o.Layers)
	if err != nil {
		return nil, err
	}
	if n.shard, err = src.Shard(ctx, layers, filepath.Join(n.o.Data, "shards"), nil); err != nil {
		return nil, err
	}
	if n.seamL, err = listen(ctx, "seam", n.o.SeamListen); err != nil {
		return nil, err
	}
	if n.o.SeamAddr == "" {
		n.o.SeamAddr = n.seamL.Addr().String()
	}
	if n.stage, err = n.newStage(src); err != nil {
		return nil, err
	}
	n.client = seam.NewClient(n.id)
	n.peers = newPeers(n.client, n.id.ID(), n.log)
	n.seam = seam.NewServer(seam.ServerOptions{
		Identity: n.id, Stage: n.readyStage, TrackerKey: n.trackerKey, Logger: n.o.Log("seam"), HopFailed: n.hopFailed,
	})
	n.api, err = localapi.Start(localapi.Options{
		Dir: n.o.Data, Listen: n.o.APIListen, Source: (*nodeStatus)(n), Version: version.String(), Logger: n.o.Log("localapi"),
	})
	return n, err
}

func (o NodeOptions) withDefaults() NodeOptions {
	str := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	str(&o.Layers, "all")
	str(&o.SeamListen, "127.0.0.1:0")
	str(&o.APIListen, "127.0.0.1:0")
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	num(&o.ChunkRows, defaultChunkRows)
	num(&o.MaxSessions, defaultMaxSessions)
	if o.Log == nil {
		o.Log = func(string) *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	return o
}

func (n *Node) newStage(src *artifact.Source) (*stage.Host, error) {
	if n.o.ChunkRows < 64 || n.o.ChunkRows > protocol.MaxChunkRows || n.o.ChunkRows%64 != 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "prefill chunks have 64 to %d rows, in steps of 64", protocol.MaxChunkRows)
	}
	sp, err := spawn(n.o.Exe, n.o.Log)
	if err != nil {
		return nil, err
	}
	report := n.shard.Capability(n.o.ChunkRows)
	maxContext := src.Context()
	if n.o.MaxContext > 0 {
		maxContext = min(maxContext, n.o.MaxContext)
	}
	budget := n.o.KVBudget
	if budget == 0 {
		m, err := probe.ReadMemory()
		if err != nil {
			return nil, err
		}
		budget = max(0, m.AvailableBytes-n.shard.Weight()) / kvShare
	}
	threads := n.o.Threads
	if threads == 0 {
		threads = n.host.Cores
	}
	exit := src.Model.Family().Exit
	return stage.NewHost(stage.HostOptions{
		Spawn: sp, Report: report, Prepare: n.shard.Prepare, Changed: n.stageChanged, Logger: n.o.Log("stage"),
		Load: wire.Load{
			NativeDir: n.o.NativeDir, First: report.Loaded.First, Last: report.Loaded.Last, Layers: report.Layers, ExitNode: exit,
			Threads: threads, Adaptive: n.o.Threads == 0, ChunkRows: n.o.ChunkRows, MaxContext: maxContext, MaxSessions: n.o.MaxSessions,
			KVBudget: budget, KVBytesPerCell: report.KVBytesPerCell, NoRepack: n.o.NoRepack,
		},
	}), nil
}

// ID is the node's id.
func (n *Node) ID() protocol.NodeID { return n.id.ID() }

// SeamAddr is where other nodes dial.
func (n *Node) SeamAddr() string { return n.o.SeamAddr }

// Stage gives the stage host, for tests that break it.
func (n *Node) Stage() *stage.Host { return n.stage }

// Ready is closed when the stage has loaded for the first time or failed to.
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
	stageDone.Go(func() { n.stage.Run(stageCtx) })
	serve("seam", func() error { return n.seam.Serve(n.seamL) })
	serve("control channel", func() error { return n.runControl(ctx) })
	parts.Go(func() { n.peers.run(ctx) })

	<-ctx.Done()
	n.log.Info("Node stops")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	n.seam.Drain(true)
	err := errors.Join(n.seam.Close(end), n.api.Close(end))
	stopStage()
	stageDone.Wait()
	parts.Wait()
	n.client.Close()
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
	if n.client != nil {
		n.client.Close()
	}
	if n.api != nil {
		end, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		n.api.Close(end)
	}
	if n.lock != nil {
		n.lock.Unlock()
	}
}

// readyStage is the seam's view of the stage; a nil *Process must become a nil
// interface.
func (n *Node) readyStage() seam.Stage {
	if p := n.stage.Process(); p != nil {
		return p
	}
	return nil
}

func (n *Node) stageChanged() {
	switch n.stage.Report().State {
	case protocol.ShardReady, protocol.ShardFailed:
		n.settleMu.Do(func() { close(n.settled) })
	}
	n.api.Changed()
	if c := n.control(); c != nil {
		c.ReportNow()
	}
}

// runControl connects to the tracker once the stage has settled: the hello
// names the library that the stage runs.
func (n *Node) runControl(ctx context.Context) error {
	select {
	case <-n.settled:
	case <-ctx.Done():
		return nil
	}
	r := n.stage.Report()
	if r.Error != nil && permanent(r.Error.Code) {
		return r.Error
	}
	if n.o.Tracker == "" {
		return nil
	}
	c, err := control.New(control.Options{
		URL: n.o.Tracker, Identity: n.id, Role: protocol.RoleNode, Build: r.Capability.Build, Engine: version.String(),
		Addr: n.o.SeamAddr, Host: n.host.String(), PinnedTracker: n.o.TrackerKey, Trust: control.NewFileTrust(n.o.Data),
		Report: n.report, OnPeers: n.peers.set, OnEndSession: n.endSession, Logger: n.o.Log("control"),
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.ctl = c
	n.mu.Unlock()
	n.peers.onRound(c.ReportNow)
	return c.Run(ctx)
}

// permanent codes will not get better by starting the stage again.
func permanent(c protocol.Code) bool {
	switch c {
	case protocol.CodeNativeMissing, protocol.CodeNativeLayout, protocol.CodeModelInvalid, protocol.CodeModelUnknown:
		return true
	}
	return false
}

func (n *Node) control() *control.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctl
}

func (n *Node) trackerKey() ed25519.PublicKey {
	if c := n.control(); c != nil {
		return c.TrackerKey()
	}
	return n.o.TrackerKey
}

func (n *Node) hopFailed(s protocol.SessionID, node protocol.NodeID, e *protocol.Error) {
	if c := n.control(); c != nil {
		c.HopFailed(s, node, e)
	}
}

func (n *Node) endSession(s protocol.SessionID, e *protocol.Error) { n.seam.EndSession(s, e) }

// report is what the tracker learns.
func (n *Node) report() protocol.Report {
	shard := n.stage.Report()
	r := protocol.Report{Shards: []protocol.ShardReport{shard}, RTTMicros: n.peers.snapshot()}
	if shard.Error != nil && shard.Error.Code == protocol.CodeHostBusy {
		r.SharingOff = string(protocol.CodeHostBusy)
	}
	if m, err := probe.ReadMemory(); err == nil {
		r.MemoryPressure, r.FreeMemory = m.Pressure, m.AvailableBytes
	}
	if free, err := probe.FreeDisk(n.o.Data); err == nil {
		r.FreeDisk = free
	}
	return r
}
