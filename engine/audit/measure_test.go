package audit

import (
	"math"
	"math/rand/v2"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

func TestFloat16(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint16]float32{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0400: 6.103515625e-05, 0x0001: 5.960464477539063e-08, 0x8200: -3.0517578125e-05, 0x3555: 0.333251953125,
	} {
		if got := float16(bits); got != want {
			t.Errorf("%#04x is %g, want %g", bits, got, want)
		}
	}
	if math.Signbit(float64(float16(0))) || !math.Signbit(float64(float16(0x8000))) {
		t.Error("the sign of zero is lost")
	}
}

// measureOf compares claims with an honest range whose contribution is c.
func measureOf(in, c []float32, width int, claim func(row int, honest []float32) []float32) *auditmsg.AuditMeasures {
	m := newMeter(auditmsg.AuditContribution)
	for r := range len(in) / width {
		i := in[r*width : (r+1)*width]
		here := make([]float32, width)
		for j := range here {
			here[j] = i[j] + c[r*width+j]
		}
		m.add(claim(r, here), here, i)
	}
	return m.done()
}

// TestLiars: a check is worth what it says against the laziest liar. The input
// has a few huge constant elements, as residual streams do, which would hide
// all of this if the output as it is were compared.
func TestLiars(t *testing.T) {
	t.Parallel()
	const width, rows = 256, 40
	rng := rand.New(rand.NewPCG(1, 2))
	in, c := make([]float32, width*rows), make([]float32, width*rows)
	for i := range in {
		in[i], c[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		if i%width < 3 {
			in[i] = 2000
		}
	}
	noise := func(row int, honest []float32, level float64) []float32 {
		out := append([]float32(nil), honest...)
		for j := range out {
			out[j] += float32(level * rng.NormFloat64())
		}
		return out
	}
	row := func(x []float32, r int) []float32 { return x[r*width : (r+1)*width] }
	for name, x := range map[string]struct {
		lo, hi float64 // of the median distance
		claim  func(int, []float32) []float32
	}{
		"honest, equal":              {0, 0, func(_ int, h []float32) []float32 { return h }},
		"honest, other hardware":     {1e-5, .01, func(r int, h []float32) []float32 { return noise(r, h, 1e-3) }},
		"int8 where f16 was claimed": {.01, .05, func(r int, h []float32) []float32 { return noise(r, h, 2e-2) }},
		"returns its input":          {1, 1, func(r int, _ []float32) []float32 { return row(in, r) }},
		"zeros":                      {10, math.Inf(1), func(int, []float32) []float32 { return make([]float32, width) }},
		"replays the row before": {1, math.Inf(1), func(r int, h []float32) []float32 {
			p := (r + rows - 1) % rows
			out := make([]float32, width)
			for j := range out {
				out[j] = row(in, p)[j] + row(c, p)[j]
			}
			return out
		}},
		"skips 1 of 16 layers": {.2, .3, func(r int, _ []float32) []float32 {
			out := make([]float32, width)
			for j := range out { // layers that are not related: a sixteenth of the energy is missing
				out[j] = row(in, r)[j] + row(c, r)[j] + float32(.25*rng.NormFloat64())
			}
			return out
		}},
	} {
		m := measureOf(in, c, width, x.claim)
		if m.Median < x.lo || m.Median > x.hi || m.Rows != rows {
			t.Errorf("%s: median %g of %d rows, want %g to %g", name, m.Median, m.Rows, x.lo, x.hi)
		}
		t.Logf("%-28s median %.2g, p90 %.2g, max %.2g, cosine %.4f, exact %d", name, m.Median, m.P90, m.Max, m.MinCosine, m.Exact)
		r := auditmsg.AuditResult{Audit: auditmsg.NewAuditID(), Measures: m}
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoContribution: a range that adds nothing has no scale; a difference then
// counts as the largest distance, and none as none.
func TestNoContribution(t *testing.T) {
	t.Parallel()
	m := newMeter(auditmsg.AuditContribution)
	v := []float32{1, 2}
	m.add(v, v, v)
	m.add([]float32{1, 3}, v, v)
	if got := m.done(); got.Median != 0 || got.Max != auditmsg.MaxAuditDistance || got.Exact != 1 {
		t.Errorf("%+v", got)
	}
}

func TestJoinRefuses(t *testing.T) {
	t.Parallel()
	ids := func(pos uint32, n int) *protocol.Frame {
		return protocol.IDFrame(protocol.KindPrefill, pos, make([]int32, n))
	}
	nan := hidden(protocol.KindPrefill, 0, 1, 2, float32(math.NaN()))
	epoch := hidden(protocol.KindPrefill, 0, 1, 2, 0)
	epoch.Epoch = 1
	side := hidden(protocol.KindPrefill, 0, 1, 2, 0)
	side.Parts |= protocol.PartSideband
	for name, x := range map[string]struct {
		ids    bool
		code   protocol.Code
		frames []*protocol.Frame
	}{
		"gap":             {false, protocol.CodeFrameOrder, []*protocol.Frame{hidden(protocol.KindPrefill, 0, 2, 2, 0), hidden(protocol.KindPrefill, 3, 1, 2, 0)}},
		"not from 0":      {true, protocol.CodeFrameOrder, []*protocol.Frame{ids(1, 2)}},
		"epoch":           {false, protocol.CodeFrameOrder, []*protocol.Frame{epoch}},
		"width":           {false, protocol.CodeFrameInvalid, []*protocol.Frame{hidden(protocol.KindPrefill, 0, 2, 3, 0)}},
		"ids as hidden":   {false, protocol.CodeFrameInvalid, []*protocol.Frame{ids(0, 2)}},
		"hidden as ids":   {true, protocol.CodeFrameInvalid, []*protocol.Frame{hidden(protocol.KindPrefill, 0, 2, 2, 0)}},
		"not finite":      {false, protocol.CodeFrameNonFinite, []*protocol.Frame{nan}},
		"with a sideband": {false, protocol.CodeUnsupported, []*protocol.Frame{side}},
	} {
		_, err := join(x.frames, x.ids, 2)
		if !isCode(err, x.code) {
			t.Errorf("%s: %v, want %s", name, err, x.code)
		}
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	f := func(kind protocol.Kind, rows int) *protocol.Frame {
		return &protocol.Frame{Header: protocol.Header{Kind: kind, Rows: uint32(rows)}}
	}
	in := []*protocol.Frame{f(protocol.KindPrefill, 64), f(protocol.KindPrefill, 150), f(protocol.KindDecode, 1), f(protocol.KindVerify, 3), f(protocol.KindDecode, 1)}
	for range 60 {
		in = append(in, f(protocol.KindDecode, 1))
	}
	for _, x := range []struct {
		n, most int
		want    []int
	}{
		{219, 512, []int{64, 150, 5}}, {217, 512, []int{64, 150, 3}}, {100, 512, []int{64, 36}}, {64, 512, []int{64}},
		{219, 64, []int{64, 64, 64, 22, 5}}, {219, 4, nil}, {279, 512, []int{64, 150, 32, 32, 1}}, {279, 16, nil},
	} {
		got := chunks(in, x.n, x.most)
		sum := 0
		for _, c := range got {
			sum += c
			if c < 1 || c > x.most {
				t.Errorf("a chunk of %d rows, at most %d", c, x.most)
			}
		}
		if sum != x.n || x.want != nil && !equal(got, x.want) {
			t.Errorf("%d rows, at most %d: %v, want %v", x.n, x.most, got, x.want)
		}
	}
}
