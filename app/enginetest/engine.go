// Package enginetest is an engine for tests of the window: made-up state behind
// the real local API, so that models and pages talk to it as they do to a real
// one. Tests alone import it.
package enginetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// Now is when everything that an engine tells has happened, and what the clocks of
// its pages say: what they show does not depend on the hour of the test.
var Now = time.Date(2026, time.November, 30, 15, 4, 0, 0, time.Local)

// Engine is the made-up engine of a data folder.
type Engine struct {
	Data string

	mu    sync.Mutex
	state State // guarded by mu
	srv   *localapi.Server
}

// Start starts an engine that is set up and shares, in a folder of the test's.
func Start(t testing.TB) *Engine {
	t.Helper()
	e := &Engine{Data: t.TempDir()}
	e.state = State{
		Status: localapi.Status{
			Version: "0.1.0", Llama: "0.4.0", Role: "desktop", PID: 4711, Started: Now.Add(-90 * time.Minute), Sharing: true,
			Node: "n4k2vq6m7yb3jw5xh2fd", Tracker: localapi.Tracker{URL: "https://neuron.example", Connected: true, State: "connected"},
			Policy: &localapi.Sharing{State: protocol.SharingOn, Text: protocol.SharingReason("").Sentence()}, Work: &localapi.Work{},
			Memory: localapi.Memory{Total: 16 << 30, Engine: 3 << 29, DiskFree: 214e9}, StagePIDs: []int{4720}, Gateway: "http://127.0.0.1:8555/v1",
		},
		Settings: policy.Defaults(),
		Hardware: localapi.Hardware{
			CPU: "AMD Ryzen 7 7840U", Cores: 8, Threads: 16, Memory: 16 << 30, Disk: 512e9, DiskFree: 214e9, System: "Debian 12",
			GPUs:  []localapi.GPU{{Name: "AMD Radeon 780M", Kind: "Vulkan", Memory: 4 << 30, Usable: true}, {Name: "Old Card", Kind: "Vulkan", Memory: 1 << 30}},
			Speed: &localapi.Speed{TokensPerSecond: 212}, Text: "Eight cores and 16 GB of memory.",
		},
		Report: "Neuron 0.1.0\n",
	}
	e.state.Settings.SetUp = true
	e.Up(t)
	t.Cleanup(e.Down)
	return e
}

// Up starts the local API again after Down.
func (e *Engine) Up(t testing.TB) {
	t.Helper()
	srv, err := localapi.Start(localapi.Options{Dir: e.Data, Source: source{e}, Owner: desk{e}, Desktop: desktop{e}, Updates: updates{e}, EventEvery: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e.srv = srv
}

// Down ends the engine in order.
func (e *Engine) Down() {
	if e.srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	e.srv.Close(ctx)
	e.srv = nil
}

// With changes the state and tells whoever follows.
func (e *Engine) With(f func(*State)) {
	e.mu.Lock()
	f(&e.state)
	e.mu.Unlock()
	if e.srv != nil {
		e.srv.Changed()
	}
}

// Look gives a part of the state.
func Look[T any](e *Engine, f func(*State) T) T {
	e.mu.Lock()
	defer e.mu.Unlock()
	return f(&e.state)
}

// Told says whether a method was called.
func (e *Engine) Told(name string) bool {
	return Look(e, func(s *State) bool { return slices.Contains(s.Told, name) })
}

// note keeps that a method was called, and gives what it ends with.
func (e *Engine) note(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Told = append(e.state.Told, name)
	return e.state.Err
}

// answer gives a copy of a part of the state, or the state's error.
func answer[T any](e *Engine, f func(*State) T) (*T, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.Err != nil {
		return nil, e.state.Err
	}
	v := f(&e.state)
	return &v, nil
}
