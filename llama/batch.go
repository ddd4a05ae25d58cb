package llama

import "unsafe"

var (
	// struct llama_batch llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq_max);
	cBatchInit func(nTokens, embd, nSeqMax int32) batchData
	// void llama_batch_free(struct llama_batch batch);
	cBatchFree func(b batchData)
)

var batchBinds = []bind{
	{libLlama, "llama_batch_init", &cBatchInit},
	{libLlama, "llama_batch_free", &cBatchFree},
}

const (
	maxBatchRows   = 1 << 20
	maxBatchFloats = 1 << 30
)

// Batch is the input of one Decode: rows of token ids (width 0) or of embeddings.
// Its memory is C memory. One goroutine at a time uses it.
type Batch struct {
	raw   batchData
	width int
	cap   int
	n     int
	nOut  int

	tokens []int32
	embd   []float32
	pos    []int32
	seqs   []*int32
	nSeqs  []int32
	out    []int8
}

// NewBatch makes an empty batch with room for capRows rows. width 0 takes tokens,
// otherwise rows of that many float32 (Model.NEmbdInp).
func NewBatch(capRows, width int) (*Batch, error) {
	const op = "new batch"
	if !loaded() {
		return nil, fail(CodeNotLoaded, op, "")
	}
	if capRows < 1 || capRows > maxBatchRows || width < 0 || width > maxBatchFloats || capRows*width > maxBatchFloats {
		return nil, fail(CodeInvalidArg, op, "rows or width out of range")
	}
	raw := cBatchInit(int32(capRows), int32(width), 1)
	if raw.Pos == 0 || raw.NSeqID == 0 || raw.SeqID == 0 || raw.Logits == 0 || (raw.Token == 0) == (raw.Embd == 0) {
		return nil, fail(CodeInvalidArg, op, "out of memory")
	}
	b := &Batch{raw: raw, width: width, cap: capRows}
	b.pos = unsafe.Slice((*int32)(pointer(raw.Pos)), capRows)
	b.nSeqs = unsafe.Slice((*int32)(pointer(raw.NSeqID)), capRows)
	b.seqs = unsafe.Slice((**int32)(pointer(raw.SeqID)), capRows)
	b.out = unsafe.Slice((*int8)(pointer(raw.Logits)), capRows)
	if width == 0 {
		b.tokens = unsafe.Slice((*int32)(pointer(raw.Token)), capRows)
	} else {
		b.embd = unsafe.Slice((*float32)(pointer(raw.Embd)), capRows*width)
	}
	return b, nil
}

// Free gives the memory back. The batch is then full and empty at once: it takes
// no rows and decodes as decode_invalid.
func (b *Batch) Free() {
	if b == nil || b.raw.Pos == 0 {
		return
	}
	cBatchFree(b.raw)
	*b = Batch{}
}

// Reset takes all rows out.
func (b *Batch) Reset() { b.n, b.nOut = 0, 0 }

// Rows is the number of rows in the batch.
func (b *Batch) Rows() int { return b.n }

// Outputs is the number of rows marked as output.
func (b *Batch) Outputs() int { return b.nOut }

// Cap is the number of rows that fit.
func (b *Batch) Cap() int { return b.cap }

// Width is the width of a row of embeddings, 0 in a batch of tokens.
func (b *Batch) Width() int { return b.width }

// AddToken appends a token of sequence seq at position pos. output asks for its
// logits. Whether id and seq exist is checked by Decode.
func (b *Batch) AddToken(id, pos, seq int32, output bool) error {
	if b.width != 0 {
		return fail(CodeInvalidArg, "add token", "the batch takes embeddings")
	}
	if err := b.add("add token", pos, seq, output); err != nil {
		return err
	}
	b.tokens[b.n-1] = id
	return nil
}

// AddEmbd appends a row of embeddings; it is copied.
func (b *Batch) AddEmbd(row []float32, pos, seq int32, output bool) error {
	if b.width == 0 || len(row) != b.width {
		return fail(CodeInvalidArg, "add embedding", "wrong width of the row")
	}
	if err := b.add("add embedding", pos, seq, output); err != nil {
		return err
	}
	copy(b.embd[(b.n-1)*b.width:], row)
	return nil
}

func (b *Batch) add(op string, pos, seq int32, output bool) error {
	if b.n >= b.cap {
		return fail(CodeInvalidArg, op, "the batch is full")
	}
	if pos < 0 || seq < 0 || uint32(seq) >= maxSequences {
		return fail(CodeInvalidArg, op, "position or sequence out of range")
	}
	i := b.n
	b.pos[i] = pos
	b.nSeqs[i] = 1
	*b.seqs[i] = seq
	b.out[i] = 0
	if output {
		b.out[i] = 1
		b.nOut++
	}
	b.n++
	return nil
}

// check repeats what llama_decode asserts or would answer without a reason.
func (b *Batch) check(st *contextState) error {
	const op = "decode"
	if b == nil || b.raw.Pos == 0 || b.n == 0 {
		return fail(CodeDecodeInvalid, op, "empty batch")
	}
	if uint32(b.n) > st.nBatch {
		return fail(CodeDecodeInvalid, op, "more rows than n_batch")
	}
	if !st.causal && uint32(b.n) > st.nUBatch {
		return fail(CodeDecodeInvalid, op, "more rows than n_ubatch, which a non-causal model needs at once")
	}
	if b.width != 0 && b.width != st.model.nEmbIn {
		return fail(CodeDecodeInvalid, op, "width of the rows is not that of the model")
	}
	outputs := b.nOut
	if st.embeddings {
		outputs = b.n // a context for embeddings outputs every row
	}
	if uint32(outputs) > st.nOutputsMax {
		return fail(CodeDecodeInvalid, op, "more outputs than n_outputs_max")
	}
	for i := range b.n {
		if uint32(*b.seqs[i]) >= st.nSeqMax {
			return fail(CodeDecodeInvalid, op, "sequence out of range")
		}
		if b.width == 0 && (b.tokens[i] < 0 || int(b.tokens[i]) >= st.model.nVocab) {
			return fail(CodeDecodeInvalid, op, "token id out of range")
		}
	}
	return nil
}
