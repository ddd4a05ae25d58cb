package protocol

import (
	"encoding/json"
	"time"
)

// MessageKind names a message of the control channel (wss://tracker/v1/nodes).
// The list is append-only; an unknown kind is answered with
// CodeUnknownMessage and otherwise ignored.
type MessageKind string

// Messages from the tracker are marked T, from a node or gateway N.
const (
	MsgChallenge  MessageKind = "challenge"   // T: first message, carries the nonce
	MsgHello      MessageKind = "hello"       // N: answer to it
	MsgWelcome    MessageKind = "welcome"     // T: accepted
	MsgRefused    MessageKind = "refused"     // T: not accepted; the connection closes
	MsgReport     MessageKind = "report"      // N: shards, capabilities, measurements
	MsgPeers      MessageKind = "peers"       // T: nodes whose RTT should be measured
	MsgRoute      MessageKind = "route"       // N: a gateway asks for a lease
	MsgLease      MessageKind = "lease"       // T: its answer
	MsgSession    MessageKind = "session"     // N: telemetry of a session, from the driver
	MsgHopFailed  MessageKind = "hop_failed"  // N: a neighbour reports a broken hop
	MsgEndSession MessageKind = "end_session" // T: a node must end a session
	MsgModels     MessageKind = "models"      // N: ask what is served; T: the answer
	MsgError      MessageKind = "error"       // both: answer to one message
	MsgBye        MessageKind = "bye"         // both: leaving in order
)

// Envelope frames every control message.
type Envelope struct {
	Kind MessageKind `json:"kind"`
	// ID pairs a question with its answer; 0 where none is expected.
	ID   uint64          `json:"id,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// MaxMessage is the read limit of the control channel, in bytes.
const MaxMessage = 1 << 20

// Pack makes an envelope.
func Pack(k MessageKind, id uint64, body any) (*Envelope, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, Errorf(CodeInternal, "encode %s: %w", string(k), err)
	}
	return &Envelope{Kind: k, ID: id, Body: raw}, nil
}

// ParseEnvelope decodes one message; b is hostile.
func ParseEnvelope(b []byte) (*Envelope, error) {
	if len(b) > MaxMessage {
		return nil, Errorf(CodeRequestTooLarge, "message of %d bytes", len(b))
	}
	var e Envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, Errorf(CodeInvalidRequest, "message is not JSON: %w", err)
	}
	if e.Kind == "" || len(e.Kind) > 64 {
		return nil, Errorf(CodeInvalidRequest, "message without a kind")
	}
	return &e, nil
}

// Unpack decodes the body into a message type.
func Unpack[T any](e *Envelope) (*T, error) {
	var v T
	if err := json.Unmarshal(e.Body, &v); err != nil {
		return nil, Errorf(CodeInvalidRequest, "%s message: %w", string(e.Kind), err)
	}
	return &v, nil
}

// Role is what a connection to the tracker is for; one engine may be both.
type Role string

// Roles.
const (
	RoleNode    Role = "node"
	RoleGateway Role = "gateway"
)

// Challenge opens the channel.
type Challenge struct {
	Nonce    []byte `json:"nonce"` // 32 random bytes
	Protocol int    `json:"protocol"`
	Tracker  []byte `json:"tracker"` // Ed25519 public key that signs leases
}

// Hello proves the node's key: Sig is over HelloDomain, the nonce and the
// tracker's key.
type Hello struct {
	Protocol int    `json:"protocol"`
	Engine   string `json:"engine"` // version of this build
	Build    Build  `json:"build"`
	Role     Role   `json:"role"`
	Key      []byte `json:"key"`
	Sig      []byte `json:"sig"`
	// Addr is the host:port where the node's seam can be dialled.
	Addr string `json:"addr,omitempty"`
	// Host says in words what computer it is ("4 cores, 15.5 GB").
	Host string `json:"host,omitempty"`
}

// HelloDomain keeps hello signatures apart from all others of the same key.
const HelloDomain = "neuron-hello-v1\x00"

// HelloPayload is what a Hello signs.
func HelloPayload(nonce, tracker []byte) []byte {
	p := append([]byte(HelloDomain), nonce...)
	return append(p, tracker...)
}

// Welcome accepts a node. Epoch fences: the newest connection of a node id has
// the highest one.
type Welcome struct {
	Node          NodeID `json:"node"`
	Epoch         uint64 `json:"epoch"`
	Tracker       []byte `json:"tracker"`
	ReportSeconds int    `json:"report_seconds"` // how often to send MsgReport
	// AnnounceToken opens the private models of the catalog to this node: it
	// is the last element of the announce URL, and the bearer token of
	// manifests and torrents. It is a secret of this node.
	AnnounceToken string `json:"announce_token,omitempty"`
	// Owner is the owner id that the node is bound to, "" for none.
	Owner string `json:"owner,omitempty"`
	// Network is what the tracker's operator calls the network, "" for nothing.
	Network string `json:"network,omitempty"`
}

// Refused says why not, and when to come back (0: never with this build).
type Refused struct {
	Error      *Error `json:"error"`
	RetryAfter int    `json:"retry_after,omitempty"` // seconds
}

// Report is a node's state; the newest one replaces all earlier ones.
type Report struct {
	Shards []ShardReport `json:"shards"`
	// RTTMicros are measured round trips to other nodes.
	RTTMicros map[NodeID]int64 `json:"rtt_us,omitempty"`
	// MemoryPressure is 0 (none) to 1 (swapping).
	MemoryPressure float64 `json:"memory_pressure"`
	FreeMemory     int64   `json:"free_memory"`
	FreeDisk       int64   `json:"free_disk"`
	// SharingOff is the one reason why this node takes no sessions, or "".
	SharingOff string `json:"sharing_off,omitempty"`
	// Swarm is the host:port where BitTorrent peers can dial this node for the
	// models of its shards, or "". An empty or unspecified host stands for the
	// address that the tracker sees.
	Swarm string `json:"swarm,omitempty"`
}

// ShardReport is one loaded or loading shard.
type ShardReport struct {
	State      ShardState `json:"state"`
	Capability Capability `json:"capability"`
	// FreeKVBytes is the KV memory of the largest session that could be opened
	// now: a session whose cells, rounded up to a power of two, take no more
	// than this by KVBytesPerCell fits.
	FreeKVBytes int64 `json:"free_kv_bytes"`
	Sessions    int   `json:"sessions"`
	MaxSessions int   `json:"max_sessions"`
	Queue       int   `json:"queue"` // rows waiting
	// StepMicros and ChunkMicros are measured on the real stage: one decode
	// step, and one prefill chunk of ChunkRows rows. 0: not measured yet.
	StepMicros  int64 `json:"step_us"`
	ChunkMicros int64 `json:"chunk_us"`
	// Prefixes names the prompt prefixes whose state the stage keeps, at most
	// MaxPrefixes; see Prefix.ID.
	Prefixes []string `json:"prefixes,omitempty"`
	Error    *Error   `json:"error,omitempty"`
}

// MaxPrefixes bounds the prefixes of a shard's report and of a route request.
const MaxPrefixes = 32

// Prefix is the beginning of a prompt.
type Prefix struct {
	// ID is 1 to 64 bytes that say nothing of the text; the tracker only
	// compares it.
	ID     string `json:"id"`
	Tokens int    `json:"tokens"`
}

// MaxRouteNodes bounds the nodes of a private route.
const MaxRouteNodes = 256

// Peers names nodes to measure.
type Peers struct {
	Peers []Peer `json:"peers"`
}

// Peer is a node that can be dialled.
type Peer struct {
	Node NodeID `json:"node"`
	Addr string `json:"addr"`
}

// RouteRequest asks for a lease.
type RouteRequest struct {
	Session SessionID `json:"session"`
	Model   string    `json:"model"` // ModelID, or a name from the catalog
	// Context is prompt plus answer plus drafts, in tokens.
	Context int    `json:"context"`
	Prompt  int    `json:"prompt"` // prompt tokens, for the cost model
	Policy  string `json:"policy"`
	// Nodes are the only ones that a private route may use, at most
	// MaxRouteNodes. Without them it uses those that belong to the owner of the
	// gateway's node. Empty for a public route.
	Nodes []NodeID `json:"nodes,omitempty"`
	// APIKey is the key that pays for the session; without one the owner of the
	// gateway's node pays. It is a secret.
	APIKey string `json:"api_key,omitempty"`
	// Prefixes are beginnings of the prompt whose cached state would help, at
	// most MaxPrefixes.
	Prefixes []Prefix `json:"prefixes,omitempty"`
	// RTTMicros are the gateway's own round trips to nodes.
	RTTMicros map[NodeID]int64 `json:"rtt_us,omitempty"`
	// DType is the element type that is wanted for hidden states, "" for f32. A
	// route on which some hop does not allow it gets f32.
	DType string `json:"dtype,omitempty"`
}

// RouteReply carries the lease and why it was chosen.
type RouteReply struct {
	Lease *SignedLease `json:"lease"`
	// CostMicros is the expected time per decoded token.
	CostMicros int64 `json:"cost_us"`
}

// SessionUpdate is the driver's telemetry, at phase changes and at most once a
// second in between.
type SessionUpdate struct {
	Telemetry Telemetry `json:"telemetry"`
}

// HopFailed blames a hop.
type HopFailed struct {
	Session SessionID `json:"session"`
	Node    NodeID    `json:"node"`
	Error   *Error    `json:"error"`
}

// EndSession orders a node to free a session.
type EndSession struct {
	Session SessionID `json:"session"`
	Error   *Error    `json:"error"`
}

// Models lists what the network serves.
type Models struct {
	Models []ModelInfo `json:"models,omitempty"`
}

// ModelInfo is one model of the catalog with its coverage.
type ModelInfo struct {
	Model        ModelID `json:"model"`
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"`
	Layers       int     `json:"layers"`
	Context      int     `json:"context"`
	// Replicas counts, per layer, the ready nodes that hold it.
	Replicas []int `json:"replicas"`
	// Routable says that a route exists now.
	Routable bool      `json:"routable"`
	Seen     time.Time `json:"seen"`
}
