package audit

import (
	"encoding/binary"
	"math"
	"slices"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// rows is one side of the audited hop: the hidden rows of positions [0, n), or
// the token ids that went into the head.
type rows struct {
	width  int
	hidden []float32 // n x width, nil for ids
	ids    []int32
}

func (r *rows) row(i int) []float32 { return r.hidden[i*r.width : (i+1)*r.width] }

// join puts kept frames together. They must begin at position 0, follow each
// other in the first epoch, be finite, and all hold ids or hidden rows of
// width. Codes: frame_invalid, frame_order, frame_non_finite, unsupported.
func join(frames []*protocol.Frame, ids bool, width int) (*rows, error) {
	out := &rows{width: width}
	next := uint32(0)
	for _, f := range frames {
		if f.Epoch != 0 || f.Pos != next {
			return nil, protocol.Errorf(protocol.CodeFrameOrder, "kept rows at position %d of epoch %d, the next are at %d", f.Pos, f.Epoch, next)
		}
		next += f.Rows
		if f.Parts&protocol.PartSideband != 0 {
			return nil, protocol.Errorf(protocol.CodeUnsupported, "rows with a sideband are not re-executed")
		}
		if ids {
			if f.Parts&protocol.PartIDs == 0 {
				return nil, protocol.Errorf(protocol.CodeFrameInvalid, "rows without token ids into the head")
			}
			out.ids = append(out.ids, f.IDs()...)
			continue
		}
		if int(f.Width) != width {
			return nil, protocol.Errorf(protocol.CodeFrameInvalid, "hidden rows of %d elements, the model has %d", f.Width, width)
		}
		if err := f.CheckFinite(); err != nil {
			return nil, err
		}
		out.hidden = appendFloats(out.hidden, f)
	}
	return out, nil
}

// n is the number of positions.
func (r *rows) n() int {
	if r.hidden == nil {
		return len(r.ids)
	}
	return len(r.hidden) / r.width
}

// appendFloats appends the hidden rows of f.
func appendFloats(out []float32, f *protocol.Frame) []float32 {
	b := f.Hidden()
	le := binary.LittleEndian
	if f.DType == protocol.DTypeF16 {
		for i := 0; i+2 <= len(b); i += 2 {
			out = append(out, float16(le.Uint16(b[i:])))
		}
		return out
	}
	for i := 0; i+4 <= len(b); i += 4 {
		out = append(out, math.Float32frombits(le.Uint32(b[i:])))
	}
	return out
}

// float16 is the value of IEEE 754 binary16 bits; it is finite.
func float16(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	if exp == 0 {
		v := float32(man) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// meter gathers the distances of rows.
type meter struct {
	m         auditmsg.AuditMeasures
	distances []float64
}

func newMeter(basis auditmsg.AuditBasis) *meter {
	return &meter{m: auditmsg.AuditMeasures{Basis: basis, MinCosine: 1}}
}

// add compares one row: what was claimed, what came out here, and what went in
// (nil with AuditWhole). All are finite.
func (t *meter) add(claimed, here, in []float32) {
	var diff, mine, theirs, dot float64
	exact := true
	for i, v := range here {
		c, b := float64(claimed[i]), 0.0
		if in != nil {
			b = float64(in[i])
		}
		exact = exact && math.Float32bits(v) == math.Float32bits(claimed[i])
		d := float64(v) - c
		diff += d * d
		mine += (float64(v) - b) * (float64(v) - b)
		theirs += (c - b) * (c - b)
		dot += (float64(v) - b) * (c - b)
		t.m.MaxAbs = max(t.m.MaxAbs, math.Abs(d))
	}
	distance, cosine := 0.0, 1.0
	if !exact {
		distance, cosine = auditmsg.MaxAuditDistance, 0
		if mine > 0 {
			distance = min(math.Sqrt(diff/mine), auditmsg.MaxAuditDistance)
		}
		if mine > 0 && theirs > 0 {
			cosine = max(-1, min(1, dot/math.Sqrt(mine)/math.Sqrt(theirs)))
		}
	} else {
		t.m.Exact++
	}
	t.m.Rows++
	t.m.MinCosine = min(t.m.MinCosine, cosine)
	t.distances = append(t.distances, distance)
}

// done fills in the percentiles; at least one row was added.
func (t *meter) done() *auditmsg.AuditMeasures {
	slices.Sort(t.distances)
	at := func(q float64) float64 { return t.distances[int(math.Ceil(q*float64(len(t.distances))))-1] }
	t.m.Median, t.m.P90, t.m.Max = at(.5), at(.9), at(1)
	return &t.m
}
