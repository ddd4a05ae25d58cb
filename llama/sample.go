package llama

import (
	"math"
	"runtime"
	"strconv"
	"unsafe"
)

// Candidates is what a sampler works on.
type Candidates struct {
	Data     []TokenData
	Selected int  // index into Data, -1 when nothing was picked
	Sorted   bool // by logit, descending
}

// Sample picks a token from row i of the last Decode of ctx and accepts it. Errors:
// no_output, sampler_invalid (no picking sampler at the end), sampler_rejected
// (every token is forbidden, or the logits are not numbers).
func (s Sampler) Sample(ctx Context, i int) (int32, error) {
	logits, err := ctx.Logits(i)
	if err != nil {
		return TokenNull, err
	}
	return s.SampleLogits(logits)
}

// SampleLogits is Sample over logits of the caller, one per token; they are not changed.
func (s Sampler) SampleLogits(logits []float32) (int32, error) {
	const op = "sample"
	st := s.state()
	if st == nil {
		return TokenNull, fail(CodeInvalidHandle, op, "")
	}
	if !st.picksLast() {
		return TokenNull, fail(CodeSamplerInvalid, op, "the last sampler does not pick a token")
	}
	if cap(st.scratch) < len(logits) {
		st.scratch = make([]TokenData, len(logits))
	}
	cands := Candidates{Data: st.scratch[:len(logits)], Selected: -1}
	for id, l := range logits {
		if l != l {
			return TokenNull, fail(CodeSamplerReject, op, "logit "+strconv.Itoa(id)+" is not a number")
		}
		cands.Data[id] = TokenData{ID: int32(id), Logit: l}
	}
	if err := s.Apply(&cands); err != nil {
		return TokenNull, err
	}
	if cands.Selected < 0 {
		return TokenNull, fail(CodeSamplerReject, op, "nothing was picked")
	}
	got := cands.Data[cands.Selected]
	if math.IsInf(float64(got.Logit), -1) {
		return TokenNull, fail(CodeSamplerReject, op, "every token is forbidden")
	}
	if err := s.Accept(got.ID); err != nil {
		return TokenNull, err
	}
	return got.ID, nil
}

func (st *samplerState) picksLast() bool {
	if !st.chain {
		return st.selects
	}
	if len(st.members) == 0 {
		return false
	}
	last := st.members[len(st.members)-1].state()
	return last != nil && last.selects
}

// Apply runs the sampler over candidates of the caller and accepts nothing. Data
// is reordered and may become shorter.
func (s Sampler) Apply(c *Candidates) error {
	const op = "apply sampler"
	st := s.state()
	if st == nil {
		return fail(CodeInvalidHandle, op, "")
	}
	if c == nil || len(c.Data) == 0 {
		return fail(CodeInvalidArg, op, "no candidates")
	}
	if st.nVocab != 0 {
		for i := range c.Data {
			if id := c.Data[i].ID; id < 0 || int(id) >= st.nVocab {
				return fail(CodeInvalidArg, op, "token id out of range")
			}
		}
	}
	n := len(c.Data)
	// The struct holds the address as a number, so the data is pinned, which also
	// puts it on the heap.
	var pin runtime.Pinner
	defer pin.Unpin()
	first := unsafe.SliceData(c.Data)
	pin.Pin(first)
	own := uintptr(unsafe.Pointer(first))
	a := &tokenDataArray{Data: own, Size: uint64(n), Selected: -1, Sorted: cBool(c.Sorted)}
	cSamplerApply(uintptr(s), a)
	if a.Size > uint64(n) {
		return fail(CodeSamplerReject, op, "the sampler returned more candidates than it got")
	}
	if a.Data != own { // a sampler may hand back memory of its own
		copy(c.Data, unsafe.Slice((*TokenData)(pointer(a.Data)), a.Size))
	}
	c.Data = c.Data[:a.Size]
	c.Sorted = a.Sorted != 0
	c.Selected = -1
	if a.Selected >= 0 && a.Selected < int64(a.Size) {
		c.Selected = int(a.Selected)
	}
	return nil
}

// Accept tells the sampler that the token was taken. A token that a grammar does
// not allow now is sampler_rejected and changes nothing (libllama would end the
// process).
func (s Sampler) Accept(id int32) error {
	const op = "accept"
	st := s.state()
	if st == nil {
		return fail(CodeInvalidHandle, op, "")
	}
	if id < 0 || (st.nVocab != 0 && int(id) >= st.nVocab) {
		return fail(CodeInvalidArg, op, "token id out of range")
	}
	parts := st.members
	if !st.chain {
		parts = []Sampler{s}
	}
	for _, m := range parts {
		if ms := m.state(); ms == nil || !ms.grammar {
			continue
		}
		one := Candidates{Data: []TokenData{{ID: id}}}
		if err := m.Apply(&one); err != nil {
			return err
		}
		if math.IsInf(float64(one.Data[0].Logit), -1) {
			return fail(CodeSamplerReject, op, "the grammar does not allow the token")
		}
	}
	cSamplerAccept(uintptr(s), id)
	return nil
}
