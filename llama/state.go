package llama

import "unsafe"

var (
	// size_t llama_state_seq_get_size(struct llama_context * ctx, llama_seq_id seq_id);
	cStateSeqSize func(ctx uintptr, seq int32) uint64
	// size_t llama_state_seq_get_data(struct llama_context * ctx, uint8_t * dst, size_t size, llama_seq_id seq_id);
	cStateSeqGet func(ctx uintptr, dst *byte, size uint64, seq int32) uint64
	// size_t llama_state_seq_set_data(struct llama_context * ctx, const uint8_t * src, size_t size, llama_seq_id dest_seq_id);
	cStateSeqSet func(ctx uintptr, src *byte, size uint64, seq int32) uint64
)

var stateBinds = []bind{
	{libLlama, "llama_state_seq_get_size", &cStateSeqSize},
	{libLlama, "llama_state_seq_get_data", &cStateSeqGet},
	{libLlama, "llama_state_seq_set_data", &cStateSeqSet},
}

// SeqStateSize is the number of bytes that SeqStateGet writes, 0 for an unknown sequence.
func (c Context) SeqStateSize(seq int32) int {
	if c.Memory().seq(seq) == nil {
		return 0
	}
	return int(cStateSeqSize(uintptr(c), seq))
}

// SeqStateGet writes the memory of a sequence into buf and gives the bytes used.
// The blob does not say which model, types or build it came from: the caller must
// store that with it.
func (c Context) SeqStateGet(seq int32, buf []byte) (int, error) {
	const op = "save sequence state"
	if c.Memory().seq(seq) == nil {
		return 0, fail(CodeInvalidArg, op, "sequence out of range or no memory")
	}
	if need := c.SeqStateSize(seq); need == 0 || need > len(buf) {
		return 0, fail(CodeState, op, "buffer is too small")
	}
	mark := logMark()
	n := cStateSeqGet(uintptr(c), unsafe.SliceData(buf), uint64(len(buf)), seq)
	if n == 0 || n > uint64(len(buf)) {
		return 0, fail(CodeState, op, logSince(mark))
	}
	return int(n), nil
}

// SeqStateSet replaces the memory of a sequence by a blob from SeqStateGet. On an
// error the sequence is empty. libllama checks sizes only in part, so data must be
// known to be a blob that this build made for this model.
func (c Context) SeqStateSet(seq int32, data []byte) error {
	const op = "restore sequence state"
	if c.Memory().seq(seq) == nil {
		return fail(CodeInvalidArg, op, "sequence out of range or no memory")
	}
	if len(data) == 0 {
		return fail(CodeState, op, "no data")
	}
	mark := logMark()
	if n := cStateSeqSet(uintptr(c), unsafe.SliceData(data), uint64(len(data)), seq); n == 0 {
		c.Memory().SeqRm(seq, -1, -1)
		return fail(CodeState, op, logSince(mark))
	}
	return nil
}
