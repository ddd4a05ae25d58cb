package desktop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"neuron/engine/host/power"
	told "neuron/engine/host/source"
	"neuron/engine/localapi"
	computer "neuron/engine/probe/hardware"
	"neuron/engine/probe/speed"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/stage/gpu"
	"neuron/engine/stage/wire"
)

// hardware knows what this computer is. It looks when it is first asked, when it
// is told to, and after the computer has slept.
type hardware struct {
	e    *Engine
	wake chan struct{}

	mu    sync.Mutex // held while looking
	last  *localapi.Hardware
	llama string // version of the library, "" while it is not known
}

func newHardware(e *Engine) *hardware { return &hardware{e: e, wake: make(chan struct{}, 1)} }

// again has it looked soon, where somebody has asked before.
func (h *hardware) again() { wake(h.wake) }

func (h *hardware) run(ctx context.Context) {
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		known := h.last != nil
		h.mu.Unlock()
		if !known {
			continue
		}
		if _, err := h.look(ctx, false, true); err != nil && ctx.Err() == nil {
			h.e.log.Warn("The computer could not be looked at after it slept", "error", err)
		}
		h.e.changed()
	}
}

// get is what is known, or found out now.
func (h *hardware) get(ctx context.Context) (*localapi.Hardware, error) {
	return h.look(ctx, false, false)
}

// probe finds out anew, and measures the speed of a stage.
func (h *hardware) probe(ctx context.Context) (*localapi.Hardware, error) {
	return h.look(ctx, true, true)
}

// probeTime bounds a look, with its processes.
const probeTime = time.Minute

// look answers with a copy; what it points to is never changed.
func (h *hardware) look(ctx context.Context, measure, again bool) (*localapi.Hardware, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && !again {
		out := *h.last
		return &out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	if h.last != nil {
		out.Speed = h.last.Speed
	}
	if measure && h.e.o.Guide != "" {
		if out.Speed, err = h.speed(ctx, out.Threads); err != nil {
			return nil, err
		}
	}
	out.Text, out.Measured = computer.Text(out), h.e.o.Now()
	h.last = out
	result := *out
	return &result, nil
}

// library is the version of libllama, as it was seen last.
func (h *hardware) library() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.llama
}

// read looks without measuring; the caller holds mu.
func (h *hardware) read(ctx context.Context) (*localapi.Hardware, error) {
	o := computer.Options{Data: h.e.o.Data}
	if s, ok := h.e.o.System.(interface {
		Battery() told.Source[power.State]
		Network() told.Source[string]
	}); ok {
		o.Battery, o.Network = s.Battery(), s.Network()
	}
	h.e.system.Lock() // a source is asked by one at a time
	out, err := computer.Read(ctx, o)
	h.e.system.Unlock()
	if err != nil {
		return nil, err
	}
	sp, err := h.spawn()
	if err != nil {
		return nil, err
	}
	about, err := stage.About(ctx, sp, h.e.o.NativeDir)
	if err != nil {
		// Without the library there are no stages either; the health entries say it.
		h.e.log.Warn("The devices of this computer are not known", "error", err)
		return out, nil
	}
	h.llama = about.Llama
	out.Library = about.Backends
	for i, name := range gpu.Names(about.Devices) {
		if name != "" {
			out.GPUs = append(out.GPUs, gpuOf(name, about.Devices[i]))
		}
	}
	return out, nil
}

func (h *hardware) spawn() (stage.Spawn, error) {
	exe := h.e.o.Exe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return stage.Spawn{}, protocol.Errorf(protocol.CodeInternal, "find this program: %w", err)
		}
	}
	return stage.Spawn{Exe: exe, Args: []string{"stage"}, Logger: h.e.o.Log("stage")}, nil
}

// speed runs the bundled model in a stage of its own, with as many threads and on
// the devices that the user allows.
func (h *hardware) speed(ctx context.Context, threads int) (*localapi.Speed, error) {
	sp, err := h.spawn()
	if err != nil {
		return nil, err
	}
	limits := h.e.settings.Get().Limits
	if limits.Threads > 0 {
		threads = min(threads, limits.Threads)
	}
	return speed.Measure(ctx, speed.Options{
		Spawn: sp, NativeDir: h.e.o.NativeDir, Model: h.e.o.Guide, Cache: filepath.Join(h.e.o.Data, NodeFolder), Threads: threads, GPUs: limits.GPUs,
	})
}

// gpuOf reads a device as a stage tells it. One without memory of its own, or
// that cannot say how much, holds no layers.
func gpuOf(name string, d wire.Device) localapi.GPU {
	g := localapi.GPU{Name: name, Kind: strings.TrimRight(d.Name, "0123456789"), Memory: d.Total, Free: d.Free, Usable: d.Total > 0}
	if g.Kind == "MTL" {
		g.Kind = "Metal"
	}
	return g
}
