package llama

var (
	// llama_memory_t llama_get_memory(const struct llama_context * ctx);
	cGetMemory func(ctx uintptr) uintptr
	// void llama_memory_clear(llama_memory_t mem, bool data);
	cMemClear func(mem uintptr, data bool)
	// bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
	cMemSeqRm func(mem uintptr, seq, p0, p1 int32) bool
	// void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id src, llama_seq_id dst, llama_pos p0, llama_pos p1);
	cMemSeqCp func(mem uintptr, src, dst, p0, p1 int32)
	// void llama_memory_seq_keep(llama_memory_t mem, llama_seq_id seq_id);
	cMemSeqKeep func(mem uintptr, seq int32)
	// void llama_memory_seq_add(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, llama_pos delta);
	cMemSeqAdd func(mem uintptr, seq, p0, p1, delta int32)
	// llama_pos llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id);
	cMemPosMin func(mem uintptr, seq int32) int32
	// llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id);
	cMemPosMax func(mem uintptr, seq int32) int32
	// bool llama_memory_can_shift(llama_memory_t mem);
	cMemCanShift func(mem uintptr) bool
)

var memoryBinds = []bind{
	{libLlama, "llama_get_memory", &cGetMemory},
	{libLlama, "llama_memory_clear", &cMemClear},
	{libLlama, "llama_memory_seq_rm", &cMemSeqRm},
	{libLlama, "llama_memory_seq_cp", &cMemSeqCp},
	{libLlama, "llama_memory_seq_keep", &cMemSeqKeep},
	{libLlama, "llama_memory_seq_add", &cMemSeqAdd},
	{libLlama, "llama_memory_seq_pos_min", &cMemPosMin},
	{libLlama, "llama_memory_seq_pos_max", &cMemPosMax},
	{libLlama, "llama_memory_can_shift", &cMemCanShift},
}

// Memory is the KV cache or recurrent state of a context. It lives as long as
// the context; afterwards, and for models without memory, its methods do nothing.
// Positions p0 and p1 are a half-open range; negative means from the start, or to
// the end.
type Memory struct {
	ctx Context
}

// Memory gives the memory of the context.
func (c Context) Memory() Memory { return Memory{ctx: c} }

// seq gives the state when the sequence can be addressed.
func (m Memory) seq(seqs ...int32) *contextState {
	st := m.ctx.state()
	if st == nil || st.memory == 0 {
		return nil
	}
	for _, s := range seqs {
		if s < 0 || uint32(s) >= st.nSeqMax {
			return nil
		}
	}
	return st
}

// Clear forgets all sequences. data also zeroes the buffers.
func (m Memory) Clear(data bool) {
	if st := m.seq(); st != nil {
		cMemClear(st.memory, data)
	}
}

// SeqRm removes positions of a sequence; seq -1 of all. false means that nothing
// was removed: recurrent state can only go as a whole.
func (m Memory) SeqRm(seq, p0, p1 int32) bool {
	st := m.seq()
	if seq != -1 {
		st = m.seq(seq)
	}
	return st != nil && cMemSeqRm(st.memory, seq, p0, p1)
}

// SeqCp copies a sequence. Without Unified only whole sequences can be copied
// (p0 and p1 negative): truncate the copy afterwards.
func (m Memory) SeqCp(src, dst, p0, p1 int32) error {
	const op = "copy sequence"
	st := m.seq(src, dst)
	if st == nil {
		return fail(CodeInvalidArg, op, "sequence out of range or no memory")
	}
	if src == dst {
		return nil
	}
	if !st.unified && (p0 > 0 || p1 >= 0) {
		return fail(CodeMemory, op, "only whole sequences can be copied when they have cells of their own")
	}
	cMemSeqCp(st.memory, src, dst, p0, p1)
	return nil
}

// SeqKeep removes every other sequence.
func (m Memory) SeqKeep(seq int32) error {
	st := m.seq(seq)
	if st == nil {
		return fail(CodeInvalidArg, "keep sequence", "sequence out of range or no memory")
	}
	if st.unified {
		cMemSeqKeep(st.memory, seq)
		return nil
	}
	// With cells per sequence libllama looks only at those of seq itself.
	for other := range int32(st.nSeqMax) {
		if other != seq && !cMemSeqRm(st.memory, other, -1, -1) {
			return fail(CodeMemory, "keep sequence", "a sequence could not be removed")
		}
	}
	return nil
}

// SeqAdd moves positions of a sequence by delta. Code memory where CanShift is false.
func (m Memory) SeqAdd(seq, p0, p1, delta int32) error {
	const op = "shift sequence"
	st := m.seq(seq)
	if st == nil {
		return fail(CodeInvalidArg, op, "sequence out of range or no memory")
	}
	if !cMemCanShift(st.memory) {
		return fail(CodeMemory, op, "this memory cannot shift")
	}
	cMemSeqAdd(st.memory, seq, p0, p1, delta)
	return nil
}

// SeqPosMin is the smallest position of a sequence, -1 when it is empty.
func (m Memory) SeqPosMin(seq int32) int32 {
	if st := m.seq(seq); st != nil {
		return cMemPosMin(st.memory, seq)
	}
	return -1
}

// SeqPosMax is the largest position of a sequence, -1 when it is empty.
func (m Memory) SeqPosMax(seq int32) int32 {
	if st := m.seq(seq); st != nil {
		return cMemPosMax(st.memory, seq)
	}
	return -1
}

// CanShift says that SeqAdd is possible.
func (m Memory) CanShift() bool {
	st := m.seq()
	return st != nil && cMemCanShift(st.memory)
}
