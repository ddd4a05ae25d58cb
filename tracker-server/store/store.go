// Package store says what the tracker keeps across restarts: who was
// connected with which fencing epoch, and all leases with their ends.
//
// Heartbeats and running figures are never written, only transitions. The
// server imports it; implementations live below it and pass the suite in
// storetest.
package store

import (
	"context"
	"encoding/json"
	"time"

	"neuron/engine/protocol"
)

// Store is safe for concurrent use. What a method that returned nil has
// written survives the end of the process at any moment. Errors are
// *protocol.Error where a person can act (disk_full, data_folder), else they
// are internal.
type Store interface {
	// NodeConnected records a connection of n and returns its fencing epoch,
	// higher than any epoch that this node id ever had.
	NodeConnected(ctx context.Context, n Node) (epoch uint64, err error)
	// Nodes lists known nodes, the newest connection first.
	Nodes(ctx context.Context, limit int) ([]Node, error)

	// AddSession stores a new session. Error: session_exists.
	AddSession(ctx context.Context, s Session) error
	// UpdateSessions stores the newest state of sessions in one transaction.
	// Sessions that are not known or have ended already stay as they are.
	UpdateSessions(ctx context.Context, s []Session) error
	// LiveSessions lists the sessions that have not ended, by issue time.
	LiveSessions(ctx context.Context) ([]Session, error)
	// Session finds one. Error: not_found.
	Session(ctx context.Context, id protocol.SessionID) (Session, error)
	// Sessions lists the newest ones.
	Sessions(ctx context.Context, limit int) ([]Session, error)

	// Prune forgets sessions that ended before t and nodes that connected last
	// before t. Epochs keep growing for a node that returns after that.
	Prune(ctx context.Context, t time.Time) error
	Close() error
}

// Node is what is kept of a node. Times have microseconds.
type Node struct {
	ID        protocol.NodeID
	Role      protocol.Role
	Addr      string
	Host      string
	Engine    string
	Llama     string
	Epoch     uint64
	FirstSeen time.Time
	LastSeen  time.Time // start of the newest connection
}

// Session is what is kept of a session.
type Session struct {
	ID     protocol.SessionID
	Driver protocol.NodeID
	Model  protocol.ModelID
	Name   string
	// Lease is the signed lease as JSON, byte for byte.
	Lease      json.RawMessage
	CostMicros int64
	// KVBytes is what each hop of the lease reserves.
	KVBytes []int64
	Issued  time.Time
	Phase   protocol.Phase
	// Telemetry is the newest stored snapshot as JSON, or nil. It holds the
	// counters of all hops.
	Telemetry json.RawMessage
	// Ended is zero for a live session. Finish and Error say why it ended.
	Ended  time.Time
	Finish protocol.FinishReason
	Error  *protocol.Error
}
