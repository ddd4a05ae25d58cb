package llama

import (
	"sync"

	"github.com/ebitengine/purego"
)

// ThreadPool is a ggml_threadpool*: compute threads that contexts share.
type ThreadPool uintptr

var (
	// struct ggml_threadpool * ggml_threadpool_new(struct ggml_threadpool_params * params);
	cPoolNew func(p *poolParams) uintptr
	// void ggml_threadpool_free(struct ggml_threadpool * threadpool);
	cPoolFree func(pool uintptr)
)

// poolBinds is empty: the functions belong to the CPU backend, which is chosen at
// run time, and are asked for by name in its registry.
var poolBinds []bind

// The CPU backend of a context keeps the pool of its last graph and touches it
// once more when the next graph comes with another pool, or with none. So a pool
// is held by a context from attaching until the first Decode after it was
// exchanged, and a Free meanwhile waits.
type poolState struct {
	holds int
	freed bool
}

var (
	poolsMu sync.Mutex
	pools   = map[ThreadPool]*poolState{} // guarded by poolsMu, as are the pools of contexts
)

func loadPool() error {
	const op = "load"
	for _, d := range devices() {
		if d.Kind != DeviceCPU {
			continue
		}
		reg := cDevReg(d.handle)
		newAddr, freeAddr := cRegProc(reg, "ggml_threadpool_new"), cRegProc(reg, "ggml_threadpool_free")
		if newAddr == 0 || freeAddr == 0 {
			return fail(CodeNativeVersion, op, "the CPU backend has no thread pool")
		}
		purego.RegisterFunc(&cPoolNew, newAddr)
		purego.RegisterFunc(&cPoolFree, freeAddr)
		return nil
	}
	return fail(CodeNativeMissing, op, "no CPU backend was loaded: the libggml-cpu files are missing or none fits this CPU")
}

// NewThreadPool makes a pool. poll is how eagerly idle threads spin between
// graphs, 0 (not at all, no loss of speed measured) to 100. prio is -1 low, 0
// normal, 1 medium, 2 high, 3 real time.
func NewThreadPool(threads int, poll uint32, prio int32) (ThreadPool, error) {
	const op = "new thread pool"
	if !loaded() {
		return 0, fail(CodeNotLoaded, op, "")
	}
	if threads < 1 || threads > maxThreads || poll > 100 || prio < -1 || prio > 3 {
		return 0, fail(CodeInvalidArg, op, "threads, poll or priority out of range")
	}
	var p poolParams
	cPoolParamsInit(&p, int32(threads))
	p.Poll, p.Prio = poll, prio
	h := cPoolNew(&p)
	if h == 0 {
		return 0, fail(CodeThreadPool, op, "")
	}
	poolsMu.Lock()
	pools[ThreadPool(h)] = &poolState{}
	poolsMu.Unlock()
	return ThreadPool(h), nil
}

// Free ends the threads, at once or as soon as no context can touch them any more.
// Contexts that still have the pool get it detached; none of them may be
// computing. Freeing twice does nothing.
func (t ThreadPool) Free() {
	poolsMu.Lock()
	defer poolsMu.Unlock()
	st := pools[t]
	if st == nil || st.freed {
		return
	}
	st.freed = true
	contexts.Range(func(k, v any) bool {
		cs := v.(*contextState)
		if cs.pools[0] == t || cs.pools[1] == t {
			cDetachPool(uintptr(k.(Context)))
			cs.exchangePoolsLocked(0, 0)
		}
		return true
	})
	t.dropLocked(st)
}

func (t ThreadPool) dropLocked(st *poolState) {
	if st.freed && st.holds == 0 {
		delete(pools, t)
		cPoolFree(uintptr(t))
	}
}

// exchangePoolsLocked notes new pools; the old ones are held until settlePools.
func (st *contextState) exchangePoolsLocked(p, pBatch ThreadPool) {
	for _, old := range st.pools {
		if old != 0 {
			st.oldPools = append(st.oldPools, old)
		}
	}
	st.pools = [2]ThreadPool{p, pBatch}
	for _, pool := range st.pools {
		if pool != 0 {
			pools[pool].holds++
		}
	}
}

// settlePools lets exchanged pools go: the backend works with the new ones, or is
// gone itself (all).
func (st *contextState) settlePools(all bool) {
	poolsMu.Lock()
	defer poolsMu.Unlock()
	if all {
		st.exchangePoolsLocked(0, 0)
	}
	for _, p := range st.oldPools {
		ps := pools[p]
		ps.holds--
		p.dropLocked(ps)
	}
	st.oldPools = st.oldPools[:0]
}

// AttachPool makes the context compute single rows with p and larger batches with
// pBatch; 0 for pBatch means p. Threads beyond the pool's are not used. Not during
// a Decode.
func (c Context) AttachPool(p, pBatch ThreadPool) error {
	const op = "attach thread pool"
	st := c.state()
	if st == nil {
		return fail(CodeInvalidHandle, op, "context")
	}
	if pBatch == 0 {
		pBatch = p
	}
	poolsMu.Lock()
	defer poolsMu.Unlock()
	for _, pool := range [2]ThreadPool{p, pBatch} {
		if ps := pools[pool]; ps == nil || ps.freed {
			return fail(CodeInvalidHandle, op, "pool")
		}
	}
	cAttachPool(uintptr(c), uintptr(p), uintptr(pBatch))
	st.exchangePoolsLocked(p, pBatch)
	return nil
}

// DetachPool goes back to threads that are made for each Decode.
func (c Context) DetachPool() {
	st := c.state()
	if st == nil {
		return
	}
	poolsMu.Lock()
	defer poolsMu.Unlock()
	cDetachPool(uintptr(c))
	st.exchangePoolsLocked(0, 0)
}
