package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/audit/numeric/desk"
)

// openAudits begins to sample sessions; with a share of 0 it never does.
func (c *core) openAudits() {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_audits_total", Help: "Numeric audits that have ended, by result: done, or the code of the failure."}, []string{"result"})
	distance := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "neuron_tracker_audit_distance", Help: "Median relative distance of the rows of a numeric audit, by basis.",
		Buckets: []float64{1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, .1, .3, 1, 10}}, []string{"basis"})
	d := desk.New(desk.Options{
		Rules: c.o.Audits, Key: c.key, Store: c.store, Now: c.o.Now, Logger: c.o.Logger, Lock: &c.mu,
		Send: func(to protocol.NodeID, role protocol.Role, kind protocol.MessageKind, body any) bool {
			p := c.peers[peerKey{to, role}]
			if p != nil {
				c.sendLocked(p, kind, body)
			}
			return p != nil
		},
		Nodes: c.auditorsLocked, Owner: c.ownerOfNode,
		Ended: func(r *numeric.Record) {
			if r.Error != nil {
				ended.WithLabelValues(string(r.Error.Code)).Inc()
				return
			}
			ended.WithLabelValues("done").Inc()
			distance.WithLabelValues(string(r.Measures.Basis)).Observe(r.Measures.Median)
		},
		Wake: func() {
			select {
			case c.kick <- struct{}{}:
			default:
			}
		},
	})
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "neuron_tracker_audits_open", Help: "Sampled sessions whose numeric audit has not ended."}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(d.OpenLocked())
	})
	c.metrics.registry.MustRegister(ended, distance, open)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audits = d
}

// auditorsLocked lists the holders of a model.
func (c *core) auditorsLocked(now time.Time, id protocol.ModelID) []numeric.Candidate {
	var out []numeric.Candidate
	for _, h := range c.reg.Holders(now, id) {
		x := h.Capability
		out = append(out, numeric.Candidate{
			Node: h.Node, Addr: h.Addr, Owner: c.ownerOfNode(h.Node), Loaded: x.Loaded, Exits: x.Exits, Head: x.Head, Build: x.Build, Idle: h.Idle,
			Class: auditmsg.AuditClass{Threads: x.Threads, CPU: x.CPUVariant, Llama: x.Build.Llama, Engine: h.Engine},
		})
	}
	return out
}

func (c *core) ownerOfNode(id protocol.NodeID) string {
	owner, _ := c.ownerOf.Load(id)
	s, _ := owner.(string)
	return s
}

// onAudit takes audit_ready and audit_result.
func (c *core) onAudit(p peer, e *protocol.Envelope) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return err
	}
	if c.audits == nil {
		return protocol.Errorf(protocol.CodeNotFound, "no audit is open")
	}
	if e.Kind == auditmsg.MsgAuditReady {
		m, err := protocol.Unpack[auditmsg.AuditReady](e)
		if err != nil {
			return err
		}
		return c.audits.ReadyLocked(protocol.Peer{Node: p.Node(), Addr: p.Hello().Addr}, m)
	}
	m, err := protocol.Unpack[auditmsg.AuditResult](e)
	if err != nil {
		return err
	}
	return c.audits.ResultLocked(p.Node(), m)
}

// NumericAudits is desk.Page, for the operator's pages and for tests.
func (s *Server) NumericAudits(ctx context.Context, before time.Time, limit int) (*desk.Page, error) {
	return s.core.audits.Page(ctx, before, limit)
}
