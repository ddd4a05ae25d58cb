// Package wire is what both ends of a seam agree on beside the frames: paths,
// headers, times, and how an error looks in an answer. It makes no requests and
// serves none; the seam and its client import it.
package wire

import (
	"time"

	"neuron/engine/protocol"
)

// Paths of the seam's HTTP face. {id} is a session id.
const (
	PathPrefix   = "/seam/v1/"
	PathSessions = PathPrefix + "sessions"
	PathAudits   = PathPrefix + "audits"
	PathPing     = PathPrefix + "ping"
	PathReport   = PathPrefix + "report"
)

// SessionPath is where a session is asked about and released.
func SessionPath(id protocol.SessionID) string { return PathSessions + "/" + string(id) }

// StreamPath is where the previous hop streams rows.
func StreamPath(id protocol.SessionID) string { return SessionPath(id) + "/stream" }

// TokensPath is where the driver gets the tail's tokens.
func TokensPath(id protocol.SessionID) string { return SessionPath(id) + "/tokens" }

// ReceiptsPath is where a session's receipts are asked about.
func ReceiptsPath(id protocol.SessionID) string { return SessionPath(id) + "/receipts" }

// Content types, headers, and the name of the second carrier.
const (
	ContentFrames = "application/vnd.neuron.frames"
	ContentJSON   = "application/json"

	// HeaderWindow tells the opener of a stream how many payload bytes it may
	// have unacknowledged (Capability.InFlightBytes).
	HeaderWindow = "Neuron-In-Flight-Bytes"

	// HeaderHop tells which hop of the route answers.
	HeaderHop = "Neuron-Hop"

	// UpgradeName is the carrier that swaps HTTP for bare frames.
	UpgradeName = "neuron-seam/1"
)

// Times that hold where the options say nothing.
const (
	DefaultSilence    = 3 * time.Second
	DefaultPingEvery  = time.Second
	DefaultHeaderWait = 10 * time.Second
)

// Bounds that both ends keep to.
const (
	// OpenWait bounds POST sessions: reserving 128K cells touches gigabytes
	// and took 6 s.
	OpenWait = 30 * time.Second
	// BodyWait bounds the transfer of a request body.
	BodyWait = 10 * time.Second
	// LastWords bounds what is written and awaited after a stream's end.
	LastWords = 500 * time.Millisecond

	// MaxPending is how many receipts one answer to the driver holds, 0.1 MB.
	MaxPending = 128
)

// Silence is how long h may be silent where others may be for d: its stated
// step time comes on top, at most a minute.
func Silence(d time.Duration, h protocol.Hop) time.Duration {
	return d + time.Duration(min(max(h.StepMicros, 0), maxStepMicros))*time.Microsecond
}

// maxStepMicros bounds what a stated step time adds to the allowed silence.
const maxStepMicros = 60_000_000
