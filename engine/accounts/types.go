package accounts

import (
	"crypto/ed25519"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// Money is an amount: exact, and as text for people.
type Money struct {
	Micros  int64  `json:"micros"` // 1,000,000 are one credit
	Credits string `json:"credits"`
}

// Pairing is a code that the tracker made for an owner.
type Pairing struct {
	Code    string    `json:"code"`
	Expires time.Time `json:"expires"`
}

// Lookup is the owner whose code it is.
type Lookup struct {
	OwnerKey ed25519.PublicKey `json:"owner_key"`
	Owner    owner.ID          `json:"owner"`
}

// Offered is what came for a code.
type Offered struct {
	Waiting bool `json:"waiting"` // no node has used the code yet
	// Binding is what the node signed, nil while Waiting.
	Binding   *owner.Binding  `json:"binding,omitempty"`
	Node      protocol.NodeID `json:"node,omitempty"`
	Connected bool            `json:"connected"`
	// Info is what the node says of itself while it is connected, else nil.
	Info *NodeInfo `json:"info,omitempty"`
	// OtherOwner says that it is another owner's now, Yours that the pairing is
	// done.
	OtherOwner bool `json:"other_owner"`
	Yours      bool `json:"yours"`
}

// NodeInfo is what a connected node said of itself.
type NodeInfo struct {
	Host   string        `json:"host,omitempty"`
	Addr   string        `json:"addr,omitempty"`
	Engine string        `json:"engine,omitempty"`
	Role   protocol.Role `json:"role,omitempty"`
}

// Account is what an owner has.
type Account struct {
	Account string     `json:"account"` // an owner's id
	Kind    string     `json:"kind"`
	Name    string     `json:"name,omitempty"`
	As      string     `json:"as"` // owner, or node: as whom was asked
	Created time.Time  `json:"created"`
	Closed  *time.Time `json:"closed,omitempty"`
	// Balances are the books by name: available, reserved, held, pending and
	// frozen; see docs/protocol/ledger.md.
	Balances map[string]Money `json:"balances,omitempty"`
	Frozen   bool             `json:"frozen"`
	Freezes  []Freeze         `json:"freezes,omitempty"`
	Nodes    []Node           `json:"nodes,omitempty"`
}

// Freeze is a proven fault that holds unsettled credit back.
type Freeze struct {
	Proof string    `json:"proof"`
	At    time.Time `json:"at"`
	Note  string    `json:"note,omitempty"`
	Ended string    `json:"ended,omitempty"` // thaw or forfeit; "" while it holds
}

// Node is a node of an owner.
type Node struct {
	Node      protocol.NodeID   `json:"node"`
	NodeKey   ed25519.PublicKey `json:"node_key,omitempty"`
	Since     time.Time         `json:"since"`
	This      bool              `json:"this,omitempty"` // the node that asks
	Connected bool              `json:"connected"`
	Info      *NodeInfo         `json:"info,omitempty"`
}

// Line is one line of a statement.
type Line struct {
	Transaction string             `json:"transaction"`
	Kind        string             `json:"kind"`
	At          time.Time          `json:"at"`
	Book        string             `json:"book"`
	Amount      Money              `json:"amount"`
	Note        string             `json:"note,omitempty"`
	Session     protocol.SessionID `json:"session,omitempty"`
	Model       protocol.ModelID   `json:"model,omitempty"`
	ModelName   string             `json:"model_name,omitempty"`
	// Hop, Node, Range and the rows are those of a line that is about a hop.
	Hop     *int            `json:"hop,omitempty"`
	Node    protocol.NodeID `json:"node,omitempty"`
	Range   *protocol.Range `json:"range,omitempty"`
	Prefill int64           `json:"prefill,omitempty"`
	Decode  int64           `json:"decode,omitempty"`
}

// Statement is one page of a statement, the newest line first.
type Statement struct {
	Account string `json:"account"`
	Lines   []Line `json:"lines"`
	// Next is the Query.Cursor of the following page, "" after the last one.
	Next string `json:"next,omitempty"`
}

// Earning is what one range of one model earned on one day.
type Earning struct {
	Day       string           `json:"day"` // 2027-01-31, UTC
	Model     protocol.ModelID `json:"model,omitempty"`
	ModelName string           `json:"model_name,omitempty"`
	Range     *protocol.Range  `json:"range,omitempty"`
	Amount    Money            `json:"amount"`
	Prefill   int64            `json:"prefill"` // rows
	Decode    int64            `json:"decode"`
}

// Earnings has whole days, the newest first.
type Earnings struct {
	Account  string    `json:"account"`
	Earnings []Earning `json:"earnings"`
	// NextUntil is the Query.Until of what is missing, "" when nothing is.
	NextUntil string `json:"next_until,omitempty"`
}

// Limits are what a key may spend, in micro-credits, and ask; 0 is no bound.
type Limits struct {
	Budget    int64 `json:"budget"`
	BudgetDay int64 `json:"budget_day"` // per day in UTC
	PerMinute int64 `json:"per_minute"` // requests
}

// Key is an API key as lists show it.
type Key struct {
	ID      string     `json:"id"` // the beginning of the key
	Name    string     `json:"name"`
	Created time.Time  `json:"created"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Limits  Limits     `json:"limits"`
	Today   Money      `json:"spent_today"` // spent or reserved on this day (UTC)
	Total   Money      `json:"spent"`
}

// NewKey is a key that was just made. Secret is shown this once.
type NewKey struct {
	Secret string `json:"secret"`
	Key    Key    `json:"key"`
}

// Price is one version of the price table; see docs/protocol/ledger.md.
type Price struct {
	Version    int64     `json:"version"`
	From       time.Time `json:"from"`
	DecodeMiB  int64     `json:"decode_per_mib"`
	PrefillPPM int64     `json:"prefill_ppm"`
	SeedMiB    int64     `json:"seed_per_mib"`
	FeePPM     int64     `json:"fee_ppm"`
}

// Prices are all versions of the price table.
type Prices struct {
	Now             int64   `json:"now"` // the version that holds, 0 for none
	Prices          []Price `json:"prices"`
	StartingCredit  int64   `json:"starting_credit"`
	MicrosPerCredit int64   `json:"micros_per_credit"`
}
