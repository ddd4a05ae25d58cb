package llama

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Sampler is a llama_sampler*: one step, or a chain of steps that owns its
// members. A chain is used by one goroutine at a time. The constructors give 0
// for parameters that are not numbers or before Load; Add refuses 0.
type Sampler uintptr

// LogitBias adds Bias to the logit of a token; -Inf forbids it. Layout of llama_logit_bias.
type LogitBias struct {
	Token int32
	Bias  float32
}

// TokenData is a candidate. Layout of llama_token_data.
type TokenData struct {
	ID    int32
	Logit float32
	P     float32 // set by some samplers
}

// struct llama_token_data_array
type tokenDataArray struct {
	Data     uintptr
	Size     uint64
	Selected int64
	Sorted   uint8
	_        [7]uint8
}

type samplerState struct {
	chain   bool
	owned   bool // member of a chain, freed with it
	selects bool // picks a token
	nVocab  int  // when not 0, the only vocabulary size it fits
	grammar bool
	members []Sampler // of a chain
	scratch []TokenData
}

var (
	samplersMu sync.Mutex
	samplers   = map[Sampler]*samplerState{} // guarded by samplersMu; the states by their user
)

func (s Sampler) state() *samplerState {
	samplersMu.Lock()
	defer samplersMu.Unlock()
	return samplers[s]
}

func registerSampler(h uintptr, st samplerState) Sampler {
	if h == 0 {
		return 0
	}
	samplersMu.Lock()
	defer samplersMu.Unlock()
	samplers[Sampler(h)] = &st
	return Sampler(h)
}

// usable says that libllama is there and all parameters are numbers.
func usable(values ...float32) bool {
	for _, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return loaded()
}

// NewChain makes an empty chain; 0 before Load.
func NewChain() Sampler {
	if !loaded() {
		return 0
	}
	return registerSampler(cChainInit(chainParams{NoPerf: 1}), samplerState{chain: true})
}

// Greedy picks the largest logit.
func Greedy() Sampler {
	if !usable() {
		return 0
	}
	return registerSampler(cInitGreedy(), samplerState{selects: true})
}

// Dist picks by probability, with the same picks for the same seed.
func Dist(seed uint32) Sampler {
	if !usable() {
		return 0
	}
	return registerSampler(cInitDist(seed), samplerState{selects: true})
}

// TopK keeps the k largest; k <= 0 all.
func TopK(k int32) Sampler {
	if !usable() {
		return 0
	}
	return registerSampler(cInitTopK(max(k, 0)), samplerState{})
}

// TopP keeps the most probable tokens that together reach p, at least minKeep.
func TopP(p float32, minKeep int) Sampler {
	if !usable(p) {
		return 0
	}
	return registerSampler(cInitTopP(p, uint64(max(minKeep, 1))), samplerState{})
}

// MinP keeps tokens at least p times as probable as the first.
func MinP(p float32, minKeep int) Sampler {
	if !usable(p) {
		return 0
	}
	return registerSampler(cInitMinP(p, uint64(max(minKeep, 1))), samplerState{})
}

// Typical keeps locally typical tokens up to mass p.
func Typical(p float32, minKeep int) Sampler {
	if !usable(p) {
		return 0
	}
	return registerSampler(cInitTypical(p, uint64(max(minKeep, 1))), samplerState{})
}

// Temp divides logits by t; t <= 0 keeps only the largest.
func Temp(t float32) Sampler {
	if !usable(t) {
		return 0
	}
	return registerSampler(cInitTemp(t), samplerState{})
}

// TempExt is Temp with a temperature that entropy moves by up to delta.
func TempExt(t, delta, exponent float32) Sampler {
	if !usable(t, delta, exponent) {
		return 0
	}
	return registerSampler(cInitTempExt(t, delta, exponent), samplerState{})
}

// TopNSigma keeps logits within n standard deviations of the largest.
func TopNSigma(n float32) Sampler {
	if !usable(n) {
		return 0
	}
	return registerSampler(cInitTopNSigma(n), samplerState{})
}

// XTC removes, with probability p, all but the last of the tokens above threshold.
func XTC(p, threshold float32, minKeep int, seed uint32) Sampler {
	if !usable(p, threshold) {
		return 0
	}
	return registerSampler(cInitXTC(p, threshold, uint64(max(minKeep, 1)), seed), samplerState{})
}

// Mirostat holds the surprise of the text at tau with learning rate eta. It picks.
func Mirostat(nVocab int, seed uint32, tau, eta float32, m int32) Sampler {
	if !usable(tau, eta) || nVocab < 2 || nVocab > math.MaxInt32 || m < 2 {
		return 0
	}
	return registerSampler(cInitMirostat(int32(nVocab), seed, tau, eta, m), samplerState{selects: true, nVocab: nVocab})
}

// MirostatV2 is the simpler second form. It picks.
func MirostatV2(seed uint32, tau, eta float32) Sampler {
	if !usable(tau, eta) {
		return 0
	}
	return registerSampler(cInitMirostatV2(seed, tau, eta), samplerState{selects: true})
}

// AdaptiveP picks near a target probability (0 to 1; negative: plain picking), with
// memory decay 0 to 0.99.
func AdaptiveP(target, decay float32, seed uint32) Sampler {
	if !usable(target, decay) || decay < 0 || decay > 0.99 || target > 1 {
		return 0
	}
	return registerSampler(cInitAdaptiveP(target, decay, seed), samplerState{selects: true})
}

// Penalties lowers tokens among the last lastN accepted: divided by repeat (1
// off), less freq per occurrence, less present once.
func Penalties(nVocab int, lastN int32, repeat, freq, present float32) Sampler {
	if !usable(repeat, freq, present) || nVocab < 1 || nVocab > math.MaxInt32 || repeat <= 0 || lastN > maxLastN {
		return 0
	}
	return registerSampler(cInitPenalties(int32(nVocab), max(lastN, 0), repeat, freq, present), samplerState{nVocab: nVocab})
}

// maxLastN bounds the ring of accepted tokens that a sampler allocates at once.
const maxLastN = 1 << 20

// DRY lowers tokens that would go on with a repetition of allowed or more tokens
// within the last lastN; breakers end a repetition.
func DRY(v Vocab, multiplier, base float32, allowed, lastN int32, breakers []string) (Sampler, error) {
	const op = "dry sampler"
	if err := v.check(op); err != nil {
		return 0, err
	}
	if !usable(multiplier, base) || allowed < 0 || lastN < 0 || lastN > maxLastN || len(breakers) > 64 {
		return 0, fail(CodeSamplerInvalid, op, "parameter out of range")
	}
	for _, b := range breakers {
		if b == "" || len(b) > 64 || strings.IndexByte(b, 0) >= 0 {
			return 0, fail(CodeSamplerInvalid, op, "breaker is empty or too long")
		}
	}
	var h uintptr
	withStrings(breakers, func(p unsafe.Pointer) {
		h = cInitDRY(uintptr(v), multiplier, base, allowed, lastN, p, uint64(len(breakers)))
	})
	if h == 0 {
		return 0, fail(CodeSamplerInvalid, op, "")
	}
	return registerSampler(h, samplerState{nVocab: v.N()}), nil
}

// NewLogitBias adds constants to logits.
func NewLogitBias(nVocab int, bias []LogitBias) (Sampler, error) {
	const op = "logit bias sampler"
	if !loaded() {
		return 0, fail(CodeNotLoaded, op, "")
	}
	if nVocab < 1 || nVocab > math.MaxInt32 || len(bias) > nVocab {
		return 0, fail(CodeSamplerInvalid, op, "size out of range")
	}
	for _, b := range bias {
		if b.Token < 0 || int(b.Token) >= nVocab || math.IsNaN(float64(b.Bias)) || math.IsInf(float64(b.Bias), 1) {
			return 0, fail(CodeSamplerInvalid, op, "token or bias out of range")
		}
	}
	h := cInitLogitBias(int32(nVocab), int32(len(bias)), unsafe.SliceData(bias))
	return registerSampler(h, samplerState{nVocab: nVocab}), nil
}

// withStrings hands an array of C strings to f for the length of the call.
func withStrings(list []string, f func(unsafe.Pointer)) {
	if len(list) == 0 {
		f(nil)
		return
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	ptrs := make([]unsafe.Pointer, len(list))
	for i, s := range list {
		b := append([]byte(s), 0)
		pin.Pin(&b[0])
		ptrs[i] = unsafe.Pointer(&b[0])
	}
	pin.Pin(&ptrs[0])
	f(unsafe.Pointer(&ptrs[0]))
}

// Add puts a sampler at the end of the chain, which owns it from then on, also
// when it is refused: then it is freed.
func (s Sampler) Add(member Sampler) error {
	const op = "add sampler"
	st, ms := s.state(), member.state()
	if ms == nil || ms.owned {
		return fail(CodeSamplerInvalid, op, "no sampler, or one that a chain owns")
	}
	if st == nil || !st.chain || ms.chain {
		member.Free()
		return fail(CodeSamplerInvalid, op, "only a single sampler can be added, and only to a chain")
	}
	if st.nVocab != 0 && ms.nVocab != 0 && st.nVocab != ms.nVocab {
		member.Free()
		return fail(CodeSamplerInvalid, op, "the samplers are for vocabularies of different sizes")
	}
	cChainAdd(uintptr(s), uintptr(member))
	ms.owned = true
	st.members = append(st.members, member)
	if ms.nVocab != 0 {
		st.nVocab = ms.nVocab
	}
	return nil
}

// Free frees a sampler or a chain with its members. Members of a chain and freed
// samplers are left alone.
func (s Sampler) Free() {
	samplersMu.Lock()
	defer samplersMu.Unlock()
	st := samplers[s]
	if st == nil || st.owned {
		return
	}
	for _, m := range st.members {
		delete(samplers, m)
	}
	delete(samplers, s)
	cSamplerFree(uintptr(s))
}

// Name is the name that libllama gives the sampler.
func (s Sampler) Name() string {
	if s.state() == nil {
		return ""
	}
	return cSamplerName(uintptr(s))
}

// Reset forgets the accepted tokens and starts the grammar and the random numbers anew.
func (s Sampler) Reset() {
	if s.state() != nil {
		cSamplerReset(uintptr(s))
	}
}

// Clone copies a chain or sampler with its present state; 0 when it cannot be.
func (s Sampler) Clone() Sampler {
	st := s.state()
	if st == nil {
		return 0
	}
	h := cSamplerClone(uintptr(s))
	if h == 0 {
		return 0
	}
	copied := samplerState{chain: st.chain, selects: st.selects, nVocab: st.nVocab, grammar: st.grammar}
	for i, m := range st.members {
		ms := *m.state()
		copied.members = append(copied.members, registerSampler(cChainGet(h, int32(i)), ms))
	}
	return registerSampler(h, copied)
}
