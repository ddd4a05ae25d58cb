// Package hardware says what this computer is, for people: processor, memory,
// disk, system, power and network, as localapi.Hardware. The desktop engine
// imports it; it starts nothing and makes no connection. GPUs come from a stage
// (engine/stage.About), the speed from engine/probe/speed.
package hardware

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/disk"

	"neuron/engine/host/network"
	"neuron/engine/host/power"
	"neuron/engine/host/source"
	"neuron/engine/localapi"
	"neuron/engine/probe"
	"neuron/engine/protocol"
)

// Options say where to look.
type Options struct {
	// Data is a folder on the disk that matters; it need not be there yet.
	Data string
	// Battery, Network and Metered are those of engine/host; nil is not known.
	Battery source.Source[power.State]
	Network source.Source[string]
	Metered source.Source[bool]
}

// limit bounds the answer of each source.
const limit = 3 * time.Second

// Read looks at the computer, which takes milliseconds on Linux and up to some
// seconds on Windows. GPUs, Speed, Measured and Text are left to the caller; see
// Text. What a system does not tell is 0, "" or "unknown". The error is internal:
// the system tells neither its processors nor its memory.
func Read(ctx context.Context, o Options) (*localapi.Hardware, error) {
	host, err := probe.Read()
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "probe this computer: %w", err)
	}
	h := &localapi.Hardware{
		CPU: plainCPU(host.CPU), Threads: host.Cores, Memory: host.MemoryBytes, Features: features(), GPUs: []localapi.GPU{},
		System: system(ctx), Network: network.Unknown,
	}
	if n, err := cpu.CountsWithContext(ctx, false); err == nil && n > 0 && n <= h.Threads {
		h.Cores = n
	}
	if u, err := disk.UsageWithContext(ctx, existing(o.Data)); err == nil {
		h.Disk, h.DiskFree = int64(u.Total), int64(u.Free)
	}
	if s, ok := ask(ctx, o.Battery); ok && s.Battery {
		h.Battery = &localapi.Battery{Percent: max(0, s.Percent), Charging: s.Charging, OnPower: !s.OnBattery}
	}
	if kind, ok := ask(ctx, o.Network); ok {
		h.Network = kind
	}
	if metered, ok := ask(ctx, o.Metered); ok && metered && h.Network != network.None {
		h.Network = "metered"
	}
	return h, nil
}

// ask has a source answer in time; ok is false when it does not.
func ask[T any](ctx context.Context, s source.Source[T]) (v T, ok bool) {
	if s == nil {
		return v, false
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := s.Read(ctx)
	return v, err == nil
}

// existing is the folder, or the nearest above it that is there.
func existing(folder string) string {
	for {
		if _, err := os.Stat(folder); err == nil {
			return folder
		}
		up := filepath.Dir(folder)
		if up == folder {
			return folder
		}
		folder = up
	}
}

// plainCPU makes "Intel Core i7-8550U" of "Intel(R) Core(TM) i7-8550U CPU @
// 1.80GHz".
func plainCPU(model string) string {
	model, _, _ = strings.Cut(model, "@")
	model = strings.NewReplacer("(R)", "", "(r)", "", "(TM)", "", "(tm)", "").Replace(model)
	words := strings.Fields(model)
	out := words[:0]
	for i, w := range words {
		if w == "CPU" || w == "Processor" && i == len(words)-1 {
			continue
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
