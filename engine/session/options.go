package session

import (
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"time"

	"neuron/engine/protocol"
)

// Options configure a Manager. Zero numbers take the defaults in brackets.
type Options struct {
	// Node is this engine's id, the driver of its leases.
	Node   protocol.NodeID
	Hops   Hops
	Router Router
	Texts  Texts
	Logger *slog.Logger
	// Receipts keeps the driver's side of receipts; nil for none.
	Receipts Receipts
	// RTT are this node's round trips to others, for the tracker's choice; may
	// be nil.
	RTT func() map[protocol.NodeID]int64
	// APIKey is the key of the network that pays for all sessions; "": the owner
	// of this engine's node pays. It is a secret.
	APIKey string
	// Halves asks for routes whose hidden states travel as binary16, where the
	// model's family was certified for it: half the bytes, and answers that may
	// differ in the last digits.
	Halves bool
	// NoDraft switches guesses off for all sessions.
	NoDraft bool
	// NoPrefix lets no session use or leave kept state of its prompt.
	NoPrefix bool
	// PrefixSecret is what names of prompts are made with, see package prefix;
	// nil draws one, and nothing kept is found again after a restart.
	PrefixSecret []byte
	// alwaysDraft guesses whatever it costs, for tests.
	alwaysDraft bool

	MaxActive int // sessions that run at a time [8]
	MaxQueue  int // sessions that wait behind them [64]; -1: none
	Kept      int // ended sessions whose last snapshot is kept [256]

	OpenTimeout    time.Duration // routing and opening, each [15 s]
	Frozen         time.Duration // no progress beyond the stated times [5 s]
	ReleaseTimeout time.Duration // all work after the end of a session [2 s]
	ChunkAlone     time.Duration // aim for one prefill chunk of the only session [1 s]
	ChunkShared    time.Duration // the same while others run [250 ms]
	PollEvery      time.Duration // counters of the hops [1 s]
}

// maxUnacked is the number of prefill chunks that hop 0 may owe an
// acknowledgement for; each hop keeps the same bound towards the next one.
const maxUnacked = 4

// chunkUnit is the row count that all prefill chunks but the last are a
// multiple of: 63 rows cost 1.56 times as much as 64 (measured).
const chunkUnit = 64

// contextUnit is what reserved contexts are rounded up to, in cells, so that
// nodes see few different sizes.
const contextUnit = 256

func (o Options) withDefaults() (Options, error) {
	if o.Hops == nil || o.Router == nil || o.Texts == nil || o.Node == "" {
		return o, protocol.Errorf(protocol.CodeInternal, "session manager without node, hops, router or texts")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.PrefixSecret == nil {
		o.PrefixSecret = make([]byte, sha256.Size)
		rand.Read(o.PrefixSecret) // never fails (crypto/rand)
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	num(&o.MaxActive, 8)
	num(&o.MaxQueue, 64)
	num(&o.Kept, 256)
	dur := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	dur(&o.OpenTimeout, 15*time.Second)
	dur(&o.Frozen, 5*time.Second)
	dur(&o.ReleaseTimeout, 2*time.Second)
	dur(&o.ChunkAlone, time.Second)
	dur(&o.ChunkShared, 250*time.Millisecond)
	dur(&o.PollEvery, time.Second)
	return o, nil
}
