// Package sessiontest is a scripted network in memory for tests of
// engine/session and of what stands on it: a tracker that signs leases, and
// hops that take frames with stated delays and faults. It uses only channels
// and timers, so it runs under testing/synctest. Programs must not import it.
package sessiontest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// Fault is what happens to a row frame at a hop.
type Fault int

// The faults.
const (
	FaultNone   Fault = 0
	FaultFreeze Fault = 1 // the hop stops for ever and says nothing
	FaultError  Fault = 2 // the stage fails: an error frame on both streams
	FaultLost   Fault = 3 // the hop's process is gone: streams break, calls fail
	FaultCut    Fault = 4 // the driver's connection to this end breaks; the other end hears that the driver left
)

// Script is what a Network does. It is fixed before the first session.
type Script struct {
	Hops   int // 1 if 0
	Layers int // 4 per hop if 0
	// StepTime is one decode step of a hop, RowTime one prefill row.
	StepTime, RowTime time.Duration
	ChunkRows         int // 512 if 0
	// Rewinds: the hops take guesses.
	Rewinds bool
	// Answer are the tokens; after them comes an EOG token.
	Answer []int32
	// RouteDelay and OpenDelay (per hop) hold the calls up.
	RouteDelay time.Duration
	OpenDelay  map[int]time.Duration
	RouteError *protocol.Error
	OpenError  map[int]*protocol.Error
	// StreamError and TokensError fail the opening of the streams.
	StreamError, TokensError *protocol.Error
	// Edit hooks change what the network would send; all may be nil.
	EditLease func(*protocol.Lease)
	EditReply func(hop int, r *protocol.OpenReply)
	EditToken func(n int, f *protocol.Frame)
	// EditTokens changes the tokens of one row frame; nil drops them.
	EditTokens func(rows *protocol.Frame, f []*protocol.Frame) []*protocol.Frame
	EditAck    func(hop int, f *protocol.Frame)
	// OnFrame decides about a row frame before hop executes it.
	OnFrame func(hop int, f *protocol.Frame) Fault
	// ReleaseDelay holds releases up.
	ReleaseDelay time.Duration
}

// Network implements session.Hops, session.Router and session.Texts.
type Network struct {
	Script Script
	Driver protocol.NodeID
	Model  protocol.ModelID
	Nodes  []protocol.NodeID

	key ed25519.PrivateKey
	wg  sync.WaitGroup

	mu sync.Mutex
	// Protected by mu.
	Telemetry []protocol.Telemetry // what the tracker was sent
	Blames    []protocol.HopFailed
	Requests  []protocol.RouteRequest
	Opened    []protocol.OpenRequest // by order of arrival
	Released  map[int]int            // releases per hop
	Frames    []protocol.Header      // row and control frames that hop 0 got
	Prompt    []int32                // ids of the prefill frames, in order
	Fed       []int32                // ids of the decode frames, first ids of the verify frames
	Guessed   [][]int32              // the other ids of the verify frames
	live      map[protocol.SessionID]*route
	dead      map[int]bool
	open      map[int]int // sessions open per hop
}

// ModelName is the name of the only model.
const ModelName = "test-model"

// New makes a network for one driver.
func New(s Script) *Network {
	if s.Hops == 0 {
		s.Hops = 1
	}
	if s.Layers == 0 {
		s.Layers = 4 * s.Hops
	}
	if s.ChunkRows == 0 {
		s.ChunkRows = 512
	}
	n := &Network{Script: s, Model: protocol.ModelID(strings.Repeat("5a", 32)), Released: map[int]int{},
		live: map[protocol.SessionID]*route{}, dead: map[int]bool{}, open: map[int]int{}}
	_, n.key, _ = ed25519.GenerateKey(rand.Reader) // never fails (crypto/rand)
	n.Driver = newNode()
	for range s.Hops {
		n.Nodes = append(n.Nodes, newNode())
	}
	return n
}

func newNode() protocol.NodeID {
	pub, _, _ := ed25519.GenerateKey(rand.Reader) // never fails (crypto/rand)
	return protocol.NodeIDOf(pub)
}

// Look runs f while nothing in the record changes.
func (n *Network) Look(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// OpenLocked is the number of sessions that hop holds; call it within Look.
func (n *Network) OpenLocked(hop int) int { return n.open[hop] }

// DeadLocked reports whether hop was lost; call it within Look.
func (n *Network) DeadLocked(hop int) bool { return n.dead[hop] }

// Wait waits for the goroutines of all routes.
func (n *Network) Wait() { n.wg.Wait() }

func (n *Network) use(i int) protocol.Range {
	s := &n.Script
	return protocol.Range{First: i * s.Layers / s.Hops, Last: (i + 1) * s.Layers / s.Hops}
}

func build() protocol.Build { return protocol.Build{Protocol: protocol.Version, Llama: "test"} }

// Route implements session.Router.
func (n *Network) Route(ctx context.Context, r protocol.RouteRequest) (*protocol.RouteReply, error) {
	n.Look(func() { n.Requests = append(n.Requests, r) })
	s := &n.Script
	if err := pause(ctx, s.RouteDelay); err != nil {
		return nil, err
	}
	if s.RouteError != nil {
		return nil, s.RouteError
	}
	l := &protocol.Lease{Version: protocol.Version, Session: r.Session, Model: n.Model, Layers: s.Layers, Driver: n.Driver, Context: r.Context,
		DType: protocol.DTypeF32, EngineBuild: build(), Issued: time.Now(), Expires: time.Now().Add(time.Hour), Policy: r.Policy}
	for i, id := range n.Nodes {
		l.Hops = append(l.Hops, protocol.Hop{Node: id, Addr: "test:1", Use: n.use(i), StepMicros: s.StepTime.Microseconds()})
	}
	if s.EditLease != nil {
		s.EditLease(l)
	}
	signed, err := protocol.SignLease(l, n.key)
	if err != nil {
		return nil, err
	}
	return &protocol.RouteReply{Lease: signed}, nil
}

// Info is the model's entry.
func (n *Network) Info() protocol.ModelInfo {
	return protocol.ModelInfo{Model: n.Model, Name: ModelName, Layers: n.Script.Layers, Context: 8192, Routable: true}
}

// Models implements session.Router.
func (n *Network) Models(context.Context) ([]protocol.ModelInfo, error) {
	return []protocol.ModelInfo{n.Info()}, nil
}

// TrackerKey implements session.Router.
func (n *Network) TrackerKey() ed25519.PublicKey { return n.key.Public().(ed25519.PublicKey) }

// SendSession implements session.Router.
func (n *Network) SendSession(t protocol.Telemetry) {
	n.Look(func() { n.Telemetry = append(n.Telemetry, t) })
}

// HopFailed implements session.Router.
func (n *Network) HopFailed(s protocol.SessionID, id protocol.NodeID, e *protocol.Error) {
	n.Look(func() { n.Blames = append(n.Blames, protocol.HopFailed{Session: s, Node: id, Error: e}) })
}

// Text implements session.Texts with one token per byte.
func (n *Network) Text(_ context.Context, model string) (gateway.TextModel, error) {
	if model != ModelName && model != string(n.Model) {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "no model %.80q", model)
	}
	return byteText{n.Info()}, nil
}

// byteText is a text model whose token ids are bytes.
type byteText struct{ info protocol.ModelInfo }

func (b byteText) Info() protocol.ModelInfo { return b.info }
func (b byteText) ContextLength() int       { return b.info.Context }
func (b byteText) ChatTemplate() string {
	return "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
}

var templates = chattmpl.NewCache(1)

func (b byteText) Render(ctx context.Context, in chattmpl.Input, spans bool) (chattmpl.Output, error) {
	return templates.Run(ctx, b.ChatTemplate(), in, spans)
}
func (b byteText) CheckGrammar(context.Context, string) error { return nil }

func (b byteText) BOS() string  { return "" }
func (b byteText) EOS() string  { return "" }
func (b byteText) AddBOS() bool { return false }

func (b byteText) Tokenize(_ context.Context, text string, _, _ bool) ([]int32, error) {
	out := make([]int32, len(text))
	for i := range len(text) {
		out[i] = int32(text[i])
	}
	return out, nil
}

func (b byteText) Detokenize(_ context.Context, ids []int32, _ bool) ([]byte, error) {
	out := make([]byte, len(ids))
	for i, id := range ids {
		out[i] = byte(id)
	}
	return out, nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
