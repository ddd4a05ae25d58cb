package store

import (
	"context"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// Audits is the part of a store that keeps what numeric audits found. Prune
// forgets those that ended before its time.
type Audits interface {
	// AddAudits stores ended audits in one transaction. What is there already
	// stays as it is.
	AddAudits(ctx context.Context, as []Audit) error
	// Audits lists the newest ones; those that ended before before, when it is
	// not zero.
	Audits(ctx context.Context, before time.Time, limit int) ([]Audit, error)
}

// Audit is the record of one numeric audit, with the fields of numeric.Record.
// Times have microseconds.
type Audit struct {
	Audit    auditmsg.AuditID
	Session  protocol.SessionID
	Model    protocol.ModelID
	Name     string
	Hop      int
	Use      protocol.Range
	Node     protocol.NodeID
	Auditor  protocol.NodeID
	Begun    time.Time
	Ended    time.Time
	Class    auditmsg.AuditClass
	Measures *auditmsg.AuditMeasures
	Error    *protocol.Error
}
