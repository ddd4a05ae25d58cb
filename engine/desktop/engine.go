package desktop

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"neuron/engine/desktop/settings"
	"neuron/engine/desktop/today"
	"neuron/engine/host"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/update"
	"neuron/engine/wallet"
	"neuron/internal/filelock"
	"neuron/internal/identity"
	"neuron/internal/logging"
	"neuron/internal/version"
)

// System is what the operating system tells and can be asked for; engine/host
// implements it.
type System interface {
	// Read asks what n needs, and returns soon.
	Read(ctx context.Context, n policy.Needs) policy.System
	// KeepAwake keeps the computer from going to sleep, or no longer.
	KeepAwake(ctx context.Context, on bool) error
	Close() error
}

// Options configure an Engine. Zero values take the defaults in brackets.
type Options struct {
	Data  string // the data folder
	Owner string // folder of the owner key [Data]
	// Tracker is put into the settings when they have none.
	Tracker string
	// TrackerKey pins the tracker; empty trusts the first key seen.
	TrackerKey ed25519.PublicKey
	// Models are GGUF files whose tokenizers the gateway has from the start.
	Models []string
	// Publishers may sign manifests besides the tracker.
	Publishers []ed25519.PublicKey

	APIListen     string // local API ["127.0.0.1:0"]
	GatewayListen string // OpenAI API ["127.0.0.1:8484", a free port when that is taken]
	SeamListen    string // ["127.0.0.1:0"]
	SeamAddr      string // what others dial [the listener's address]
	SwarmListen   string // ["127.0.0.1:0"]
	// Halves is that of program.GatewayOptions.
	Halves bool

	System    System // [this computer's own]
	NativeDir string // [found by the stage]
	Guide     string // GGUF with which speed is measured ["": speed is not measured]
	Exe       string // program that runs stages [this one]
	Log       program.Log
	// Ring has the newest lines of Log [none].
	Ring *logging.Ring
	// LogLost says why lines of the log's file were lost last, nil when none were
	// [nobody knows].
	LogLost func() error
	Now     func() time.Time // [time.Now]
	// Updates says how newer versions are looked for; folder, settings and logger
	// are the engine's own [as this build has it].
	Updates update.Options
	// UnloadAfter is how long sharing may be paused before the stage's memory is
	// freed [5 min].
	UnloadAfter time.Duration
}

// Names of folders below the data folder.
const (
	UpdateFolder  = "update"
	NodeFolder    = "node"
	GatewayFolder = "gateway"
)

const (
	defaultUnloadAfter = 5 * time.Minute
	closeTimeout       = 5 * time.Second
)

// Engine is a running desktop engine.
type Engine struct {
	o        Options
	log      *slog.Logger
	began    time.Time
	lock     *filelock.Lock
	id       *identity.Identity // of the node
	settings *settings.Store
	today    *today.Book
	api      *localapi.Server
	net      *network
	hw       *hardware
	pay      *pay
	updates  *update.Keeper
	proxy    sync.Mutex    // held while a proxy is put into use
	system   sync.Mutex    // held while the system is asked
	poke     chan struct{} // the keeper is to look now
	fresh    chan struct{} // there is another node to tell what to hold

	mu sync.Mutex
	// Protected by mu.
	node      *program.Node // nil while none runs
	nodeBegan time.Time
	gateway   *program.Gateway // nil while none runs
	nodeErr   *protocol.Error  // why none runs, nil when none should or it does
	gateErr   *protocol.Error
	held      ordered         // what the node was told to hold
	holdErr   *protocol.Error // why it does not
	decision  policy.Decision
	ending    bool
	asked     time.Time // when the end was asked for first
	hurry     bool      // it was asked for again
}

// New takes the data folder and opens the local API; nothing else runs yet. The
// caller must Run or Close it. Errors: already_running, data_folder, disk_full,
// port_in_use. What is wrong beyond that, the local API tells.
func New(ctx context.Context, o Options) (_ *Engine, err error) {
	if o.Log == nil {
		o.Log = func(string) *slog.Logger { return logging.Discard() }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.UnloadAfter == 0 {
		o.UnloadAfter = defaultUnloadAfter
	}
	if o.Owner == "" {
		o.Owner = o.Data
	}
	if o.Ring == nil {
		o.Ring = logging.NewRing(1)
	}
	e := &Engine{o: o, log: o.Log("desktop"), began: o.Now(), poke: make(chan struct{}, 1), fresh: make(chan struct{}, 1)}
	if e.o.System == nil {
		e.o.System = host.Open(e.children, o.Log("host"))
	}
	defer func() {
		if err != nil {
			_ = e.release() // err is what counts
		}
	}()
	if e.lock, err = program.OpenData(o.Data); err != nil {
		return nil, err
	}
	if e.settings, err = settings.Open(o.Data, o.Now()); err != nil {
		return nil, err
	}
	for _, t := range e.settings.Trouble() {
		e.log.Warn("Settings are not as they were saved", "code", string(t.Code), "error", t)
	}
	if e.today, err = today.Open(o.Data, o.Now); err != nil {
		e.log.Warn("Today's counts could not be read and begin anew", "error", err)
		err = nil
	}
	if o.Tracker != "" && e.settings.Get().Tracker == "" {
		if err := e.settings.Update(func(s *policy.Settings) { s.Tracker = o.Tracker }); err != nil {
			return nil, err
		}
	}
	if e.id, err = identity.LoadOrCreate(mkdir(filepath.Join(o.Data, NodeFolder))); err != nil {
		return nil, err
	}
	if _, werr := wallet.Open(o.Owner); werr != nil {
		// Node and gateway need it and will say so; the local API does not.
		e.log.Error("The owner key cannot be used", "error", werr)
	}
	e.useProxy()
	e.net, e.hw, e.pay = newNetwork(e), newHardware(e), newPay(e)
	e.updates = newUpdates(e)
	e.api, err = localapi.Start(localapi.Options{
		Dir: o.Data, Listen: o.APIListen, Source: (*source)(e), Owner: (*owners)(e), Desktop: (*table)(e), Updates: e.updates,
		Version: version.String(), Logger: o.Log("localapi"),
	})
	return e, err
}

// Run serves until ctx ends, or the local API is asked to stop, and returns when
// everything has stopped. It returns nil for an ordered end.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var parts sync.WaitGroup
	parts.Go(func() { e.runNode(ctx) })
	parts.Go(func() { e.runGateway(ctx) })
	parts.Go(func() { e.keep(ctx, stop) })
	parts.Go(func() { e.keepHeld(ctx) })
	parts.Go(func() { e.keepProxy(ctx) })
	parts.Go(func() { e.housekeep(ctx) })
	parts.Go(func() { e.hw.run(ctx) })
	parts.Go(func() { e.pay.run(ctx) })
	parts.Go(func() { e.updates.Run(ctx) })
	<-ctx.Done()
	e.log.Info("Desktop engine stops")
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	e.api.Changed()
	parts.Wait()
	return e.release()
}

// Close frees what New took when Run was never called.
func (e *Engine) Close() error { return e.release() }

func (e *Engine) release() (err error) {
	if e.api != nil {
		end, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = e.api.Close(end)
	}
	if e.settings != nil {
		e.settings.Save()
	}
	if e.today != nil {
		err = errors.Join(err, e.today.Save())
	}
	if e.net != nil {
		e.net.close()
	}
	if e.lock != nil {
		e.lock.Unlock()
		e.lock = nil
	}
	return errors.Join(err, e.o.System.Close())
}

// Node is the id of this computer's node.
func (e *Engine) Node() protocol.NodeID { return e.id.ID() }

// children are the processes whose load is not that of other programs.
func (e *Engine) children() []int {
	if n, _ := e.parts(); n != nil {
		return n.Children()
	}
	return nil
}

// Address is where the local API listens.
func (e *Engine) Address() localapi.Address { return e.api.Address() }

// changed is called when something that is shown is another one.
func (e *Engine) changed() { e.api.Changed() }

// look has the keeper decide soon.
func (e *Engine) look() { wake(e.poke) }

// wake fills a channel of one place; a full one is about to be read.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Times of housekeeping.
const (
	tokenEvery = 5 * time.Second
	saveEvery  = 30 * time.Second
)

// housekeep renews what was deleted under the engine, and saves what counts.
func (e *Engine) housekeep(ctx context.Context) {
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	saved := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := e.api.Renew(); err != nil {
			e.log.Warn("The local API's token could not be written again", "error", err)
		}
		e.settings.Save()
		if time.Since(saved) < saveEvery {
			continue
		}
		saved = time.Now()
		if err := e.today.Save(); err != nil {
			e.log.Warn("Today's counts could not be saved", "error", err)
		}
	}
}
