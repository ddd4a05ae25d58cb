package store

import (
	"context"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/standing"
)

// Operator is the part of a store that keeps what the operator decided, and a
// log of what the operator did. Log entries are appended and never change.
type Operator interface {
	// SetStanding stores a record and appends the entry that says why, in one
	// transaction. It returns the entry's number.
	SetStanding(ctx context.Context, r standing.Record, e LogEntry) (seq int64, err error)
	// Standings lists all records that say something.
	Standings(ctx context.Context) ([]standing.Record, error)
	// AppendLog appends an entry and returns its number. Error: invalid_request
	// for an entry beyond the limits.
	AppendLog(ctx context.Context, e LogEntry) (seq int64, err error)
	// OperatorLog lists entries, the newest first, below number before when that
	// is not 0; at most limit. subject "" selects all.
	OperatorLog(ctx context.Context, subject string, before int64, limit int) ([]LogEntry, error)
}

// LogEntry is one thing that the operator did. An entry is written before the
// deed; a deed that failed has a second entry, with Failed.
type LogEntry struct {
	Seq    int64     `json:"seq"` // counts from 1, without gaps
	At     time.Time `json:"at"`
	By     string    `json:"by"`     // who, and by which way
	Action string    `json:"action"` // as in "ban"
	// Subject is the id of what it was about: node, owner, account, model; or "".
	Subject string `json:"subject"`
	Reason  string `json:"reason,omitempty"`
	Detail  string `json:"detail,omitempty"` // the figures, in words
	// Failed is the code of the error that ended the deed, or "".
	Failed string `json:"failed,omitempty"`
}

// MaxLogText bounds each text of a log entry, in bytes.
const MaxLogText = 1000

// Check holds the limits of an entry; implementations call it before they
// store. Error: invalid_request.
func (e *LogEntry) Check() error {
	if e.Action == "" || e.By == "" || e.At.IsZero() {
		return protocol.Errorf(protocol.CodeInvalidRequest, "an entry of the operator's log needs who, what and when")
	}
	for _, s := range []string{e.By, e.Action, e.Subject, e.Reason, e.Detail, e.Failed} {
		if len(s) > MaxLogText {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a text of %d bytes in the operator's log; at most %d are possible", len(s), MaxLogText)
		}
	}
	return nil
}
