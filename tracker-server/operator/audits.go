package operator

import (
	"context"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit/numeric/desk"
)

// AuditQuery asks for a page of the numeric audits.
type AuditQuery struct {
	// Before is the Ended of the last one of the page before, in RFC 3339 with
	// its fraction; empty for the newest.
	Before string `json:"before"`
}

// AuditPage is what numeric audits found.
type AuditPage struct {
	*desk.Page
	// Next is the Before of the following page, empty after the last one.
	Next string `json:"next,omitempty"`
}

// Audits lists numeric audits, the newest first, with their sums. It is for the
// operator alone: audited nodes must not learn that they are.
func (a *Area) Audits(ctx context.Context, q AuditQuery) (*AuditPage, error) {
	var before time.Time
	if q.Before != "" {
		var err error
		if before, err = time.Parse(time.RFC3339Nano, q.Before); err != nil {
			e := protocol.Errorf(protocol.CodeInvalidRequest, "before is not a time")
			e.Param = "before"
			return nil, e
		}
	}
	p, err := a.cfg.Audits(ctx, before, pageSize+1)
	if err != nil {
		return nil, err
	}
	out := &AuditPage{Page: p}
	if len(p.Audits) > pageSize {
		p.Audits = p.Audits[:pageSize]
		out.Next = p.Audits[pageSize-1].Ended.UTC().Format(time.RFC3339Nano)
	}
	return out, nil
}
