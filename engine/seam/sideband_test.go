package seam_test

import (
	"fmt"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/rowbytes"
	"neuron/engine/seam/seamtest"
)

// sidebands is a model whose layers 1 to 8 look ids up, and whose layer 6 uses
// the choice of one before it: with three hops of four layers, hop 1 needs ids
// and hop 2 both.
var sidebands = []protocol.SeamNeed{
	{First: 1, Last: 8, Sideband: protocol.Sideband{IDs: true}},
	{First: 8, Last: 9, Sideband: protocol.Sideband{IDs: true, TopK: 16}},
}

const fakeVocab = 1000

// seamed is a route of fakes that need sidebands.
func seamed(t *testing.T, upgrade bool, hops int, needs []protocol.SeamNeed) *network {
	t.Helper()
	n := newNetwork(t, netOptions{hops: hops, upgrade: upgrade})
	for _, nd := range n.nodes {
		nd.stage.Seams(needs, fakeVocab)
	}
	return n
}

// Ids and choices of cells reach the hops that need them, over hops that only
// pass them on, in prefill, decode and verify frames of both element types; the
// fakes check what comes.
func TestSidebandsReachWhoNeedsThem(t *testing.T) {
	late := []protocol.SeamNeed{{First: 8, Last: 12, Sideband: protocol.Sideband{IDs: true}}}
	for name, c := range map[string]struct {
		needs []protocol.SeamNeed
		dtype protocol.DType
		// bytes beside the hidden states of a row, into hop 1 and hop 2
		beside [2]int64
	}{
		"ids and choices":           {sidebands, protocol.DTypeF32, [2]int64{4, 4 + 16*4}},
		"ids that hop 1 passes on":  {late, protocol.DTypeF32, [2]int64{4, 4}},
		"ids and choices in halves": {sidebands, protocol.DTypeF16, [2]int64{4, 4 + 16*4}},
		"nothing, in halves":        {nil, protocol.DTypeF16, [2]int64{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			n := seamed(t, false, 3, c.needs)
			l := n.lease()
			l.DType = c.dtype
			r := n.startLease(l)
			r.drainAcks()
			const prompt, steps = 64*3 + 10, 5
			r.prefill(0, 0, prompt)
			r.token(prompt)
			for i := range uint32(steps) {
				r.decode(0, prompt+i)
				r.token(prompt + i + 1)
			}
			f := protocol.IDFrame(protocol.KindVerify, prompt+steps, []int32{7, seamtest.TokenAt(prompt + steps + 1), 8})
			f.Flags = protocol.FlagSample
			r.send(f)
			r.token(prompt + steps + 1)
			r.token(prompt + steps + 2)
			for i, h := range r.lease.Hops[1:] {
				st, err := n.client.State(t.Context(), h, r.lease.Session)
				if err != nil {
					t.Fatal(err)
				}
				row := int64(seamtest.Width*c.dtype.Size()) + c.beside[i]
				if got, want := st.Counters.LastDecodeIn, protocol.HeaderSize+row; got != want {
					t.Errorf("decode frames of %d bytes into hop %d, want %d", got, i+1, want)
				}
				if got, want := st.Counters.PrefillBytesIn, 4*protocol.HeaderSize+prompt*row; got != want {
					t.Errorf("%d bytes of prefill into hop %d, want %d", got, i+1, want)
				}
			}
			r.stream.Close()
			n.freed()
		})
	}
}

// A hop refuses rows whose sideband is missing, too short, or names what cannot
// be, and blames the hop that sent them. The sender's own hop notices first.
func TestSidebandsThatCannotBe(t *testing.T) {
	change := func(parts func(*rowbytes.Parts)) func(*protocol.Frame) {
		return func(f *protocol.Frame) {
			p := rowbytes.Parts{IDs: f.IDs(), Hidden: f.Hidden(), DType: f.DType, Width: int(f.Width), TopK: f.TopK()}
			parts(&p)
			*f = *rowbytes.Frame(f.Header, int(f.Rows), p)
		}
	}
	for name, spoil := range map[string]func(*rowbytes.Parts){
		"no ids":               func(p *rowbytes.Parts) { p.IDs = nil },
		"a negative id":        func(p *rowbytes.Parts) { p.IDs[0] = -1 },
		"an id too large":      func(p *rowbytes.Parts) { p.IDs[1] = fakeVocab },
		"no choice":            func(p *rowbytes.Parts) { p.TopK = nil },
		"a short choice":       func(p *rowbytes.Parts) { p.TopK = p.TopK[:len(p.TopK)/2] },
		"a cell of the future": func(p *rowbytes.Parts) { p.TopK[0] = 1 },
		"a cell below none":    func(p *rowbytes.Parts) { p.TopK[1] = -2 },
		"a row without a cell": func(p *rowbytes.Parts) { p.TopK[0] = -1 },
		"a cell behind none":   func(p *rowbytes.Parts) { p.TopK[2] = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			n := seamed(t, false, 3, sidebands)
			n.nodes[1].stage.Spoil(change(spoil))
			r := n.start()
			r.prefill(0, 0, 64)
			e := wantCode(t, name, r.streamEnd(), protocol.CodeFrameInvalid)
			wantHop(t, name, e, 1, protocol.PhasePrefill)
			n.freed()
		})
	}
}

// A hostile hop's frames are refused at the next one, before its stage sees
// them: here the driver plays hop 0.
func TestSidebandsOfAHostileHop(t *testing.T) {
	n := seamed(t, false, 2, []protocol.SeamNeed{{First: 6, Last: 7, Sideband: protocol.Sideband{IDs: true, TopK: 4}}})
	fake := newID(t)
	for name, p := range map[string]rowbytes.Parts{
		"no sideband":     {Hidden: make([]byte, 4*seamtest.Width), DType: protocol.DTypeF32, Width: seamtest.Width},
		"no choice":       {IDs: []int32{1}, Hidden: make([]byte, 4*seamtest.Width), DType: protocol.DTypeF32, Width: seamtest.Width},
		"a long choice":   {IDs: []int32{1}, Hidden: make([]byte, 4*seamtest.Width), DType: protocol.DTypeF32, Width: seamtest.Width, TopK: []int32{0, -1, -1, -1, -1}},
		"an id too large": {IDs: []int32{fakeVocab}, Hidden: make([]byte, 4*seamtest.Width), DType: protocol.DTypeF32, Width: seamtest.Width, TopK: []int32{0, -1, -1, -1}},
		"a wrong cell":    {IDs: []int32{1}, Hidden: make([]byte, 4*seamtest.Width), DType: protocol.DTypeF32, Width: seamtest.Width, TopK: []int32{5, -1, -1, -1}},
		"halves":          {IDs: []int32{1}, Hidden: make([]byte, 2*seamtest.Width), DType: protocol.DTypeF16, Width: seamtest.Width, TopK: []int32{0, -1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := n.lease()
			l.Hops[0].Node = fake.ID()
			s := n.sign(l)
			h := l.Hops[1]
			if _, err := n.client.Open(t.Context(), h, request(l, s, 1)); err != nil {
				t.Fatal(err)
			}
			st, err := n.newClient(fake, false).Stream(t.Context(), h, l.Session)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			f := rowbytes.Frame(protocol.Header{Kind: protocol.KindPrefill}, 1, p)
			if err := st.Send(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			wantCode(t, name, ended(t, st.Frames(), st.Err), protocol.CodeFrameInvalid)
			// It tells its own tracker after the client.
			until(t, freedIn, "the hop blames who sent it", func() bool {
				got := n.nodes[1].failures()
				return len(got) > 0 && got[len(got)-1].node == fake.ID()
			})
		})
	}
	n.freed()
}

// Receipts' hashes cover ids, choices and their sizes.
func TestSidebandsAreHashed(t *testing.T) {
	base := rowbytes.Parts{IDs: []int32{1, 2}, Hidden: make([]byte, 16), DType: protocol.DTypeF32, Width: 2, TopK: []int32{0, -1, 1, 0}}
	h := protocol.Header{Kind: protocol.KindPrefill, Pos: 0}
	seen := map[protocol.Hash]string{}
	for name, p := range map[string]func(*rowbytes.Parts){
		"as it is":         func(*rowbytes.Parts) {},
		"another id":       func(p *rowbytes.Parts) { p.IDs = []int32{1, 3} },
		"no ids":           func(p *rowbytes.Parts) { p.IDs = nil },
		"another choice":   func(p *rowbytes.Parts) { p.TopK = []int32{0, -1, 0, 1} },
		"no choice":        func(p *rowbytes.Parts) { p.TopK = nil },
		"a shorter choice": func(p *rowbytes.Parts) { p.TopK = []int32{0, 1} },
	} {
		q := base
		p(&q)
		sum := protocol.SumFrame(rowbytes.Frame(h, 2, q))
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s have the same sum", name, other)
		}
		seen[sum] = name
	}
	if len(seen) != 6 {
		t.Error(fmt.Sprint(len(seen), " sums"))
	}
}
