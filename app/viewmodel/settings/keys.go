package settings

import (
	"context"
	"slices"
	"sync"

	"neuron/app/viewmodel/task"
	"neuron/engine/accounts"
	"neuron/engine/protocol"
)

// KeysEngine is what the API keys need of *localapi.Client.
type KeysEngine interface {
	Keys(ctx context.Context) ([]accounts.Key, error)
	CreateKey(ctx context.Context, name string, l accounts.Limits) (*accounts.NewKey, error)
	LimitKey(ctx context.Context, id string, l accounts.Limits) (*accounts.Key, error)
	RevokeKey(ctx context.Context, id string) (*accounts.Key, error)
}

// KeysView is what the page shows of the API keys.
type KeysView struct {
	Known bool           // that Keys has been read
	Keys  []accounts.Key // those in force, newest first
	// New is a key that was just made, with the secret that is shown this once.
	New  *accounts.NewKey
	Busy bool
	Err  *protocol.Error // of the last order, nil when it went well
}

// Keys keeps the API keys of this computer's owner. Its methods return at once
// and are safe for concurrent use.
type Keys struct {
	base[KeysView]
	engine func() KeysEngine
	turn   sync.Mutex // held by the order that runs: a list is never older than the one before
}

// NewKeys makes one that has not looked yet.
func NewKeys(engine func() KeysEngine) *Keys {
	return &Keys{base: base[KeysView]{tasks: task.New()}, engine: engine}
}

// View is the present state; its slice is the caller's.
func (m *Keys) View() KeysView {
	v := m.base.View()
	v.Keys = slices.Clone(v.Keys)
	return v
}

// do runs an order, then reads the list.
func (m *Keys) do(f func(ctx context.Context, e KeysEngine) error) {
	m.set(func(v *KeysView) { v.Busy, v.Err = true, nil })
	m.tasks.Go(func(ctx context.Context) {
		m.turn.Lock()
		defer m.turn.Unlock()
		err := gone()
		if e := m.engine(); e != nil {
			if err = f(ctx, e); err == nil {
				err = m.load(ctx, e)
			}
		}
		m.set(func(v *KeysView) { v.Busy, v.Err = false, protocol.AsError(err) })
	})
}

func (m *Keys) load(ctx context.Context, e KeysEngine) error {
	keys, err := e.Keys(ctx)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k accounts.Key) bool { return k.Revoked != nil })
	slices.SortStableFunc(keys, func(a, b accounts.Key) int { return b.Created.Compare(a.Created) })
	m.set(func(v *KeysView) { v.Known, v.Keys = true, keys })
	return nil
}

// Load reads the list.
func (m *Keys) Load() { m.do(func(context.Context, KeysEngine) error { return nil }) }

// Create makes a key; its secret is in View.New until Seen.
func (m *Keys) Create(name string, l accounts.Limits) {
	m.do(func(ctx context.Context, e KeysEngine) error {
		k, err := e.CreateKey(ctx, name, l)
		if err == nil {
			m.set(func(v *KeysView) { v.New = k })
		}
		return err
	})
}

// Seen forgets the secret.
func (m *Keys) Seen() { m.set(func(v *KeysView) { v.New = nil }) }

// Limit changes what a key may spend.
func (m *Keys) Limit(id string, l accounts.Limits) {
	m.do(func(ctx context.Context, e KeysEngine) error { _, err := e.LimitKey(ctx, id, l); return err })
}

// Revoke ends a key for good.
func (m *Keys) Revoke(id string) {
	m.do(func(ctx context.Context, e KeysEngine) error { _, err := e.RevokeKey(ctx, id); return err })
}
