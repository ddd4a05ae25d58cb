package receipts

import (
	"context"
	"encoding/json"

	"neuron/engine/protocol"
)

// source reads for the auditor what is stored. The holder of the pen sets ctx
// and alone calls it.
type source struct {
	ctx   context.Context
	store Store
}

// Lease implements audit.Source.
func (s *source) Lease(id protocol.SessionID) (*protocol.SignedLease, error) {
	rec, err := s.store.Session(s.ctx, id)
	if isCode(err, protocol.CodeNotFound) {
		return nil, protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(id))
	}
	if err != nil {
		return nil, err
	}
	var signed *protocol.SignedLease
	if err := json.Unmarshal(rec.Lease, &signed); err != nil || signed == nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "the stored lease of session %s cannot be read: %w", string(id), err)
	}
	return signed, nil
}

// Receipts implements audit.Source.
func (s *source) Receipts(id protocol.SessionID) ([][]byte, error) {
	return s.store.Receipts(s.ctx, id)
}
