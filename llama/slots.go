package llama

import (
	"sync"
	"sync/atomic"

	"github.com/ebitengine/purego"
)

// Callbacks into Go are a scarce good: a process has about a thousand and none
// is ever given back. So there is one C function each for eval, log and load
// progress, and the user data of the eval callback is an index into a fixed table.

// EvalHandler sees the nodes of the graph while a Decode computes them. Both
// methods run inside Decode, on its goroutine. They must not panic, must not use
// the context that is computing, and must not keep the tensor.
type EvalHandler interface {
	// Ask is called for every node before it is computed: true asks for a Got.
	// Nodes between two wanted ones are computed together, so asking for few is fast.
	Ask(t Tensor) bool
	// Got is called when the node has been computed. false leaves the rest of the
	// graph uncomputed; logits are then undefined.
	Got(t Tensor) bool
}

const evalSlots = 64

// evalTable is read by the callback: user data i+1 is entry i.
var evalTable [evalSlots]atomic.Pointer[EvalSlot]

var (
	evalMu       sync.Mutex // guards taking and giving back entries
	evalAddr     uintptr    // C address of evalCallback
	progressAddr uintptr
)

// EvalSlot connects an EvalHandler to the contexts that were made with it.
type EvalSlot struct {
	handler EvalHandler
	index   int

	// guarded by evalMu
	users    int // live contexts
	released bool
}

// NewEvalSlot takes one of 64 slots; code slots when all are taken.
func NewEvalSlot(h EvalHandler) (*EvalSlot, error) {
	const op = "new eval slot"
	if h == nil {
		return nil, fail(CodeInvalidArg, op, "no handler")
	}
	evalMu.Lock()
	defer evalMu.Unlock()
	for i := range evalTable {
		if evalTable[i].Load() == nil {
			s := &EvalSlot{handler: h, index: i}
			evalTable[i].Store(s)
			return s, nil
		}
	}
	return nil, fail(CodeSlots, op, "all eval slots are taken")
}

// Release gives the slot back, at once or when the last context that uses it is freed.
func (s *EvalSlot) Release() {
	if s == nil {
		return
	}
	evalMu.Lock()
	defer evalMu.Unlock()
	s.released = true
	s.dropLocked()
}

func (s *EvalSlot) use() bool {
	evalMu.Lock()
	defer evalMu.Unlock()
	if s.released {
		return false
	}
	s.users++
	return true
}

func (s *EvalSlot) unuse() {
	evalMu.Lock()
	defer evalMu.Unlock()
	s.users--
	s.dropLocked()
}

func (s *EvalSlot) dropLocked() {
	if s.released && s.users == 0 {
		evalTable[s.index].CompareAndSwap(s, nil)
	}
}

func installSlots() {
	// bool (*ggml_backend_sched_eval_callback)(struct ggml_tensor * t, bool ask, void * user_data);
	evalAddr = purego.NewCallback(evalCallback)
	progressAddr = purego.NewCallback(progressCallback)
}

func evalCallback(t, ask, data uintptr) uintptr {
	var s *EvalSlot
	if data >= 1 && data <= evalSlots {
		s = evalTable[data-1].Load()
	}
	asking := ask&0xff != 0 // the upper bytes of a bool argument are not defined
	if s == nil {
		if asking {
			return 0
		}
		return 1
	}
	var yes bool
	if asking {
		yes = s.handler.Ask(Tensor(t))
	} else {
		yes = s.handler.Got(Tensor(t))
	}
	if yes {
		return 1
	}
	return 0
}

// The abort flag is asked for before every node of a graph. Going into Go there
// would cost more than many of the nodes, so the flag lives in C memory and the C
// side asks for it alone: the callback is ggml_get_no_alloc, a
// bool (*)(struct ggml_context *), its user data an own empty ggml_context, and
// setting the flag is ggml_set_no_alloc.
var (
	// bool ggml_get_no_alloc(struct ggml_context * ctx);
	aGetNoAlloc uintptr
	// void ggml_set_no_alloc(struct ggml_context * ctx, bool no_alloc);
	aSetNoAlloc uintptr
)

var slotBinds = []bind{
	{libBase, "ggml_get_no_alloc", &aGetNoAlloc},
	{libBase, "ggml_set_no_alloc", &aSetNoAlloc},
}

// AbortSlot interrupts Decode on the contexts made with it.
type AbortSlot struct {
	mu       sync.Mutex
	ctx      uintptr // ggml_context that holds the flag; 0 when freed
	set      bool
	users    int
	released bool
}

// NewAbortSlot makes a slot whose flag is down.
func NewAbortSlot() (*AbortSlot, error) {
	const op = "new abort slot"
	if !loaded() {
		return nil, fail(CodeNotLoaded, op, "")
	}
	ctx := cGGMLInit(ggmlInitParams{MemSize: 1024})
	if ctx == 0 {
		return nil, fail(CodeSlots, op, "out of memory")
	}
	return &AbortSlot{ctx: ctx}, nil
}

// Set raises or lowers the flag. While it is up, a running Decode ends within one
// node and a new one at once, both with code decode_aborted. For any goroutine.
func (a *AbortSlot) Set(abort bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set = abort
	if a.ctx == 0 {
		return
	}
	var v uintptr
	if abort {
		v = 1
	}
	purego.SyscallN(aSetNoAlloc, a.ctx, v)
}

// IsSet says whether the flag is up.
func (a *AbortSlot) IsSet() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set
}

// Release frees the slot, at once or when the last context that uses it is freed.
func (a *AbortSlot) Release() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	a.dropLocked()
}

func (a *AbortSlot) use() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released {
		return false
	}
	a.users++
	return true
}

func (a *AbortSlot) unuse() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users--
	a.dropLocked()
}

func (a *AbortSlot) dropLocked() {
	if a.released && a.users == 0 && a.ctx != 0 {
		cGGMLFree(a.ctx)
		a.ctx = 0
	}
}
