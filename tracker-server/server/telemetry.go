package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/telemetry"
	"neuron/tracker-server/telemetry/feed"
	"neuron/tracker-server/telemetry/history"
)

// TelemetryFile is the file of the data folder with the history of sessions. It
// may be deleted while the tracker is not running.
const TelemetryFile = "telemetry.db"

const (
	maxTelemetryDays = 3650
	// readWithin bounds a query of the history.
	readWithin = 10 * time.Second
)

// openTelemetry makes the recorder and the feed; file is where history is kept.
// Nothing is opened before Run.
func (c *core) openTelemetry(file string) {
	c.feed = feed.New(feed.Options{})
	o := telemetry.Options{
		Keep: time.Duration(c.o.TelemetryDays) * 24 * time.Hour, Sink: c.feed, Now: c.o.Now, Logger: c.o.Logger, Nodes: c.readyNodes,
	}
	if c.o.TelemetryDays > 0 {
		o.Open = func(ctx context.Context) (telemetry.Store, error) {
			f, err := history.Open(ctx, file, c.o.Logger)
			if err != nil {
				return nil, err // not f: a nil file in an interface is not nil
			}
			return f, nil
		}
	}
	c.recorder = telemetry.New(o)
	c.telemetryMetrics()
}

func (c *core) telemetryMetrics() {
	counter := func(name, help string, f func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(f()) })
	}
	c.metrics.registry.MustRegister(
		counter("neuron_tracker_tokens_total", "Tokens generated, as drivers report them.", func() int64 { return c.recorder.Totals().Tokens }),
		counter("neuron_tracker_prefill_tokens_total", "Prompt tokens read, as drivers report them.", func() int64 { return c.recorder.Totals().Prefill }),
		counter("neuron_tracker_telemetry_dropped_total", "Snapshots of sessions that found the queue full, or no disk.", func() int64 { return c.recorder.Totals().Dropped }),
		counter("neuron_tracker_telemetry_lost_total", "Snapshots that subscribers were too slow for.", c.feed.Lost),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "neuron_tracker_telemetry_subscribers", Help: "Open websockets of subscribers to telemetry."},
			func() float64 { return float64(c.feed.Subscribers()) }),
	)
}

func (c *core) readyNodes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reg.Counts(c.o.Now())[registry.StateReady]
}

// record hands a session's state to the recorder. It never waits, so it may be
// called under the lock. A core that never runs (in tests) has no recorder.
func (c *core) record(s *sessions.Session) {
	if c.recorder == nil {
		return
	}
	t := &telemetry.Snapshot{
		Session: s.Lease.Session, Model: s.Lease.Model, Name: s.Name, Private: s.Lease.Policy == protocol.PolicyPrivate,
		At: s.Updated, Phase: s.Phase, Context: s.Lease.Context,
	}
	t.From(&s.Telemetry)
	if s.End != nil {
		t.End = telemetry.EndOf(s.End.Finish, s.End.Error)
	}
	c.recorder.Snapshot(t)
}

// History implements web.Source. What the tracker knows of the end goes before
// what the history says, where snapshots may be missing.
func (c *core) History(ctx context.Context, id protocol.SessionID) (*telemetry.History, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	s, err := c.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	h, err := c.recorder.History(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.End != nil {
		h.End = telemetry.EndOf(s.End.Finish, s.End.Error)
	}
	return h, nil
}

// Figures implements web.Source.
func (c *core) Figures(ctx context.Context, since time.Time, step time.Duration) ([]telemetry.Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return c.recorder.Figures(ctx, since, step)
}

// Troubles implements web.Source: what is wrong with the tracker itself.
func (c *core) Troubles() []*protocol.Error {
	var out []*protocol.Error
	if err := c.recorder.Failed(); err != nil {
		code := protocol.AsError(err).Code
		if code == protocol.CodeInternal {
			code = protocol.CodeDataFolder
		}
		out = append(out, protocol.Errorf(code, "the tracker cannot keep the history of sessions now; nothing else depends on it"))
	}
	c.mu.Lock()
	waiting := len(c.dirty)
	c.mu.Unlock()
	if waiting > tooManyUnwritten {
		out = append(out, protocol.Errorf(protocol.CodeUnavailable, "the tracker's database is slow: %d sessions wait to be written", waiting))
	}
	return out
}

// tooManyUnwritten is a number of sessions that a healthy disk never leaves.
const tooManyUnwritten = 1000

func (c *core) noteOwner(id protocol.NodeID, owner string) {
	if owner == "" {
		c.ownerOf.Delete(id)
		return
	}
	c.ownerOf.Store(id, owner)
}

// OwnerOf implements web.Source.
func (c *core) OwnerOf(id protocol.NodeID) string {
	owner, _ := c.ownerOf.Load(id)
	text, _ := owner.(string)
	return text
}
