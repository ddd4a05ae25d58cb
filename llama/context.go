package llama

import (
	"strconv"
	"sync"
)

// Context is a llama_context*: KV memory and compute buffers over a model. One
// goroutine at a time uses it.
type Context uintptr

// FlashAttn says when the fused attention kernel is used.
type FlashAttn int32

const (
	FlashAuto FlashAttn = 0
	FlashOff  FlashAttn = 1
	FlashOn   FlashAttn = 2
)

// String gives "auto", "off" or "on".
func (f FlashAttn) String() string {
	switch f {
	case FlashOff:
		return "off"
	case FlashOn:
		return "on"
	}
	return "auto"
}

// KVTypeF32 asks for a KV cache of F32. The ggml number of F32 is 0, which means
// the default (F16) here.
const KVTypeF32 uint32 = 1 << 16

// ContextParams sizes a context. Zero values: NCtx the model's training context,
// NBatch 2048, NUBatch 512, NSeqMax 1, NOutputsMax NBatch, threads 1, flash
// attention auto, KV types F16.
type ContextParams struct {
	NCtx         uint32 // cells over all sequences; each gets NCtx/NSeqMax unless Unified
	NBatch       uint32 // rows of one Decode
	NUBatch      uint32 // rows computed at once
	NSeqMax      uint32 // sequences, at most 256
	NOutputsMax  uint32 // rows with logits of one Decode; sizes the logits buffer
	Threads      int    // for one row
	ThreadsBatch int    // for more rows; 0 means Threads
	FlashAttn    FlashAttn
	TypeK        uint32 // ggml type number, or KVTypeF32
	TypeV        uint32
	Unified      bool // one pool of cells for all sequences
	SWAFull      bool // keep all cells of sliding-window layers
	Embeddings   bool // output embeddings, of every row
	Eval         *EvalSlot
	Abort        *AbortSlot
	NoPerf       bool
}

type contextState struct {
	model       *modelState
	modelHandle Model
	memory      uintptr
	nBatch      uint32
	nUBatch     uint32
	nSeqMax     uint32
	nOutputsMax uint32
	nEmbdOut    int
	embeddings  bool
	unified     bool
	causal      bool
	eval        *EvalSlot
	abort       *AbortSlot
	outputs     []bool // rows of the last Decode that have an output
	buffers     Buffers

	// guarded by poolsMu
	pools    [2]ThreadPool // attached
	oldPools []ThreadPool  // exchanged since the last Decode
}

var contexts sync.Map // Context -> *contextState

var (
	// struct llama_context * llama_init_from_model(struct llama_model * model, struct llama_context_params params);
	cContextNew func(m uintptr, p contextParams) uintptr
	// void llama_free(struct llama_context * ctx);
	cContextFree func(ctx uintptr)
	// int32_t llama_decode(struct llama_context * ctx, struct llama_batch batch);
	cDecode func(ctx uintptr, b batchData) int32
	// float * llama_get_logits_ith(struct llama_context * ctx, int32_t i);
	aLogits uintptr
	// float * llama_get_embeddings_ith(struct llama_context * ctx, int32_t i);
	aEmbeddings uintptr
	// float * llama_get_embeddings_seq(struct llama_context * ctx, llama_seq_id seq_id);
	aEmbeddingsSeq uintptr
	// uint32_t llama_n_ctx(const struct llama_context * ctx);
	cNCtx func(ctx uintptr) uint32
	// uint32_t llama_n_ctx_seq(const struct llama_context * ctx);
	cNCtxSeq func(ctx uintptr) uint32
	// uint32_t llama_n_batch(const struct llama_context * ctx);
	cNBatch func(ctx uintptr) uint32
	// uint32_t llama_n_ubatch(const struct llama_context * ctx);
	cNUBatch func(ctx uintptr) uint32
	// uint32_t llama_n_seq_max(const struct llama_context * ctx);
	cNSeqMax func(ctx uintptr) uint32
	// void llama_set_n_threads(struct llama_context * ctx, int32_t n_threads, int32_t n_threads_batch);
	cSetThreads func(ctx uintptr, n, nBatch int32)
	// void llama_attach_threadpool(struct llama_context * ctx, ggml_threadpool_t threadpool, ggml_threadpool_t threadpool_batch);
	cAttachPool func(ctx, pool, poolBatch uintptr)
	// void llama_detach_threadpool(struct llama_context * ctx);
	cDetachPool func(ctx uintptr)
	// void llama_synchronize(struct llama_context * ctx);
	cSynchronize func(ctx uintptr)
	// enum llama_pooling_type llama_pooling_type(const struct llama_context * ctx);
	cPooling func(ctx uintptr) int32
)

var contextBinds = []bind{
	{libLlama, "llama_init_from_model", &cContextNew},
	{libLlama, "llama_free", &cContextFree},
	{libLlama, "llama_decode", &cDecode},
	{libLlama, "llama_get_logits_ith", &aLogits},
	{libLlama, "llama_get_embeddings_ith", &aEmbeddings},
	{libLlama, "llama_get_embeddings_seq", &aEmbeddingsSeq},
	{libLlama, "llama_n_ctx", &cNCtx},
	{libLlama, "llama_n_ctx_seq", &cNCtxSeq},
	{libLlama, "llama_n_batch", &cNBatch},
	{libLlama, "llama_n_ubatch", &cNUBatch},
	{libLlama, "llama_n_seq_max", &cNSeqMax},
	{libLlama, "llama_set_n_threads", &cSetThreads},
	{libLlama, "llama_attach_threadpool", &cAttachPool},
	{libLlama, "llama_detach_threadpool", &cDetachPool},
	{libLlama, "llama_synchronize", &cSynchronize},
	{libLlama, "llama_pooling_type", &cPooling},
}

// NewContext makes a context; all its memory is taken at once. Errors:
// context_create, invalid_argument, invalid_handle.
func NewContext(m Model, p ContextParams) (Context, error) {
	const op = "new context"
	ms := m.state()
	if ms == nil {
		return 0, fail(CodeInvalidHandle, op, "model")
	}
	raw, err := p.raw()
	if err != nil {
		return 0, err
	}
	// Hold the model first, so that a Free meanwhile waits for this context.
	ms.mu.Lock()
	if ms.freed {
		ms.mu.Unlock()
		return 0, fail(CodeInvalidHandle, op, "model")
	}
	ms.contexts++
	ms.mu.Unlock()
	st := &contextState{model: ms, modelHandle: m}
	if p.Eval != nil {
		if !p.Eval.use() {
			st.unuse()
			return 0, fail(CodeInvalidHandle, op, "eval slot was released")
		}
		st.eval = p.Eval
		raw.CbEval, raw.CbEvalData = evalAddr, uintptr(p.Eval.index+1)
	}
	if p.Abort != nil {
		if !p.Abort.use() {
			st.unuse()
			return 0, fail(CodeInvalidHandle, op, "abort slot was released")
		}
		st.abort = p.Abort
		raw.Abort, raw.AbortData = aGetNoAlloc, p.Abort.ctx
	}
	mark, sizes := logMark(), markSizes()
	h := cContextNew(uintptr(m), raw)
	st.buffers = sizesSince(sizes)
	if h == 0 {
		st.unuse()
		return 0, fail(CodeContextCreate, op, logSince(mark))
	}
	st.memory = cGetMemory(h)
	st.nBatch, st.nUBatch, st.nSeqMax = cNBatch(h), cNUBatch(h), cNSeqMax(h)
	st.nOutputsMax = raw.NOutputsMax
	st.nEmbdOut = int(cModelNEmbdOut(uintptr(m)))
	st.embeddings, st.unified = p.Embeddings, p.Unified
	st.causal = ms.causal && st.memory != 0
	contexts.Store(Context(h), st)
	return Context(h), nil
}

// unuse undoes the holds of a context that is gone.
func (st *contextState) unuse() {
	if st.eval != nil {
		st.eval.unuse()
	}
	if st.abort != nil {
		st.abort.unuse()
	}
	st.model.mu.Lock()
	st.model.contexts--
	st.modelHandle.dropLocked(st.model)
	st.model.mu.Unlock()
}

// maxCells bounds NCtx and NBatch far above any real size, so that no sum in
// libllama overflows.
const maxCells = 1 << 24

func (p ContextParams) raw() (contextParams, error) {
	const op = "new context"
	bad := func(what string) (contextParams, error) { return contextParams{}, fail(CodeInvalidArg, op, what) }
	raw := cContextDefaults()
	if p.NCtx > maxCells || p.NBatch > maxCells || p.NUBatch > maxCells {
		return bad("size out of range")
	}
	if p.NSeqMax > maxSequences {
		return bad("more than " + strconv.Itoa(int(maxSequences)) + " sequences")
	}
	if p.Threads < 0 || p.Threads > maxThreads || p.ThreadsBatch < 0 || p.ThreadsBatch > maxThreads {
		return bad("threads out of range")
	}
	raw.NCtx = p.NCtx
	raw.NBatch = orDefault(p.NBatch, 2048)
	raw.NUBatch = min(orDefault(p.NUBatch, 512), raw.NBatch)
	raw.NSeqMax = orDefault(p.NSeqMax, 1)
	raw.NOutputsMax = min(orDefault(p.NOutputsMax, raw.NBatch), raw.NBatch)
	if raw.NOutputsMax < raw.NSeqMax {
		// The graphs that size the buffers have one output per sequence.
		return bad("NOutputsMax or NBatch is below NSeqMax")
	}
	raw.NThreads = int32(max(p.Threads, 1))
	raw.NThreadsBatch = raw.NThreads
	if p.ThreadsBatch > 0 {
		raw.NThreadsBatch = int32(p.ThreadsBatch)
	}
	switch p.FlashAttn {
	case FlashAuto:
		raw.FlashAttn = -1
	case FlashOff:
		raw.FlashAttn = 0
	case FlashOn:
		raw.FlashAttn = 1
	default:
		return bad("unknown flash attention setting")
	}
	var ok [2]bool
	raw.TypeK, ok[0] = kvType(p.TypeK)
	raw.TypeV, ok[1] = kvType(p.TypeV)
	if !ok[0] || !ok[1] {
		return bad("type of the KV cache")
	}
	if p.FlashAttn == FlashOff && raw.TypeV != typeF16 && raw.TypeV != typeF32 && raw.TypeV != typeBF16 {
		return bad("a quantized V cache needs flash attention")
	}
	raw.Embeddings = cBool(p.Embeddings)
	raw.NoPerf = cBool(p.NoPerf)
	raw.SWAFull = cBool(p.SWAFull)
	raw.KVUnified = cBool(p.Unified)
	return raw, nil
}

func orDefault(v, def uint32) uint32 {
	if v == 0 {
		return def
	}
	return v
}

// kvType lists the types that a KV cache can have.
func kvType(t uint32) (int32, bool) {
	switch t {
	case 0:
		return typeF16, true
	case KVTypeF32:
		return typeF32, true
	case typeF16, typeBF16, typeQ8_0, typeQ5_0, typeQ5_1, typeQ4_0, typeQ4_1, typeIQ4_NL:
		return int32(t), true
	}
	return 0, false
}

func (c Context) state() *contextState {
	if v, ok := contexts.Load(c); ok {
		return v.(*contextState)
	}
	return nil
}

// Free frees the context. Freeing twice does nothing.
func (c Context) Free() {
	v, ok := contexts.LoadAndDelete(c)
	if !ok {
		return
	}
	cContextFree(uintptr(c))
	v.(*contextState).settlePools(true)
	v.(*contextState).unuse()
}

// Decode computes the batch and appends it to the memory. Errors: decode_no_slot
// (nothing changed; a smaller batch may fit), decode_aborted and decode_failed
// (the parts computed so far may be in the memory), decode_invalid (nothing changed).
func (c Context) Decode(b *Batch) error {
	const op = "decode"
	st := c.state()
	if st == nil {
		return fail(CodeInvalidHandle, op, "")
	}
	if err := b.check(st); err != nil {
		return err
	}
	raw := b.raw
	raw.NTokens = int32(b.n)
	st.outputs = st.outputs[:0]
	mark := logMark()
	switch rc := cDecode(uintptr(c), raw); rc {
	case 0:
	case 1:
		return fail(CodeDecodeNoSlot, op, "")
	case 2:
		return fail(CodeDecodeAborted, op, "")
	case -1:
		return fail(CodeDecodeInvalid, op, logSince(mark))
	default:
		return fail(CodeDecodeFailed, op, "status "+strconv.Itoa(int(rc))+"; "+logSince(mark))
	}
	st.settlePools(false)
	for i := range b.n {
		st.outputs = append(st.outputs, b.out[i] != 0 || st.embeddings)
	}
	return nil
}

func (c Context) size(f func(uintptr) uint32) int {
	if c.state() == nil {
		return 0
	}
	return int(f(uintptr(c)))
}

// NCtx is the number of cells; libllama rounds it up.
func (c Context) NCtx() int { return c.size(cNCtx) }

// NCtxSeq is the number of cells of one sequence.
func (c Context) NCtxSeq() int { return c.size(cNCtxSeq) }

// NBatch is the largest batch in rows.
func (c Context) NBatch() int { return c.size(cNBatch) }

// NUBatch is the number of rows computed at once.
func (c Context) NUBatch() int { return c.size(cNUBatch) }

// NSeqMax is the number of sequences.
func (c Context) NSeqMax() int { return c.size(cNSeqMax) }

// SetThreads changes the threads for one row and for more rows.
func (c Context) SetThreads(n, nBatch int) error {
	const op = "set threads"
	if c.state() == nil {
		return fail(CodeInvalidHandle, op, "")
	}
	if n < 1 || n > maxThreads || nBatch < 1 || nBatch > maxThreads {
		return fail(CodeInvalidArg, op, "threads out of range")
	}
	cSetThreads(uintptr(c), int32(n), int32(nBatch))
	return nil
}

// Synchronize waits for work that an accelerator still does.
func (c Context) Synchronize() {
	if c.state() != nil {
		cSynchronize(uintptr(c))
	}
}
