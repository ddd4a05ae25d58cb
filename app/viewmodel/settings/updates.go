package settings

import (
	"context"
	"time"

	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// UpdatesEngine is what newer versions need of *localapi.Client.
type UpdatesEngine interface {
	Update(ctx context.Context) (*localapi.Update, error)
	CheckUpdate(ctx context.Context) (*localapi.Update, error)
	DownloadUpdate(ctx context.Context) (*localapi.Update, error)
	DismissUpdate(ctx context.Context, version string) (*localapi.Update, error)
	InstallUpdate(ctx context.Context) (*localapi.Installing, error)
}

const (
	// updateEvery is how often it is looked at while the page is shown.
	updateEvery = time.Second
	// updatePatience is for orders: a list is read, or a package's bytes are.
	updatePatience = 2 * time.Minute
)

// UpdatesView is what the page shows of newer versions.
type UpdatesView struct {
	// Update is what the engine knows, nil while it has not said.
	Update *localapi.Update
	Busy   bool
	Err    *protocol.Error // of the last order, nil when it went well
	// Installing is what the order to install has begun, nil before.
	Installing *localapi.Installing
}

// Updates keeps what is known of newer versions. Its methods return at once and
// are safe for concurrent use.
type Updates struct {
	base[UpdatesView]
	engine func() UpdatesEngine
	stop   context.CancelFunc // guarded by mu; ends the looking, nil while none
}

// NewUpdates makes one that looks at nothing yet.
func NewUpdates(engine func() UpdatesEngine) *Updates {
	return &Updates{base: base[UpdatesView]{tasks: task.New()}, engine: engine}
}

// Follow looks until Rest; a second call changes nothing.
func (m *Updates) Follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil {
		m.stop = m.tasks.Repeat(updateEvery, m.look)
	}
}

// Rest stops looking.
func (m *Updates) Rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

func (m *Updates) look(ctx context.Context) {
	e := m.engine()
	if e == nil {
		return // the page says so
	}
	ctx, cancel := context.WithTimeout(ctx, task.Patience)
	defer cancel()
	if u, err := e.Update(ctx); err == nil {
		m.set(func(v *UpdatesView) { v.Update = u })
	}
}

// order runs one order; what is shown is what it answers.
func (m *Updates) order(do func(ctx context.Context, e UpdatesEngine) (*localapi.Update, error)) {
	m.set(func(v *UpdatesView) { v.Busy, v.Err = true, nil })
	m.tasks.Stay(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, updatePatience)
		defer cancel()
		var u *localapi.Update
		err := gone()
		if e := m.engine(); e != nil {
			u, err = do(ctx, e)
		}
		m.set(func(v *UpdatesView) {
			if v.Busy, v.Err = false, protocol.AsError(err); u != nil {
				v.Update = u
			}
		})
	})
}

// Check reads the list of releases.
func (m *Updates) Check() {
	m.order(func(ctx context.Context, e UpdatesEngine) (*localapi.Update, error) { return e.CheckUpdate(ctx) })
}

// Download begins to fetch the release.
func (m *Updates) Download() {
	m.order(func(ctx context.Context, e UpdatesEngine) (*localapi.Update, error) { return e.DownloadUpdate(ctx) })
}

// Dismiss hides the version that is there; "" hides none.
func (m *Updates) Dismiss(version string) {
	m.order(func(ctx context.Context, e UpdatesEngine) (*localapi.Update, error) {
		return e.DismissUpdate(ctx, version)
	})
}

// Install begins to install what was fetched.
func (m *Updates) Install() {
	m.order(func(ctx context.Context, e UpdatesEngine) (*localapi.Update, error) {
		in, err := e.InstallUpdate(ctx)
		if err == nil {
			m.set(func(v *UpdatesView) { v.Installing = in })
		}
		return nil, err
	})
}
