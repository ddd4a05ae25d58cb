package program

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"neuron/engine/audit"
	"neuron/engine/control"
	"neuron/engine/gateway"
	"neuron/engine/gateway/admit"
	"neuron/engine/ownership/desk"
	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/receipt/hooks"
	"neuron/engine/seam/seamclient"
	"neuron/engine/session"
	"neuron/engine/stage"
	"neuron/internal/filelock"
	"neuron/internal/identity"
	"neuron/internal/version"
)

// GatewayOptions configure a Gateway. Zero values take the defaults in brackets.
type GatewayOptions struct {
	Data       string
	Owner      string // folder of the owner key [Data]
	Tracker    string
	TrackerKey ed25519.PublicKey
	// Models are GGUF files whose tokenizers and templates this gateway uses;
	// it reads their metadata only. That of other models is fetched from the
	// network, at the first request.
	Models []string
	// Publishers may sign manifests besides the tracker.
	Publishers  []ed25519.PublicKey
	SwarmListen string // ["127.0.0.1:0"]
	Listen      string // ["127.0.0.1:0"]
	// Key is what clients must send; "" makes one and keeps it in the data
	// folder; "none" asks for none, on loopback only.
	Key string
	// PayWith is the key of the network ("nk-...") that pays for all sessions;
	// "": the owner of this gateway pays. It is a secret.
	PayWith string
	// Halves asks for routes whose hidden states cross seams in 16 bits, see
	// session.Options.
	Halves bool

	MaxActive int // sessions at a time [8]
	MaxQueue  int // [64]
	NativeDir string
	Exe       string
	Log       Log
}

// NoKey is the GatewayOptions.Key that asks for none.
const NoKey = "none"

// Gateway is a running entry to the network.
type Gateway struct {
	o     GatewayOptions
	log   *slog.Logger
	key   string
	lock  *filelock.Lock
	id    *identity.Identity
	texts *texts
	nets  *models
	llama string // version of the native library
	l     net.Listener

	owner   *desk.Desk
	ctl     *control.Client
	client  *seamclient.Client
	book    *receipt.Book
	peers   *peers
	audits  *audit.Service
	manager *session.Manager
	api     *gateway.Gateway
}

// defaultMaxTokens is for requests that state no length: KV memory is reserved
// for all of it, so the rest of a long context would be too much.
const defaultMaxTokens = 4096

// NewGateway takes the data folder and port and loads the tokenizers. The
// caller must Run or Close it.
func NewGateway(ctx context.Context, o GatewayOptions) (_ *Gateway, err error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.SwarmListen == "" {
		o.SwarmListen = "127.0.0.1:0"
	}
	if o.Log == nil {
		o.Log = func(string) *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	g := &Gateway{o: o, log: o.Log("gateway")}
	defer func() {
		if err != nil {
			_ = g.release() // err is what counts
		}
	}()
	if g.lock, err = OpenData(o.Data); err != nil {
		return nil, err
	}
	if g.id, err = identity.LoadOrCreate(o.Data); err != nil {
		return nil, err
	}
	if g.key, err = apiKey(o); err != nil {
		return nil, err
	}
	if err := g.openModels(ctx); err != nil {
		return nil, err
	}
	if g.l, err = listen(ctx, "API", o.Listen); err != nil {
		return nil, err
	}
	g.client = seamclient.New(g.id)
	g.peers = newPeers(g.client, g.id.ID(), g.log)
	if g.owner, err = desk.New(desk.Options{Data: o.Data, Wallet: o.Owner, Tracker: o.Tracker, Key: g.trackerKey, Node: g.id, Log: o.Log}); err != nil {
		return nil, err
	}
	if err := g.connect(); err != nil {
		return nil, err
	}
	keys, err := admit.ReadKeys(o.Data)
	if err != nil {
		return nil, err
	}
	g.api = gateway.New(gateway.Options{
		Backend: g.manager, Key: g.key, Keys: keys, DefaultMaxTokens: defaultMaxTokens, Logger: g.log, AllowedHosts: allowedHosts(g.l.Addr()),
		MaxConcurrent: g.o.MaxActive, MaxQueue: g.o.MaxQueue,
	})
	return g, g.writeEndpoint()
}

// openModels finds out about the native library and loads the tokenizers that
// are files of this computer.
func (g *Gateway) openModels(ctx context.Context) error {
	sp, err := spawn(g.o.Exe, g.o.Log)
	if err != nil {
		return err
	}
	about, err := stage.About(ctx, sp, g.o.NativeDir)
	if err != nil {
		return err
	}
	g.llama = about.Llama
	g.nets, err = newModels(modelsOptions{
		data: g.o.Data, tracker: g.o.Tracker, listen: g.o.SwarmListen, spawn: sp,
		trusted: trustedKeys(g.trackerKey, g.o.Publishers), token: g.announceToken, log: g.o.Log,
	})
	if err != nil {
		return err
	}
	g.texts, err = newTexts(ctx, g.o, sp, g.nets.lib)
	return err
}

func (g *Gateway) trackerKey() ed25519.PublicKey {
	if g.ctl != nil {
		return g.ctl.TrackerKey()
	}
	return g.o.TrackerKey
}

func (g *Gateway) announceToken() string {
	if g.ctl != nil {
		return g.ctl.AnnounceToken()
	}
	return ""
}

// connect builds the way to the tracker and the session manager.
func (g *Gateway) connect() (err error) {
	g.audits = g.newAudits()
	g.ctl, err = control.New(control.Options{
		URL: g.o.Tracker, Identity: g.id, Role: protocol.RoleGateway,
		Build:  protocol.Build{Protocol: protocol.Version, Llama: g.llama},
		Engine: version.String(), PinnedTracker: g.o.TrackerKey, Trust: control.NewFileTrust(g.o.Data),
		OnPeers: g.peers.set, Logger: g.o.Log("control"),
		OnEndSession: func(id protocol.SessionID, e *protocol.Error) { g.manager.End(id, e) }, OnWelcome: g.owner.Welcomed,
		OnState: func(s control.State) { wakeBook(g.book)(s) },
		OnOther: g.audits.Handle,
	})
	if err != nil {
		return err
	}
	// A model's metadata is checked with the tracker's key, which the connection
	// brings.
	g.texts.connected = router{g.ctl}.await
	if g.book, err = openBook(g.o.Data, g.id, g.client, trackerOf(func() *control.Client { return g.ctl }), g.o.Log("receipts")); err != nil {
		return err
	}
	g.manager, err = session.New(session.Options{
		Node: g.id.ID(), Hops: &keptHops{Hops: session.SeamHops{Client: g.client}, keeper: g.audits.Keeper()}, Router: router{g.ctl}, Texts: g.texts,
		Receipts: hooks.Driver{Book: g.book, Tail: g.client},
		RTT:      g.peers.snapshot, MaxActive: g.o.MaxActive, MaxQueue: g.o.MaxQueue, APIKey: g.o.PayWith, Halves: g.o.Halves, Logger: g.o.Log("session"),
		// From the node's key, so that what is kept is found after a restart.
		PrefixSecret: prefix.Secret(g.id.PrivateKey().Seed(), "gateway"),
	})
	return err
}

// router asks the tracker; a question that comes while the connection is being
// made (just after the start, or after the tracker's) waits for it a little.
type router struct{ *control.Client }

const connectPatience = 3 * time.Second

func (r router) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	// Without a connection the question itself says so.
	_ = r.Await(ctx)
}

func (r router) Route(ctx context.Context, q protocol.RouteRequest) (*protocol.RouteReply, error) {
	r.await(ctx)
	return r.Client.Route(ctx, q)
}

func (r router) Models(ctx context.Context) ([]protocol.ModelInfo, error) {
	r.await(ctx)
	return r.Client.Models(ctx)
}

// Endpoint says how to reach the API.
func (g *Gateway) Endpoint() Endpoint {
	return Endpoint{
		URL: "http://" + g.l.Addr().String() + "/v1", Key: g.key, PID: os.Getpid(),
		Models: g.texts.names(), Version: version.String(),
	}
}

// Measured is the number of nodes to which round trips are known.
func (g *Gateway) Measured() int { return len(g.peers.snapshot()) }

// Connected reports whether the tracker has accepted this gateway.
func (g *Gateway) Connected() bool { return g.ctl.Connected() }

// Drain begins an ordered end: no request for an answer is taken any more, the
// running ones go on. The channel is closed when none is under way; then, or
// when their time is over, the caller ends Run's context.
func (g *Gateway) Drain() <-chan struct{} { return g.api.Drain() }

// Answers is the number of requests for answers under way.
func (g *Gateway) Answers() int { return g.api.Answers() }

// Run serves until ctx ends or a part fails for good; nil for an ordered end.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	srv := &http.Server{Handler: g.api, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := srv.Serve(g.l); !errors.Is(err, http.ErrServerClosed) {
			stop(fmt.Errorf("API: %w", err))
		}
	})
	parts.Go(func() {
		if err := g.ctl.Run(ctx); err != nil && ctx.Err() == nil {
			stop(fmt.Errorf("control channel: %w", err))
		}
	})
	parts.Go(func() { g.peers.run(ctx) })
	parts.Go(func() { g.owner.Run(ctx) })
	parts.Go(func() { g.audits.Run(ctx) })
	parts.Go(func() { g.nets.host.Run(ctx) })

	<-ctx.Done()
	g.log.Info("Gateway stops")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	// Sessions first: their answers end with a reason while clients listen.
	err := errors.Join(g.api.Close(end), g.manager.Close(end))
	quiet, stopWaiting := context.WithTimeout(end, quietTimeout)
	defer stopWaiting()
	if srv.Shutdown(quiet) != nil {
		srv.Close() // what is left carries no answer
	}
	parts.Wait()
	err = errors.Join(err, g.release())
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// Close frees what NewGateway took when Run was never called.
func (g *Gateway) Close() error { return g.release() }

// release may be called again.
func (g *Gateway) release() (err error) {
	if g.l != nil {
		g.l.Close()
	}
	if g.book != nil {
		err = g.book.Close() // no session adds to it any more
	}
	if g.client != nil {
		g.client.Close()
	}
	if g.owner != nil {
		g.owner.Close()
	}
	if g.texts != nil {
		g.texts.close()
	}
	if g.lock != nil {
		// The folder is ours: an address in it is our own, or of a gateway that
		// was killed.
		if gone := os.Remove(filepath.Join(g.o.Data, endpointFile)); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		g.lock.Unlock()
		g.lock = nil
	}
	return err
}
