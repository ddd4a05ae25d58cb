package admit

import "sync"

// Work is the ordered end: which requests for answers are under way, and
// whether others are still taken.
type Work struct {
	Refusing chan struct{} // closed when no other one is taken
	Drained  chan struct{} // closed when, besides, none is under way

	mu sync.Mutex
	// Protected by mu.
	answers int
	refuses bool
}

// NewWork returns a Work that takes requests.
func NewWork() *Work { return &Work{Refusing: make(chan struct{}), Drained: make(chan struct{})} }

// Enter counts a request; false when no other one is taken.
func (d *Work) Enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses {
		return false
	}
	d.answers++
	return true
}

// Leave is for each request that Enter let pass.
func (d *Work) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers--
	if d.refuses && d.answers == 0 {
		close(d.Drained)
	}
}

// Refuse takes no other request; it may be called again.
func (d *Work) Refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses {
		return
	}
	d.refuses = true
	close(d.Refusing)
	if d.answers == 0 {
		close(d.Drained)
	}
}

// State is the number of requests under way, and whether others are refused.
func (d *Work) State() (answers int, refuses bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers, d.refuses
}
