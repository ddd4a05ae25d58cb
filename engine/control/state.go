package control

import (
	"strings"
	"time"
	"unicode"

	"neuron/engine/protocol"
)

// Status is what the connection to the tracker is doing, as the local API
// shows it.
type Status string

// The statuses.
const (
	StatusIdle       Status = "idle"       // Run has not started
	StatusConnecting Status = "connecting" // dialling or saying hello
	StatusConnected  Status = "connected"
	StatusWaiting    Status = "waiting"    // lost or unreachable; tries again at Retry
	StatusRefused    Status = "refused"    // the tracker does not accept us; tries again at Retry
	StatusSuperseded Status = "superseded" // another process with this identity took over; Run has ended
	StatusStopped    Status = "stopped"
)

// State is a snapshot for status displays.
type State struct {
	URL    string
	Status Status
	Since  time.Time
	// Retry is when the next attempt starts; zero when none is planned.
	Retry time.Time
	// Error is why the last connection ended; nil while connected.
	Error *protocol.Error
	// Epoch is the fencing epoch of the current or the last connection.
	Epoch uint64
	// Attempts counts failed attempts since the last connection.
	Attempts int
	// Network is the network's name as the tracker told it last, "" for none.
	Network string
}

// maxNetworkName bounds the name of a network, in characters.
const maxNetworkName = 64

// cleanName makes the tracker's name for its network fit to be shown in a line.
func cleanName(s string) string {
	if len(s) > 8*maxNetworkName {
		return ""
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return !unicode.IsPrint(r) }), " ")
	if r := []rune(s); len(r) > maxNetworkName {
		s = string(r[:maxNetworkName])
	}
	return strings.TrimSpace(s)
}

// maxSentence bounds texts of the tracker that are shown to people.
const maxSentence = 300

// cleanError makes an error of the tracker safe to keep: never nil, with a
// code, and short.
func cleanError(e *protocol.Error, fallback protocol.Code, text string) *protocol.Error {
	if e == nil || e.Code == "" || len(e.Code) > 64 {
		return protocol.Errorf(fallback, "%s", text)
	}
	c := *e
	if len(c.Message) > maxSentence {
		c.Message = c.Message[:maxSentence]
	}
	if c.Message == "" {
		c.Message = text
	}
	if len(c.Phase) > 64 {
		c.Phase = ""
	}
	if len(c.Param) > maxSentence {
		c.Param = ""
	}
	if len(c.Detail) > 16 {
		c.Detail = nil
	}
	for k, v := range c.Detail {
		if len(k)+len(v) > maxSentence {
			c.Detail = nil
			break
		}
	}
	return &c
}
