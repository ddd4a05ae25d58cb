package server

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// metrics are the tracker's figures for Prometheus. Labels come from closed
// lists, apart from models, whose number is bounded.
type metrics struct {
	registry  *prometheus.Registry
	messages  *prometheus.CounterVec
	routeTime *prometheus.HistogramVec
	leaseTime prometheus.Histogram
	ends      *prometheus.CounterVec
	announces *prometheus.CounterVec

	core                                          *core
	nodes, sessions, coverage, out, models, swarm *prometheus.Desc
}

// maxModelLabels bounds the models that have a time series.
const maxModelLabels = 200

var knownKinds = []protocol.MessageKind{
	protocol.MsgReport, protocol.MsgRoute, protocol.MsgSession, protocol.MsgHopFailed, protocol.MsgModels, protocol.MsgPlace, protocol.MsgReceipts,
	auditmsg.MsgAuditReady, auditmsg.MsgAuditResult, protocol.MsgError,
}

func newMetrics(c *core) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "neuron_tracker_messages_total", Help: "Control messages received, by kind."}, []string{"kind"}),
		routeTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "neuron_tracker_route_seconds", Help: "Time to find, sign and promise a route, by result, without the database.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}}, []string{"result"}),
		leaseTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "neuron_tracker_lease_seconds", Help: "Time from a route request to its answer with a lease, the database included.",
			Buckets: []float64{.0025, .005, .01, .02, .03, .04, .05, .075, .1, .25, .5, 1}}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "neuron_tracker_sessions_ended_total", Help: "Ended sessions, by phase and error code."}, []string{"phase", "code"}),
		announces: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "neuron_tracker_announces_total", Help: "BitTorrent requests, by kind and result."}, []string{"kind", "result"}),
		core:     c,
		nodes:    prometheus.NewDesc("neuron_tracker_nodes", "Connected nodes, by state.", []string{"state"}, nil),
		sessions: prometheus.NewDesc("neuron_tracker_sessions", "Live sessions, by phase.", []string{"phase"}, nil),
		coverage: prometheus.NewDesc("neuron_tracker_coverage_min", "Smallest number of ready nodes over all layers of a model.", []string{"model"}, nil),
		out:      prometheus.NewDesc("neuron_tracker_unwritten_sessions", "Sessions whose newest state is not in the database yet.", nil, nil),
		models:   prometheus.NewDesc("neuron_tracker_catalog_models", "Published models.", nil, nil),
		swarm:    prometheus.NewDesc("neuron_tracker_announced_peers", "BitTorrent peers that announced themselves and are believed.", nil, nil),
	}
	m.registry.MustRegister(m.messages, m.routeTime, m.leaseTime, m.ends, m.announces, m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// diskTimes are how long the database takes.
type diskTimes struct {
	wait *prometheus.HistogramVec
	sync prometheus.Histogram
}

func newDiskTimes() *diskTimes {
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	return &diskTimes{
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "neuron_tracker_write_wait_seconds", Help: "Time that writes waited for their transaction: leases and the like, or work that can wait.",
			Buckets: buckets}, []string{"kind"}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "neuron_tracker_disk_sync_seconds", Help: "Time that the disk took for the database's log.", Buckets: buckets}),
	}
}

func (d *diskTimes) register(r prometheus.Registerer) { r.MustRegister(d.wait, d.sync) }

func (d *diskTimes) begun(later bool, waited time.Duration) {
	kind := "first"
	if later {
		kind = "later"
	}
	d.wait.WithLabelValues(kind).Observe(waited.Seconds())
}

func (d *diskTimes) synced(took time.Duration) { d.sync.Observe(took.Seconds()) }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.nodes
	ch <- m.sessions
	ch <- m.coverage
	ch <- m.out
	ch <- m.models
	ch <- m.swarm
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	now := m.core.o.Now()
	m.core.mu.Lock()
	nodes, live, models, dirty := m.core.reg.Counts(now), m.core.table.Live(), m.core.reg.Models(now), len(m.core.dirty)
	m.core.mu.Unlock()
	for state, n := range nodes {
		ch <- prometheus.MustNewConstMetric(m.nodes, prometheus.GaugeValue, float64(n), string(state))
	}
	for phase, n := range live {
		ch <- prometheus.MustNewConstMetric(m.sessions, prometheus.GaugeValue, float64(n), string(phase))
	}
	for _, info := range models[:min(len(models), maxModelLabels)] {
		ch <- prometheus.MustNewConstMetric(m.coverage, prometheus.GaugeValue, float64(slices.Min(info.Replicas)), string(info.Model))
	}
	ch <- prometheus.MustNewConstMetric(m.out, prometheus.GaugeValue, float64(dirty))
	ch <- prometheus.MustNewConstMetric(m.models, prometheus.GaugeValue, float64(len(m.core.catalog.List())))
	ch <- prometheus.MustNewConstMetric(m.swarm, prometheus.GaugeValue, float64(m.core.announced.Peers()))
}

// announced counts a request; kind is announce or scrape.
func (m *metrics) announced(kind, result string) {
	m.announces.WithLabelValues(kind, result).Inc()
}

func (m *metrics) message(k protocol.MessageKind) {
	if !slices.Contains(knownKinds, k) {
		k = "unknown"
	}
	m.messages.WithLabelValues(string(k)).Inc()
}

func (m *metrics) routed(d time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = string(protocol.AsError(err).Code)
	}
	m.routeTime.WithLabelValues(result).Observe(d.Seconds())
}

func (m *metrics) leased(d time.Duration) { m.leaseTime.Observe(d.Seconds()) }

func (m *metrics) ended(p protocol.Phase, code protocol.Code) {
	if code != "" && !code.Known() {
		code = "other"
	}
	m.ends.WithLabelValues(string(p), string(code)).Inc()
}
