package receipts

import (
	"context"
	"encoding/json"
	"time"

	"neuron/engine/protocol"
)

// source reads for the auditor what is stored. The holder of the pen sets ctx
// and alone calls it.
type source struct {
	ctx   context.Context
	store Store
	lease func(protocol.SessionID) (*protocol.SignedLease, *protocol.Lease)
}

// Lease implements audit.Source.
func (s *source) Lease(id protocol.SessionID) (*protocol.SignedLease, *protocol.Lease, error) {
	if signed, l := s.lease(id); signed != nil {
		return signed, l, nil
	}
	rec, err := s.store.Session(s.ctx, id)
	if isCode(err, protocol.CodeNotFound) {
		return nil, nil, protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(id))
	}
	if err != nil {
		return nil, nil, err
	}
	var signed *protocol.SignedLease
	if err := json.Unmarshal(rec.Lease, &signed); err != nil || signed == nil {
		return nil, nil, protocol.Errorf(protocol.CodeInternal, "the stored lease of session %s cannot be read: %w", string(id), err)
	}
	// The lease is the tracker's own; its time is judged elsewhere.
	l, err := signed.Verify(signed.Key, time.Time{})
	return signed, l, err
}

// Receipts implements audit.Source.
func (s *source) Receipts(id protocol.SessionID) ([][]byte, error) {
	return s.store.Receipts(s.ctx, id)
}

// SpanReceipts implements audit.Source.
func (s *source) SpanReceipts(id protocol.SessionID, hop int, seq uint32) ([][]byte, error) {
	return s.store.SpanReceipts(s.ctx, id, hop, seq)
}
