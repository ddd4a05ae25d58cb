package worker

import (
	"slices"
	"unsafe"

	"neuron/engine/protocol"
	"neuron/engine/protocol/rowbytes"
	"neuron/engine/stage/wire"
	"neuron/llama/exec"
)

// seams is what a session's rows look like on both sides of this stage.
type seams struct {
	dtype   protocol.DType
	in, out protocol.Sideband
}

// seamsOf checks what an open message says of them: the stage must get what its
// layers need, and have what it shall give.
func (st *state) seamsOf(o *wire.Open) (seams, error) {
	x := seams{dtype: o.DType, in: o.In, out: o.Out}
	if x.dtype == protocol.DTypeNone {
		x.dtype = protocol.DTypeF32
	}
	bad := func(format string, args ...any) (seams, error) {
		return x, protocol.Errorf(protocol.CodeSeamMismatch, format, args...)
	}
	plan := st.stage.Plan()
	switch {
	case x.dtype.Size() == 0:
		return bad("rows of %s", x.dtype)
	case x.in.TopK != plan.In.TopK:
		return bad("the sender gives %d cell indices per row, layer %d takes %d", x.in.TopK, st.cfg.First, plan.In.TopK)
	case plan.In.IDs && !st.stage.Head() && !x.in.IDs:
		return bad("layer %d needs token ids, the sender gives none", st.cfg.First)
	case x.out.IDs && !st.stage.Head() && !x.in.IDs:
		return bad("the next hop needs token ids, the sender gives none")
	}
	if x.out.TopK > 0 {
		if _, ok := plan.TopKOut[o.Exit]; !ok || plan.TopKWidth != x.out.TopK {
			return bad("the next hop takes %d cell indices per row, this stage does not have them at layer %d", x.out.TopK, o.Exit)
		}
	}
	return x, nil
}

// checkRows refuses rows that this stage cannot compute. The seam has checked
// them; a call with others would end the process, and all its sessions.
func (st *state) checkRows(s *session, f *protocol.Frame) error {
	rows := int(f.Rows)
	if rows < 1 || rows > st.cfg.ChunkRows {
		return protocol.Errorf(protocol.CodeFrameInvalid, "a %s frame of %d rows, a call takes 1 to %d", f.Kind, f.Rows, st.cfg.ChunkRows)
	}
	if f.Kind == protocol.KindVerify {
		if err := st.checkVerify(s, f); err != nil {
			return err
		}
	}
	if st.stage.Head() {
		if f.Parts&protocol.PartIDs == 0 {
			return protocol.Errorf(protocol.CodeFrameInvalid, "rows without token ids for the head")
		}
		return coded1(f.CheckIDs(st.vocabulary()))
	}
	if width := st.stage.Width(); f.Parts&protocol.PartHidden == 0 || f.DType != s.dtype || int(f.Width) != width {
		return protocol.Errorf(protocol.CodeFrameInvalid, "rows of %d elements in %s, this stage takes %d in %s", f.Width, f.DType, width, s.dtype)
	}
	if s.in.IDs {
		if f.Parts&protocol.PartIDs == 0 {
			return protocol.Errorf(protocol.CodeFrameInvalid, "rows without the token ids that go with them")
		}
		vocab := 0 // a stage that only passes them on knows no vocabulary
		if st.stage.Plan().In.IDs {
			vocab = st.vocabulary()
		}
		if err := f.CheckIDs(vocab); err != nil {
			return err
		}
	}
	if s.in.TopK > 0 {
		if f.Parts&protocol.PartSideband == 0 {
			return protocol.Errorf(protocol.CodeFrameInvalid, "rows without the choice of cells that goes with them")
		}
		return coded1(f.CheckTopK(s.in.TopK))
	}
	return nil
}

// coded1 keeps a nil *Error from becoming an error.
func coded1(e *protocol.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// vocabulary is the number of token ids, asked once: it is a call into C.
func (st *state) vocabulary() int {
	if st.tokens == 0 {
		st.tokens = st.vocab.N()
	}
	return st.tokens
}

// work is the next rows of the head of the queue as the runner wants them.
func (st *state) work(s *session, rows int) exec.Work {
	q := s.queue[0]
	f := q.f
	end := q.done + rows
	w := exec.Work{Seq: s.seq, Pos: int32(f.Pos) + int32(q.done), Logits: f.Flags&protocol.FlagSample != 0 && end == int(f.Rows)}
	w.AllLogits = w.Logits && f.Kind == protocol.KindVerify
	if st.stage.Head() {
		w.IDs = f.IDs()[q.done:end]
		return w
	}
	row := st.stage.Width() * s.dtype.Size()
	w.Hidden = elements(f.Hidden()[q.done*row:end*row], s.dtype)
	if st.stage.Plan().In.IDs {
		w.IDs = f.IDs()[q.done:end]
	}
	if s.in.TopK > 0 {
		w.TopK = f.TopK()[q.done*s.in.TopK : end*s.in.TopK]
	}
	return w
}

// given are rows that a call gave, of one session.
type given struct {
	hidden []float32
	topK   []int32
}

// of cuts out the rows from to end of a call's result.
func (st *state) given(r *exec.Result, s *session, from, end int) given {
	var g given
	if width := st.stage.Width(); r.Hidden != nil {
		g.hidden = r.Hidden[from*width : end*width]
	}
	if top := s.out.TopK; top > 0 && r.TopK != nil {
		g.topK = r.TopK[from*top : end*top]
	}
	return g
}

// grow appends rows to those of earlier slices; whole is how many all will be.
func (g *given) grow(o given, n, whole int) {
	if g.hidden == nil {
		g.hidden = make([]float32, 0, len(o.hidden)/n*whole)
		g.topK = make([]int32, 0, len(o.topK)/n*whole)
	}
	g.hidden, g.topK = append(g.hidden, o.hidden...), append(g.topK, o.topK...)
}

// rowFrame is the frame for the next hop, made of the rows that in gave. The ids
// of a verify frame go with them, for the tail, and those that a later hop
// needs.
func (s *session) rowFrame(in *protocol.Frame, width int, g given) *protocol.Frame {
	p := rowbytes.Parts{DType: s.dtype, Width: width}
	if s.dtype == protocol.DTypeF16 {
		p.Hidden = rowbytes.F16Bytes(g.hidden)
	} else {
		p.Hidden = bytesOf(g.hidden)
	}
	if s.out.IDs || in.Kind == protocol.KindVerify {
		p.IDs = in.IDs()
	}
	if s.out.TopK > 0 {
		p.TopK = slices.Clone(g.topK)
		rowbytes.Chosen(p.TopK, s.out.TopK, in.Pos)
	}
	return rowbytes.Frame(in.Header, int(in.Rows), p)
}

// elements reads hidden states.
func elements(b []byte, d protocol.DType) []float32 {
	if d == protocol.DTypeF16 {
		return rowbytes.F16Floats(b)
	}
	return floats(b)
}

// floats reads little-endian F32 bytes as a slice of their own memory; every
// platform that libllama's packages exist for is little-endian.
func floats(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%4 != 0 {
		c := make([]float32, len(b)/4)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c)*4), b)
		return c
	}
	return unsafe.Slice((*float32)(p), len(b)/4)
}

// bytesOf is the opposite of floats, in v's own memory.
func bytesOf(v []float32) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
