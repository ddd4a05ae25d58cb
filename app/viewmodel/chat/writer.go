package chat

import "sync"

// writer runs jobs one after the other, in the order in which they were given.
// Giving one never waits: the UI must not stand still for a slow disk.
type writer struct {
	mu     sync.Mutex
	more   *sync.Cond
	jobs   []func()
	closed bool
}

func newWriter() *writer {
	w := &writer{}
	w.more = sync.NewCond(&w.mu)
	return w
}

// do gives a job; after close it is dropped.
func (w *writer) do(job func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.jobs = append(w.jobs, job)
		w.more.Signal()
	}
}

// close lets run end when all jobs are done.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.more.Signal()
}

func (w *writer) run() {
	for {
		w.mu.Lock()
		for len(w.jobs) == 0 && !w.closed {
			w.more.Wait()
		}
		jobs := w.jobs
		w.jobs = nil
		w.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		for _, job := range jobs {
			job()
		}
	}
}
