// Package feed passes telemetry on to websockets that subscribed to it. It
// implements telemetry.Sink; the server mounts it and nobody else imports it.
//
// Publishing never waits: each subscriber has a bounded queue of its own, and
// one that reads too slowly loses the oldest snapshots and is told how many.
// docs/protocol/telemetry.md is the schema.
package feed

import (
	"context"
	"encoding/json"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
	"neuron/tracker-server/telemetry"
)

// Version is that of the schema; it is in the first message.
const Version = 1

const (
	queueLength  = 128
	readLimit    = 512 // nothing is expected of subscribers
	writeTimeout = 10 * time.Second
	defaultPing  = 20 * time.Second
)

// Options configures a Hub.
type Options struct {
	// Max bounds all subscribers (default 256), MaxPerAddress those of one IP
	// address, or of one /64 for IPv6 (default 8).
	Max, MaxPerAddress int
	// Ping is the time between two pings; who misses two is gone. Default 20 s.
	Ping time.Duration
}

// Hub knows the subscribers. Its methods are safe for concurrent use.
type Hub struct {
	o        Options
	upgrader websocket.Upgrader
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup // of handlers and their readers
	lost     atomic.Int64

	mu     sync.Mutex
	subs   map[*sub]struct{}
	perIP  map[netip.Addr]int
	closed bool
}

// New makes a hub without subscribers.
func New(o Options) *Hub {
	if o.Max == 0 {
		o.Max = 256
	}
	if o.MaxPerAddress == 0 {
		o.MaxPerAddress = 8
	}
	if o.Ping == 0 {
		o.Ping = defaultPing
	}
	h := &Hub{o: o, subs: make(map[*sub]struct{}), perIP: make(map[netip.Addr]int)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	// Pages of other sites may not listen through their visitors' browsers: the
	// upgrader's own check wants Origin, where there is one, to be this host.
	h.upgrader = websocket.Upgrader{HandshakeTimeout: writeTimeout, ReadBufferSize: 512, WriteBufferSize: 4096, Error: refuse}
	return h
}

// filter says which sessions a subscriber wants; the zero value wants all.
type filter struct {
	session protocol.SessionID
	model   string // id or name
}

// sub is one subscriber.
type sub struct {
	filter
	ip   netip.Addr
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	queue [][]byte // oldest first, at most queueLength
	lost  int
}

// Subscribers is their number.
func (h *Hub) Subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Lost counts the snapshots that subscribers were too slow for.
func (h *Hub) Lost() int64 { return h.lost.Load() }

// Message is what a subscriber gets; docs/protocol/telemetry.md describes it.
type Message struct {
	Kind string `json:"kind"` // hello, snapshot or lost
	// Of hello.
	Version     int `json:"version,omitempty"`
	PingSeconds int `json:"ping_seconds,omitempty"`
	// Of lost.
	Count int `json:"count,omitempty"`
	// Of snapshot.
	*Snapshot
}

// Snapshot is a session at one moment, as subscribers see it.
type Snapshot struct {
	// Session is absent for a private session, unless it was asked for by id.
	Session protocol.SessionID `json:"session,omitempty"`
	Private bool               `json:"private,omitempty"`
	Model   protocol.ModelID   `json:"model"`
	Name    string             `json:"model_name"`
	At      time.Time          `json:"at"`
	Phase   protocol.Phase     `json:"phase"`
	*Progress
	End *telemetry.End `json:"end,omitempty"`
}

// Progress is the part that private sessions do not have.
type Progress struct {
	PrefillDone     int             `json:"prefill_done"`
	PrefillTotal    int             `json:"prefill_total"`
	Tokens          int             `json:"tokens"`
	TokensPerSecond float64         `json:"tokens_per_second"`
	FirstTokenMs    float64         `json:"first_token_ms,omitempty"`
	Hops            []telemetry.Hop `json:"hops"`
}

func message(s *telemetry.Snapshot, withID bool) ([]byte, error) {
	out := &Snapshot{Private: s.Private, Model: s.Model, Name: s.Name, At: s.At.UTC(), Phase: s.Phase, End: s.End}
	if withID || !s.Private {
		out.Session = s.Session
	}
	if !s.Private {
		out.Progress = &Progress{
			PrefillDone: s.PrefillDone, PrefillTotal: s.PrefillTotal, Tokens: s.Tokens, TokensPerSecond: s.TokensPerSecond,
			FirstTokenMs: float64(s.FirstToken.Microseconds()) / 1000, Hops: s.Hops,
		}
		if out.Hops == nil {
			out.Hops = []telemetry.Hop{}
		}
	}
	return json.Marshal(Message{Kind: "snapshot", Snapshot: out})
}

// Publish implements telemetry.Sink. A snapshot is encoded once for all
// subscribers. Private sessions are told of at changes of phase only: the times
// between snapshots would tell of their tokens.
func (h *Hub) Publish(s *telemetry.Snapshot, changed bool) {
	if s.Private && !changed {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var raw [2][]byte
	for sub := range h.subs {
		if sub.session != "" && sub.session != s.Session || sub.model != "" && sub.model != string(s.Model) && sub.model != s.Name {
			continue
		}
		which := 0
		if sub.session != "" {
			which = 1
		}
		if raw[which] == nil {
			var err error
			if raw[which], err = message(s, which == 1); err != nil {
				return // figures that JSON cannot hold were refused at the door
			}
		}
		if sub.put(raw[which]) {
			h.lost.Add(1)
		}
	}
}

// put queues a message and says whether the oldest one had to go.
func (s *sub) put(raw []byte) (lost bool) {
	s.mu.Lock()
	if len(s.queue) >= queueLength {
		copy(s.queue, s.queue[1:])
		s.queue = s.queue[:len(s.queue)-1]
		s.lost++
		lost = true
	}
	s.queue = append(s.queue, raw)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return lost
}

func (s *sub) drain() (list [][]byte, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, lost = s.queue, s.lost
	s.queue, s.lost = nil, 0
	return list, lost
}

// Close ends all connections and waits for their goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}
