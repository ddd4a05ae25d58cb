package today

import (
	"context"

	"neuron/engine/protocol"
	"neuron/engine/seam"
)

// Meter is a stage whose rows the book counts, with the bytes of the frames that
// bring them and, computed, of those that carry them on.
func (b *Book) Meter(st seam.Stage) seam.Stage { return meteredStage{st, b} }

type meteredStage struct {
	seam.Stage
	book *Book
}

// Open counts what the session sends.
func (m meteredStage) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	s, err := m.Stage.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	c := m.Capability()
	out := int64(0) // the last hop sends tokens on, which are next to nothing
	if o.Use.Last < c.Layers {
		out = int64(c.Width) * int64(protocol.DTypeF32.Size())
	}
	return meteredSession{s, m.book, out}, nil
}

type meteredSession struct {
	seam.StageSession
	book *Book
	out  int64 // bytes that a row has for the next hop
}

// Send counts rows that the stage has taken.
func (m meteredSession) Send(ctx context.Context, f *protocol.Frame) error {
	err := m.StageSession.Send(ctx, f)
	if err == nil && f.Kind.Rows() {
		rows := int64(f.Rows)
		m.book.Add(rows, int64(protocol.HeaderSize+len(f.Payload))+rows*m.out)
	}
	return err
}
