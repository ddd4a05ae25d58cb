package seam

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

func errorf(c protocol.Code, format string, args ...any) *protocol.Error {
	return protocol.Errorf(c, format, args...)
}

func isCode(err error, c protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: c})
}

// readBody reads a short request body, at most limit bytes within wire.BodyWait.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *protocol.Error) {
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(wire.BodyWait))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errorf(protocol.CodeRequestTooLarge, "request body exceeds %d bytes", limit)
	case err != nil:
		return nil, errorf(protocol.CodeInvalidRequest, "read request body: %w", err)
	}
	rc.SetReadDeadline(time.Time{})
	return b, nil
}

// writeJSON answers with v; a client that left is not an error.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":"internal","message":"internal error"}`)
	}
	w.Header().Set("Content-Type", wire.ContentJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(b)
}
