package update

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/engine/update/feed"
	"neuron/internal/version"
)

// Settings are what the user has chosen.
type Settings struct {
	Check   bool   // read the list by itself
	Feed    string // its address, "" for the build's own
	Channel string // which releases, "" for "stable"
}

// Options configure a Keeper. Zero values take the defaults in brackets.
type Options struct {
	Dir string // folder of its own, made when it is needed
	// Keys may sign lists, Feed is where the list is [both as the build has them].
	Keys []ed25519.PublicKey
	Feed string
	// Settings gives those in force, and a channel that is closed by the next
	// change. It is called from several goroutines.
	Settings func() (Settings, <-chan struct{})
	// Changed is called, without a lock, when State or Health is another one.
	Changed func()

	Version  string    // that runs [this build's]
	OS, Arch string    // [this computer's]
	Kind     feed.Kind // [as it was installed]
	// Transport makes the requests; nil goes through the proxy in use
	// (internal/proxy).
	Transport http.RoundTripper
	// Free is the free space of a folder in bytes [the system's].
	Free func(dir string) (int64, error)
	// Start runs an installer [by the system].
	Start func(ctx context.Context, c Command) error
	// Log is the file that Neuron's own installer writes to, since it has no
	// terminal; it is begun anew each time. "": nowhere.
	Log    string
	Logger *slog.Logger
}

// Command is what Start runs.
type Command struct {
	Argv []string
	// Wait says that the command ends by itself soon, and that its end counts.
	Wait bool
	// Output is what it writes to, nil for nothing. It is the caller's.
	Output *os.File
	// Failed is told of an end with an error that comes after Start has returned;
	// nil where nobody wants to know.
	Failed func(error)
}

// Times between checks.
const (
	// A new engine looks after firstWait and a part of firstSpread: computers
	// that are switched on together do not ask together.
	firstWait   = time.Minute
	firstSpread = 9 * time.Minute
	// A server that has answered, whatever, is asked again after a day.
	dayWait   = 24 * time.Hour
	daySpread = 4 * time.Hour
	// One that could not be reached is tried again earlier.
	lostWait   = time.Hour
	lostSpread = time.Hour
	// newWait is for another address or channel that the user has set.
	newWait = 5 * time.Second
	// longestSleep bounds one wait: a computer that slept counts by its clock.
	longestSleep = 10 * time.Minute
)

// Keeper keeps what is known of newer versions. It is safe for concurrent use.
type Keeper struct {
	o      Options
	client *http.Client
	orders chan struct{} // Run is to fetch the release
	poke   chan struct{} // Run is to look at its plan again

	checking chan struct{} // capacity 1: full while the list is read

	mu sync.Mutex
	// Protected by mu.
	memory   memory
	found    *release // the newest good list, nil while none is known
	err      *protocol.Error
	refused  bool  // err is about a list or package that is not to be believed
	fetching bool  // an order is under way
	done     int64 // bytes of the package that are there
	ready    bool  // the package is there and its hash was right
	started  time.Time
}

// release is a list that was believed.
type release struct {
	feed    *feed.Feed
	pack    *feed.Package // nil: none for this computer
	base    string        // the address that it was read from
	channel string
}

var _ localapi.Updates = (*Keeper)(nil)

// New reads what was seen before. It starts nothing: see Run.
func New(o Options) *Keeper {
	if len(o.Keys) == 0 && o.Feed == "" {
		o.Keys, o.Feed = BuiltIn()
	}
	if o.Version == "" {
		o.Version = version.String()
	}
	if o.OS == "" {
		o.OS, o.Arch = runtime.GOOS, runtime.GOARCH
	}
	if o.Kind == "" {
		o.Kind = Installed()
	}
	if o.Settings == nil {
		o.Settings = func() (Settings, <-chan struct{}) { return Settings{Check: true}, nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Free == nil {
		o.Free = probe.FreeDisk
	}
	if o.Start == nil {
		o.Start = start
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{
		o: o, client: newClient(o.Transport), orders: make(chan struct{}, 1), poke: make(chan struct{}, 1), checking: make(chan struct{}, 1),
		memory: memory{Seen: map[string]feed.Seen{}},
	}
	k.recall()
	return k
}

// settings are those in force, filled up.
func (k *Keeper) settings() (Settings, <-chan struct{}) {
	s, changed := k.o.Settings()
	if s.Feed == "" {
		s.Feed = k.o.Feed
	}
	if s.Channel == "" {
		s.Channel = "stable"
	}
	return s, changed
}

// missing says why this build cannot look for versions, nil when it can.
func (k *Keeper) missing(s Settings) *protocol.Error {
	switch {
	case len(k.o.Keys) == 0:
		return protocol.Errorf(protocol.CodeUnsupported, "updates are not available in this build: it was made without a release key, so it could not tell a genuine release from a false one")
	case s.Feed == "":
		return protocol.Errorf(protocol.CodeUnsupported, "updates are not available in this build: it has no address of a list of releases; one can be set in the settings")
	}
	if _, err := feed.ParseVersion(k.o.Version); err != nil {
		return protocol.Errorf(protocol.CodeUnsupported, "updates are not available in this build: its version cannot be compared")
	}
	return nil
}

// Run looks for versions and fetches what is ordered, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	defer k.client.CloseIdleConnections()
	k.mu.Lock()
	k.started = time.Now()
	k.mu.Unlock()
	var fetch sync.WaitGroup
	defer fetch.Wait()
	k.tidy(ctx)
	boundLog(k.o.Log, k.o.Logger)
	for {
		s, changed := k.settings()
		k.follow(s)
		wait := longestSleep
		if at := k.next(s); !at.IsZero() {
			// Both times without the monotonic clock, which rests while a computer
			// sleeps.
			if wait = min(wait, at.Round(0).Sub(time.Now().Round(0))); wait <= 0 {
				_ = k.check(ctx) // State tells it
				if ctx.Err() != nil {
					return
				}
				continue
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-k.poke:
		case <-k.orders:
			fetch.Go(func() { k.fetch(ctx) })
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// next is when the list is to be read by itself; zero for not at all.
func (k *Keeper) next(s Settings) time.Time {
	if !s.Check || k.missing(s) != nil {
		return time.Time{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.started.IsZero() {
		return k.memory.Next
	}
	// A clock that was set back must not end the checks.
	if k.memory.Next.IsZero() || time.Until(k.memory.Next) > dayWait+daySpread {
		k.memory.Next = time.Now().Add(spread(firstWait, firstSpread))
	}
	if k.memory.Next.Before(k.started) {
		k.memory.Next = k.started.Add(spread(firstWait, firstSpread))
	}
	return k.memory.Next
}

// spread is wait and a random part of more.
func spread(wait, more time.Duration) time.Duration {
	return wait + time.Duration(rand.Int64N(int64(more)))
}

// follow drops a release that another address or channel has told.
func (k *Keeper) follow(s Settings) {
	k.mu.Lock()
	old := k.memory.Feed != "" && (k.memory.Feed != s.Feed || k.memory.Channel != s.Channel)
	if old {
		k.memory.Feed, k.memory.Channel = s.Feed, s.Channel
		k.memory.Next, k.memory.Checked = time.Now().Add(newWait), time.Time{}
		if !k.fetching {
			k.found, k.ready, k.done = nil, false, 0
		}
		k.err, k.refused = nil, false
	}
	k.mu.Unlock()
	if old {
		k.remember(nil)
		k.o.Changed()
	}
}

func (k *Keeper) file(p *feed.Package) string { return filepath.Join(k.o.Dir, p.Name) }

func (k *Keeper) part(p *feed.Package) string { return filepath.Join(k.o.Dir, partName(p)) }

// partName has a part of the hash: what was begun of another file of that name
// is never added to.
func partName(p *feed.Package) string { return p.Name + "." + p.SHA256[:12] + ".part" }

// wake fills a channel of one place; a full one is about to be read.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
