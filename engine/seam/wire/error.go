package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"neuron/engine/protocol"
)

// maxErrorText bounds the message of a peer's error, in bytes.
const maxErrorText = 1024

// ReadError decodes the coded error of an answer that was not the wanted one.
func ReadError(resp *http.Response) *protocol.Error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var e protocol.Error
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), ContentJSON) ||
		json.Unmarshal(b, &e) != nil || e.Code == "" {
		return protocol.Errorf(protocol.CodeUnavailable, "unexpected answer with HTTP status %d", resp.StatusCode)
	}
	return TrimError(&e)
}

// TrimError bounds what a peer's error may put into our logs and answers.
func TrimError(e *protocol.Error) *protocol.Error {
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
