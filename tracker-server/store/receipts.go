package store

import (
	"context"
	"time"

	"neuron/engine/protocol"
)

// Receipts is the part of a store that keeps what nodes have signed. It knows
// no format: package receipts, which alone writes here, has checked all that
// comes in.
type Receipts interface {
	// AddReceipts stores receipts and proofs in one transaction. What is there
	// already stays as it is.
	AddReceipts(ctx context.Context, rs []Receipt, ps []Proof) error
	// Receipts lists a session's receipts in the order in which they were stored.
	Receipts(ctx context.Context, s protocol.SessionID) ([][]byte, error)
	// SpanReceipts lists those of one hop and number, the half-signed one first.
	SpanReceipts(ctx context.Context, s protocol.SessionID, hop int, seq uint32) ([][]byte, error)
	// PruneReceipts forgets the receipts of sessions whose lease ended before t,
	// some sessions at a time, and reports how many sessions there were.
	PruneReceipts(ctx context.Context, t time.Time) (sessions int, err error)

	// Proof finds one with its file. Error: not_found.
	Proof(ctx context.Context, id protocol.Hash) (Proof, error)
	// Proofs lists the newest ones without their files; below number before when
	// before > 0.
	Proofs(ctx context.Context, before int64, limit int) ([]Proof, error)
	// StandingProofs lists those that were not lifted, the oldest first, without
	// their files.
	StandingProofs(ctx context.Context) ([]Proof, error)
	// SetProof stores Lifted, Forfeited and Note. Error: not_found.
	SetProof(ctx context.Context, p Proof) error
}

// Receipt is a signed receipt. Of one session, hop and number there are at most
// two: with one signature and with both.
type Receipt struct {
	Session protocol.SessionID
	Hop     int
	Seq     uint32
	Both    bool
	// Expires is the end of the session's lease, by which receipts are pruned.
	Expires time.Time
	// Raw is the wire form.
	Raw []byte
}

// Proof is the proof of an objective fault. It is never pruned.
type Proof struct {
	// Num counts proofs from 1; the store sets it.
	Num int64
	// ID is the hash of File.
	ID      protocol.Hash
	Kind    string
	Culprit protocol.NodeID
	Session protocol.SessionID
	Hop     int
	Text    string // what the culprit did, one sentence
	File    []byte
	Found   time.Time
	// Owner is whose unsettled credit the proof holds; "" for a node that nobody
	// owned.
	Owner AccountID
	// Lifted is zero while the proof keeps the node out of public routes, and
	// Forfeited until the owner's frozen credit went to the house.
	Lifted, Forfeited time.Time
	Note              string // the operator's, of the last change
}
