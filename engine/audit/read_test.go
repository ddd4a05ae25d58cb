package audit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"neuron/engine/protocol"
)

// FuzzRead: of whatever a keeper sends, at most the wanted rows of the
// wanted width are kept, and hardly more than that is read.
func FuzzRead(f *testing.F) {
	const rows, width = 8, 4
	var good []byte
	for pos := range uint32(3) {
		var err error
		p := make([]byte, 2*width*4)
		good, err = protocol.AppendFrame(good, &protocol.Frame{
			Header:  protocol.Header{Kind: protocol.KindPrefill, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Pos: 2 * pos, Rows: 2, Width: width, Length: uint32(len(p))},
			Payload: p,
		}, protocol.SeamLimits())
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(append(slices.Clone(good), good...))
	f.Fuzz(func(t *testing.T, b []byte) {
		body := &counted{r: bytes.NewReader(b)}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
		frames, err := read(httptest.NewRecorder(), r, rows, width)
		if limit := rows*(width*4+4+protocol.HeaderSize) + 64<<10; body.n > limit {
			t.Fatalf("%d bytes were read, at most %d are wanted", body.n, limit)
		}
		var coded *protocol.Error
		if err != nil {
			if !errors.As(err, &coded) || frames != nil {
				t.Fatalf("%d frames, %v", len(frames), err)
			}
			return
		}
		total := 0
		for _, f := range frames {
			if !f.Kind.Rows() || f.Width > width {
				t.Fatalf("%+v", f.Header)
			}
			total += int(f.Rows)
		}
		if total > rows {
			t.Fatalf("%d rows", total)
		}
	})
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
