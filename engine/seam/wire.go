package seam

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// Paths of the seam's HTTP face. {id} is a session id.
const (
	pathPrefix   = "/seam/v1/"
	pathSessions = pathPrefix + "sessions"
	pathPing     = pathPrefix + "ping"
	pathReport   = pathPrefix + "report"
)

func sessionPath(id protocol.SessionID) string { return pathSessions + "/" + string(id) }
func streamPath(id protocol.SessionID) string  { return sessionPath(id) + "/stream" }
func tokensPath(id protocol.SessionID) string  { return sessionPath(id) + "/tokens" }

const (
	contentFrames = "application/vnd.neuron.frames"
	contentJSON   = "application/json"

	// headerWindow tells the opener of a stream how many payload bytes it may
	// have unacknowledged (Capability.InFlightBytes).
	headerWindow = "Neuron-In-Flight-Bytes"

	// headerHop tells which hop of the route answers.
	headerHop = "Neuron-Hop"

	// upgradeName is the carrier that swaps HTTP for bare frames.
	upgradeName = "neuron-seam/1"
)

// Times that hold where the options say nothing, and limits of the face.
const (
	defaultSilence    = 3 * time.Second
	defaultPingEvery  = time.Second
	defaultHeaderWait = 10 * time.Second
	defaultStreamWait = 10 * time.Second

	// openWait bounds POST sessions: reserving 128K cells touches gigabytes
	// and took 6 s.
	openWait = 30 * time.Second
	// bodyWait bounds the transfer of a request body.
	bodyWait = 10 * time.Second
	// lastWords bounds what is written and awaited after a stream's end.
	lastWords = 500 * time.Millisecond

	maxOpenBody  = 1 << 20
	maxReplyBody = 1 << 20
	maxErrorText = 1024
)

// answerLimits bounds frames that flow back to the driver or the previous hop:
// acknowledgements, tokens, errors.
func answerLimits() protocol.Limits {
	l := protocol.SeamLimits()
	l.MaxRows, l.MaxWidth, l.MaxPayload = 1, 1, l.MaxControl
	return l
}

// rowLimits bounds frames that flow to a hop with capability c.
func rowLimits(c protocol.Capability) protocol.Limits {
	l := protocol.SeamLimits()
	l.MaxRows = uint32(min(max(c.ChunkRows, 1), protocol.MaxChunkRows))
	l.MaxWidth = min(l.MaxWidth, uint32(max(c.Width, 1)))
	l.MaxPayload = max(l.MaxControl, l.MaxRows*(l.MaxWidth*4+4))
	return l
}

func errorf(c protocol.Code, format string, args ...any) *protocol.Error {
	return protocol.Errorf(c, format, args...)
}

func isCode(err error, c protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: c})
}

// writeJSON answers with v; a client that left is not an error.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":"internal","message":"internal error"}`)
	}
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(b)
}

// readError decodes the coded error of an answer that was not the wanted one.
func readError(resp *http.Response) *protocol.Error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var e protocol.Error
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), contentJSON) ||
		json.Unmarshal(b, &e) != nil || e.Code == "" {
		return errorf(protocol.CodeUnavailable, "unexpected answer with HTTP status %d", resp.StatusCode)
	}
	return trimError(&e)
}

// trimError bounds what a peer's error may put into our logs and answers.
func trimError(e *protocol.Error) *protocol.Error {
	c := *e
	c.Code = protocol.Code(cut(string(c.Code), 64))
	c.Message = cut(c.Message, maxErrorText)
	c.Param = cut(c.Param, 64)
	c.Phase = protocol.Phase(cut(string(c.Phase), 64))
	if c.Hop != nil && (*c.Hop < 0 || *c.Hop >= protocol.MaxHops) {
		c.Hop = nil
	}
	if len(c.Detail) > 16 {
		c.Detail = nil
	}
	return &c
}

func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "")
	}
	return s
}
