package seamtest

import (
	"context"

	"neuron/engine/protocol"
	"neuron/engine/seam"
)

// Session is a stage's session whose frames a test takes from a channel.
type Session struct {
	seam.StageSession
	frames chan *protocol.Frame
}

// uncollected is more than a test leaves in a session's channel.
const uncollected = 4096

// Open opens a session on a stage. o.Deliver is set here.
func Open(ctx context.Context, stage seam.Stage, o seam.StageOpen) (*Session, error) {
	s := &Session{frames: make(chan *protocol.Frame, uncollected)}
	o.Deliver = func(f *protocol.Frame) {
		switch {
		case f == nil:
			close(s.frames) // panics when it comes twice
		case len(s.frames) == cap(s.frames):
			panic("seamtest: nobody takes the frames of a session")
		default:
			s.frames <- f
		}
	}
	var err error
	if s.StageSession, err = stage.Open(ctx, o); err != nil {
		return nil, err
	}
	return s, nil
}

// Frames are what the stage has delivered; closed when nothing follows.
func (s *Session) Frames() <-chan *protocol.Frame { return s.frames }
