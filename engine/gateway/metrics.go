package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"neuron/engine/gateway/admit"
)

// metrics are this gateway's own, in a registry of their own. Labels are from
// fixed sets: patterns of routes, statuses and codes, never a client's text.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	generations *prometheus.CounterVec
	tokens      *prometheus.CounterVec
	firstToken  prometheus.Histogram
}

func newMetrics(q *admit.Queue) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "neuron_gateway_requests_total",
			Help: "HTTP requests by route and status."}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "neuron_gateway_request_seconds",
			Help: "Time from request to end of answer.", Buckets: prometheus.ExponentialBuckets(0.005, 3, 12)}, []string{"route"}),
		generations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "neuron_gateway_generations_total",
			Help: "Answered completion requests by result code."}, []string{"code"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "neuron_gateway_tokens_total",
			Help: "Tokens by kind: prompt or completion."}, []string{"kind"}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "neuron_gateway_first_token_seconds",
			Help: "Time from the request to an answer's first token.", Buckets: prometheus.ExponentialBuckets(0.02, 2, 14)}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.generations, m.tokens, m.firstToken,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "neuron_gateway_running", Help: "Completion requests that run."}, func() float64 {
			running, _ := q.Counts()
			return float64(running)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "neuron_gateway_waiting", Help: "Completion requests that wait for their turn."}, func() float64 {
			_, waiting := q.Counts()
			return float64(waiting)
		}))
	return m
}
