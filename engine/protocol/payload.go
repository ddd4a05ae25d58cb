package protocol

import (
	"encoding/binary"
	"encoding/json"
	"math"
)

// Ack is the payload of KindAck: what a hop executed and how long it took.
type Ack struct {
	Rows    uint32 // rows executed, those of the acknowledged frame
	Queue   uint32 // microseconds between arrival and start
	Compute uint32 // microseconds in the model
}

const ackSize = 12

// AckFrame acknowledges the row frame h.
func AckFrame(h Header, a Ack) *Frame {
	p := make([]byte, ackSize)
	binary.LittleEndian.PutUint32(p[0:], a.Rows)
	binary.LittleEndian.PutUint32(p[4:], a.Queue)
	binary.LittleEndian.PutUint32(p[8:], a.Compute)
	return &Frame{Header: Header{Kind: KindAck, Slot: h.Slot, Epoch: h.Epoch, Pos: h.Pos, Length: ackSize}, Payload: p}
}

// Ack decodes a KindAck payload.
func (f *Frame) Ack() (Ack, error) {
	if f.Kind != KindAck || len(f.Payload) != ackSize {
		return Ack{}, Errorf(CodeFrameInvalid, "ack payload of %d bytes", len(f.Payload))
	}
	return Ack{
		Rows:    binary.LittleEndian.Uint32(f.Payload[0:]),
		Queue:   binary.LittleEndian.Uint32(f.Payload[4:]),
		Compute: binary.LittleEndian.Uint32(f.Payload[8:]),
	}, nil
}

// Token is the payload of KindToken. The frame's Pos is the position that the
// token will have, one behind the last executed row.
type Token struct {
	ID    int32
	EOG   bool   // an end-of-generation token: Piece is empty, the answer ends here
	Piece []byte // the token's bytes; may end inside a UTF-8 sequence; control tokens are empty
	// Logprob is the natural logarithm of the token's probability before
	// sampling changed it; only with Top asked for, else NaN.
	Logprob float32
	Top     []TokenProb
}

// TokenProb is one of the most probable alternatives at a position.
type TokenProb struct {
	ID      int32
	Logprob float32
	Piece   []byte
}

// Limits of a token's parts, in bytes and entries.
const (
	MaxPiece = 1024
	MaxTop   = 20
)

// TokenFrame makes a token frame: id i32, eog u8, top count u8, piece length
// u16, logprob f32, piece, then per alternative id i32, logprob f32, piece
// length u16, piece.
func TokenFrame(slot, epoch, pos uint32, t Token) (*Frame, error) {
	if len(t.Piece) > MaxPiece || len(t.Top) > MaxTop {
		return nil, Errorf(CodeFrameInvalid, "token piece of %d bytes with %d alternatives", len(t.Piece), len(t.Top))
	}
	le := binary.LittleEndian
	p := make([]byte, 0, 12+len(t.Piece)+len(t.Top)*24)
	p = le.AppendUint32(p, uint32(t.ID))
	eog := byte(0)
	if t.EOG {
		eog = 1
	}
	p = append(p, eog, byte(len(t.Top)))
	p = le.AppendUint16(p, uint16(len(t.Piece)))
	p = le.AppendUint32(p, math.Float32bits(t.Logprob))
	p = append(p, t.Piece...)
	for _, a := range t.Top {
		if len(a.Piece) > MaxPiece {
			return nil, Errorf(CodeFrameInvalid, "alternative piece of %d bytes", len(a.Piece))
		}
		p = le.AppendUint32(p, uint32(a.ID))
		p = le.AppendUint32(p, math.Float32bits(a.Logprob))
		p = le.AppendUint16(p, uint16(len(a.Piece)))
		p = append(p, a.Piece...)
	}
	return &Frame{Header: Header{Kind: KindToken, Slot: slot, Epoch: epoch, Pos: pos, Length: uint32(len(p))}, Payload: p}, nil
}

// Token decodes a KindToken payload. Slices point into the frame.
func (f *Frame) Token() (Token, error) {
	le := binary.LittleEndian
	bad := func() (Token, error) {
		return Token{}, Errorf(CodeFrameInvalid, "token payload of %d bytes is malformed", len(f.Payload))
	}
	b := f.Payload
	if f.Kind != KindToken || len(b) < 12 || b[4] > 1 || b[5] > MaxTop {
		return bad()
	}
	t := Token{ID: int32(le.Uint32(b)), EOG: b[4] == 1, Logprob: math.Float32frombits(le.Uint32(b[8:]))}
	nTop, nPiece := int(b[5]), int(le.Uint16(b[6:]))
	b = b[12:]
	if nPiece > MaxPiece || len(b) < nPiece {
		return bad()
	}
	if nPiece > 0 {
		t.Piece = b[:nPiece:nPiece]
	}
	b = b[nPiece:]
	for range nTop {
		if len(b) < 10 {
			return bad()
		}
		a := TokenProb{ID: int32(le.Uint32(b)), Logprob: math.Float32frombits(le.Uint32(b[4:]))}
		n := int(le.Uint16(b[8:]))
		b = b[10:]
		if n > MaxPiece || len(b) < n {
			return bad()
		}
		a.Piece = b[:n:n]
		b = b[n:]
		t.Top = append(t.Top, a)
	}
	if len(b) != 0 {
		return bad()
	}
	return t, nil
}

// ErrorFrame carries err to the other side; the session has ended.
func ErrorFrame(slot, epoch uint32, err *Error) *Frame {
	p, _ := json.Marshal(err) // an Error has only marshalable fields
	return &Frame{Header: Header{Kind: KindError, Slot: slot, Epoch: epoch, Length: uint32(len(p))}, Payload: p}
}

// Err decodes a KindError payload.
func (f *Frame) Err() *Error {
	var e Error
	if f.Kind != KindError || json.Unmarshal(f.Payload, &e) != nil || e.Code == "" {
		return Errorf(CodeFrameInvalid, "error frame is malformed")
	}
	return &e
}

// JSONFrame makes a control frame with v as JSON.
func JSONFrame(k Kind, slot uint32, v any) (*Frame, error) {
	p, err := json.Marshal(v)
	if err != nil {
		return nil, Errorf(CodeInternal, "encode %s: %w", k, err)
	}
	return &Frame{Header: Header{Kind: k, Slot: slot, Length: uint32(len(p))}, Payload: p}, nil
}

// ControlFrame makes a frame that is only a header: truncate, cancel, ping,
// close.
func ControlFrame(k Kind, slot, epoch, pos uint32) *Frame {
	return &Frame{Header: Header{Kind: k, Slot: slot, Epoch: epoch, Pos: pos}}
}
