package settings

import (
	"context"
	"sync"
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
	engine func() UpdatesEngine
	tasks  *task.Group

	mu   sync.Mutex
	view UpdatesView        // guarded by mu
	stop context.CancelFunc // guarded by mu; ends the looking, nil while none
}

// NewUpdates makes one that looks at nothing yet.
func NewUpdates(engine func() UpdatesEngine) *Updates {
	return &Updates{engine: engine, tasks: task.New()}
}

// Changed gives a value after each change of View.
func (m *Updates) Changed() <-chan struct{} { return m.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (m *Updates) Close() { m.tasks.Close() }

// View is the present state; what it points to is not changed any more.
func (m *Updates) View() UpdatesView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

func (m *Updates) set(f func(*UpdatesView)) {
	m.mu.Lock()
	f(&m.view)
	m.mu.Unlock()
	m.tasks.Tell()
}

// Follow looks until Rest; a second call changes nothing.
func (m *Updates) Follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		return
	}
	looking, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.tasks.Stay(func(ctx context.Context) {
		defer cancel()
		tick := time.NewTicker(updateEvery)
		defer tick.Stop()
		for {
			m.look(ctx)
			select {
			case <-ctx.Done():
				return
			case <-looking.Done():
				return
			case <-tick.C:
			}
		}
	})
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
		err := error(protocol.Errorf(protocol.CodeUnavailable, "the engine does not run"))
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
