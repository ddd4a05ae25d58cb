package audit

import (
	"errors"
	"io"
	"net/http"
	"time"

	"neuron/engine/protocol"
)

// readWait bounds the transfer of one side: a few tens of megabytes over a home
// connection.
const readWait = 60 * time.Second

// read reads the frames of a request that a keeper sent: row frames of at
// most rows rows and width elements in all, and nothing else. What is longer is
// not read. Codes: request_too_large, frame_invalid, timeout.
func read(w http.ResponseWriter, r *http.Request, rows, width int) ([]*protocol.Frame, error) {
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(readWait))
	lim := protocol.SeamLimits()
	lim.MaxRows = min(lim.MaxRows, uint32(rows))
	lim.MaxWidth = min(lim.MaxWidth, uint32(max(width, 1)))
	lim.MaxPayload = lim.MaxRows * (lim.MaxWidth*4 + 4)
	lim.MaxControl = 0
	// A frame has at least one row.
	body := http.MaxBytesReader(w, r.Body, int64(rows)*(int64(lim.MaxWidth)*4+4+protocol.HeaderSize))
	fr := protocol.NewFrameReader(body, lim)
	var out []*protocol.Frame
	for total := 0; ; {
		f, err := fr.Read()
		var tooLarge *http.MaxBytesError
		var coded *protocol.Error
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			rc.SetReadDeadline(time.Time{})
			return out, nil
		case errors.As(err, &tooLarge):
			return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "kept frames of more than %d bytes", tooLarge.Limit)
		case errors.As(err, &coded):
			return nil, coded
		default:
			return nil, protocol.Errorf(protocol.CodeTimeout, "kept frames did not come: %w", err)
		}
		if !f.Kind.Rows() {
			return nil, protocol.Errorf(protocol.CodeFrameInvalid, "a %s frame among kept rows", f.Kind)
		}
		if total += int(f.Rows); total > rows {
			return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "more than %d kept rows", rows)
		}
		out = append(out, f)
	}
}
