package soak

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"neuron/internal/chaos"
)

// figures of one process.
type figures struct {
	name       string
	pid        int
	goroutines int // 0: not told
	files      int
	memory     int64 // resident, bytes
}

// Tolerances. Kept connections come and go: at most four to each of a handful
// of peers, each with up to three goroutines and one descriptor. The heap of a
// Go program breathes between two collections.
const (
	moreGoroutines = 16
	moreFiles      = 10
	moreMemory     = 32 << 20
)

// grown says what is more than the tolerance over the first measurement.
func (f figures) grown(first figures) []string {
	var out []string
	if f.goroutines > first.goroutines+moreGoroutines {
		out = append(out, fmt.Sprintf("%s: goroutines %d to %d", f.name, first.goroutines, f.goroutines))
	}
	if f.files > first.files+moreFiles {
		out = append(out, fmt.Sprintf("%s: open files %d to %d", f.name, first.files, f.files))
	}
	if f.memory > first.memory+moreMemory {
		out = append(out, fmt.Sprintf("%s: memory %d to %d MB", f.name, first.memory>>20, f.memory>>20))
	}
	return out
}

// measure reads all processes of the network.
func (n *network) measure(ctx context.Context) (map[int]figures, error) {
	out := map[int]figures{}
	add := func(name string, pid, goroutines int) error {
		files, memory, err := chaos.Figures(pid)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out[pid] = figures{name, pid, goroutines, files, memory}
		return nil
	}
	for i, x := range n.current() {
		l, err := chaos.At(ctx, x.Data)
		if err != nil {
			return nil, err
		}
		if err := add(fmt.Sprintf("engine %d", i), x.Pid(), l.Status.Goroutines); err != nil {
			return nil, err
		}
		for _, pid := range l.Status.StagePIDs {
			if err := add(fmt.Sprintf("stage %d", i), pid, 0); err != nil {
				return nil, err
			}
		}
	}
	g, err := gauge(ctx, strings.TrimSuffix(n.asker.URL, "/v1")+"/metrics", n.asker.Key, "go_goroutines")
	if err != nil {
		return nil, err
	}
	t, err := gauge(ctx, n.net.TrackerURL+"/metrics", "", "go_goroutines")
	if err != nil {
		return nil, err
	}
	if err := add("gateway", n.gateway.Pid(), g); err != nil {
		return nil, err
	}
	return out, add("tracker", n.net.Tracker.Pid(), t)
}

// gauge reads one figure of a Prometheus page; 0 when it is not there.
func gauge(ctx context.Context, url, key, name string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Close = true
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return int(f), err
		}
	}
	return 0, nil
}
