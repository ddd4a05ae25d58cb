// Package store says what the tracker keeps across restarts: who was
// connected with which fencing epoch, all leases with their ends, the catalog
// of published models, the ledger, and what nodes have signed.
//
// Heartbeats and running figures are never written, only transitions. The
// server and the publishing commands import it; implementations live below it
// and pass the suite in storetest.
package store

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"neuron/engine/protocol"
)

// Store is safe for concurrent use. What a method that returned nil has
// written survives the end of the process at any moment, and the loss of power.
// Errors are
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

	// Publish stores a model, or replaces the entry of the same model id. It
	// reports false when exactly this content was there already: the entry
	// then stays as it is, with its time. Error: invalid_request for content
	// beyond the limits, and for a name that another model has.
	Publish(ctx context.Context, m CatalogModel) (changed bool, err error)
	// Unpublish removes a model. Error: model_not_found.
	Unpublish(ctx context.Context, id protocol.ModelID) error
	// Catalog lists all entries by name and id, without Manifest and Torrent.
	Catalog(ctx context.Context) ([]CatalogModel, error)
	// CatalogModel finds one whole entry. Error: model_not_found.
	CatalogModel(ctx context.Context, id protocol.ModelID) (CatalogModel, error)
	// CatalogVersion grows with each change of the catalog, by whatever
	// process; it is cheap to ask.
	CatalogVersion(ctx context.Context) (int64, error)

	// Ledger is the money, which is never pruned.
	Ledger

	// Receipts are what nodes signed, and the proofs of their faults.
	Receipts

	// Operator is what the operator decided and did, which is never pruned.
	Operator

	// Audits are what numeric audits found.
	Audits

	// Prune forgets sessions and audits that ended before t and nodes that connected last
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

// Limits of a catalog entry, in bytes.
const (
	MaxManifest = 32 << 20
	MaxTorrent  = 32 << 20
	MaxWebSeeds = 16
	MaxText     = 2048 // of the name, and of each web seed's URL
)

// CatalogModel is a published model.
type CatalogModel struct {
	Model protocol.ModelID
	Name  string
	// InfoHash is the torrent's, 40 hex digits.
	InfoHash  string
	Private   bool
	WebSeeds  []string
	Published time.Time
	// ManifestSHA256 and TorrentSHA256 are of the bytes below, 64 hex digits.
	// The store computes them.
	ManifestSHA256, TorrentSHA256 string
	// Manifest is the signed manifest and Torrent the metainfo, byte for byte.
	Manifest, Torrent []byte
}

// Seal checks the limits and fills in the hashes; implementations call it
// before they store.
func (m *CatalogModel) Seal() error {
	if _, err := protocol.ParseModelID(string(m.Model)); err != nil {
		return err
	}
	if h, err := hex.DecodeString(m.InfoHash); err != nil || len(h) != sha1.Size || hex.EncodeToString(h) != m.InfoHash {
		return protocol.Errorf(protocol.CodeInvalidRequest, "info hash %.50q is not 40 hex digits", m.InfoHash)
	}
	if m.Name == "" || len(m.Name) > MaxText || len(m.WebSeeds) > MaxWebSeeds {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a name of %d bytes and %d web seeds", len(m.Name), len(m.WebSeeds))
	}
	for _, u := range m.WebSeeds {
		if u == "" || len(u) > MaxText {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a web seed's URL of %d bytes", len(u))
		}
	}
	if len(m.Manifest) == 0 || len(m.Manifest) > MaxManifest || len(m.Torrent) == 0 || len(m.Torrent) > MaxTorrent {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a manifest of %d and a torrent of %d bytes", len(m.Manifest), len(m.Torrent))
	}
	of := func(b []byte) string {
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:])
	}
	m.ManifestSHA256, m.TorrentSHA256 = of(m.Manifest), of(m.Torrent)
	return nil
}
