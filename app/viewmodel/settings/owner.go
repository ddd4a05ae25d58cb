package settings

import (
	"context"
	"time"

	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// OwnerEngine is what the owner's part needs of *localapi.Client.
type OwnerEngine interface {
	Owner(ctx context.Context) (*localapi.OwnerState, error)
	StartPairing(ctx context.Context, fresh bool) (*localapi.Pairing, error)
	Pairing(ctx context.Context) (*localapi.Pairing, error)
	ConfirmPairing(ctx context.Context, node protocol.NodeID) error
	EndPairing(ctx context.Context) error
	LookupCode(ctx context.Context, code string) (owner.ID, error)
	Join(ctx context.Context, code string, want owner.ID) (owner.ID, error)
	Leave(ctx context.Context) error
	Export(ctx context.Context, passphrase string) ([]byte, error)
	Recover(ctx context.Context, r localapi.Recover) (*localapi.Recovered, error)
}

// OwnerView is what the page shows of ownership.
type OwnerView struct {
	Owner *localapi.OwnerState // nil while not known
	// Pairing is the code that is shown for a further computer, nil without one;
	// Paired says that the last one has ended with a computer more.
	Pairing *localapi.Pairing
	Paired  bool
	// Found is whose the code is that was looked up, "" for none.
	Found owner.ID
	Busy  bool
	Err   *protocol.Error // of the last order, nil when it went well
}

// Owner keeps what is known of the owner key and its computers. Its methods
// return at once and are safe for concurrent use.
type Owner struct {
	base[OwnerView]
	engine  func() OwnerEngine
	every   time.Duration
	endPoll context.CancelFunc // guarded by mu; nil while nothing polls
}

// NewOwner makes one that has not looked yet.
func NewOwner(engine func() OwnerEngine) *Owner {
	return &Owner{base: base[OwnerView]{tasks: task.New()}, engine: engine, every: 2 * time.Second}
}

// do runs an order and keeps its error.
func (m *Owner) do(f func(ctx context.Context, e OwnerEngine) error) {
	m.set(func(v *OwnerView) { v.Busy, v.Err = true, nil })
	m.tasks.Go(func(ctx context.Context) {
		err := gone()
		if e := m.engine(); e != nil {
			err = f(ctx, e)
		}
		m.set(func(v *OwnerView) { v.Busy, v.Err = false, protocol.AsError(err) })
	})
}

// Load asks who owns this computer.
func (m *Owner) Load() { m.do(m.load) }

func (m *Owner) load(ctx context.Context, e OwnerEngine) error {
	o, err := e.Owner(ctx)
	if err != nil {
		return err
	}
	m.set(func(v *OwnerView) { v.Owner = o })
	return nil
}

// Pair gives a code and waits for the computer that uses it, until EndPair.
func (m *Owner) Pair() {
	m.do(func(ctx context.Context, e OwnerEngine) error {
		p, err := e.StartPairing(ctx, false)
		if err != nil {
			return err
		}
		m.set(func(v *OwnerView) { v.Pairing, v.Paired = p, false })
		m.poll()
		return nil
	})
}

// poll asks for the computer that came.
func (m *Owner) poll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.endPoll != nil {
		return
	}
	m.endPoll = m.tasks.Repeat(m.every, func(ctx context.Context) {
		e := m.engine()
		if e == nil {
			return // it may come back
		}
		if p, err := e.Pairing(ctx); err == nil && ctx.Err() == nil {
			m.set(func(v *OwnerView) {
				if v.Pairing != nil {
					v.Pairing = p
				}
			})
		}
	})
}

func (m *Owner) stopPoll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.endPoll != nil {
		m.endPoll()
		m.endPoll = nil
	}
}

// Confirm makes the computer that came the owner's.
func (m *Owner) Confirm() {
	p := m.View().Pairing
	if p == nil || p.Offer == nil {
		return
	}
	m.do(func(ctx context.Context, e OwnerEngine) error {
		if err := e.ConfirmPairing(ctx, p.Offer.Node); err != nil {
			return err
		}
		m.stopPoll()
		m.set(func(v *OwnerView) { v.Pairing, v.Paired = nil, true })
		return nil
	})
}

// EndPair forgets the code.
func (m *Owner) EndPair() {
	m.stopPoll()
	if m.View().Pairing == nil {
		return
	}
	m.set(func(v *OwnerView) { v.Pairing = nil })
	m.do(func(ctx context.Context, e OwnerEngine) error { return e.EndPairing(ctx) })
}

// LookUp says whose a code of another computer is; Forget takes that back.
func (m *Owner) LookUp(code string) {
	m.do(func(ctx context.Context, e OwnerEngine) error {
		id, err := e.LookupCode(ctx, code)
		if err == nil {
			m.set(func(v *OwnerView) { v.Found = id })
		}
		return err
	})
}

// Forget forgets what was looked up, and an error.
func (m *Owner) Forget() { m.set(func(v *OwnerView) { v.Found, v.Err, v.Paired = "", nil, false }) }

// Join asks the owner that was found to take this computer.
func (m *Owner) Join(code string) {
	want := m.View().Found
	m.do(func(ctx context.Context, e OwnerEngine) error {
		if _, err := e.Join(ctx, code, want); err != nil {
			return err
		}
		m.set(func(v *OwnerView) { v.Found = "" })
		return m.load(ctx, e)
	})
}

// Leave brings this computer back to its own owner key.
func (m *Owner) Leave() {
	m.do(func(ctx context.Context, e OwnerEngine) error {
		if err := e.Leave(ctx); err != nil {
			return err
		}
		return m.load(ctx, e)
	})
}

// Export gives the owner key, encrypted, to take; take runs on a goroutine of
// the model.
func (m *Owner) Export(passphrase string, take func(file []byte)) {
	m.do(func(ctx context.Context, e OwnerEngine) error {
		file, err := e.Export(ctx, passphrase)
		if err == nil {
			take(file)
		}
		return err
	})
}

// Recover takes the owner key of an exported file; then runs on a goroutine of
// the model.
func (m *Owner) Recover(r localapi.Recover, then func(*localapi.Recovered)) {
	m.do(func(ctx context.Context, e OwnerEngine) error {
		got, err := e.Recover(ctx, r)
		if err != nil {
			return err
		}
		then(got)
		return m.load(ctx, e)
	})
}
