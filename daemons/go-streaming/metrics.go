package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// backendName is the only backend of this daemon.
const backendName = "mock"

// buckets are the upper bounds of the buckets of all histograms, in seconds: from 10 µs to 10 min.
var buckets = []float64{
	0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
	0.05, 0.1, 0.5, 1, 2.5, 5, 10, 60, 120, 600,
}

// metrics holds the counters of the daemon. Values that --benchmark prints or that the daemon reads
// itself are plain atomics, which the page reads.
type metrics struct {
	registry *prometheus.Registry

	activeConnections, activeStreams, peakStreams atomic.Int64
	started, completed, bytesSent                 atomic.Int64

	connections, rejected, handoffs, chunks prometheus.Counter
	handoffErrors, streamErrors             *prometheus.CounterVec
	handoffDuration, streamDuration         prometheus.Histogram
	backendDuration, backendTTFB            prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.gauge("daemon_active_connections",
		"Accepted handoff connections whose client is not finished yet.", &m.activeConnections)
	m.gauge("daemon_active_streams", "Open streams.", &m.activeStreams)
	m.gauge("daemon_peak_streams", "Maximum number of streams open at once.", &m.peakStreams)

	m.connections = m.counter("daemon_connections_total", "Handoff connections accepted.")
	m.rejected = m.counter("daemon_connections_rejected_total",
		"Clients answered with 503 because the limit was reached.")
	m.handoffs = m.counter("daemon_handoffs_total", "Client sockets received.")
	m.chunks = m.counter("daemon_chunks_sent_total", "Events written to clients.")
	m.counted("daemon_bytes_sent_total", "Bytes written to clients.", nil, &m.bytesSent)
	m.handoffErrors = m.byReason("daemon_handoff_errors_total", "Handoff errors, by reason.", handoffReasons)
	m.streamErrors = m.byReason("daemon_stream_errors_total", "Streams that ended early, by reason.", streamReasons)

	backend := prometheus.Labels{"backend": backendName}
	m.counted("daemon_backend_requests_total", "Requests to the backend.", backend, &m.started)
	// The mock backend cannot fail; the metric exists so that queries for it work.
	m.counted("daemon_backend_errors_total", "Requests that the backend failed.", backend, new(atomic.Int64))

	m.handoffDuration = m.histogram("daemon_handoff_duration_seconds",
		"Time from accepting a handoff to receiving its client socket.", nil)
	m.streamDuration = m.histogram("daemon_stream_duration_seconds",
		"Time from receiving the client socket to the last byte of a complete stream.", nil)
	m.backendDuration = m.histogram("daemon_backend_duration_seconds",
		"Time from the request to the backend to its last event.", backend)
	m.backendTTFB = m.histogram("daemon_backend_ttfb_seconds",
		"Time from the request to the backend to its first event.", backend)
	return m
}

func (m *metrics) gauge(name, help string, value *atomic.Int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: name, Help: help},
		func() float64 { return float64(value.Load()) }))
}

func (m *metrics) counted(name, help string, labels prometheus.Labels, value *atomic.Int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
		func() float64 { return float64(value.Load()) }))
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(counter)
	return counter
}

// byReason makes a counter with a series for each reason, so that all are on the page from the start.
func (m *metrics) byReason(name, help string, reasons []reason) *prometheus.CounterVec {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
	for _, r := range reasons {
		vector.WithLabelValues(string(r))
	}
	m.registry.MustRegister(vector)
	return vector
}

func (m *metrics) histogram(name, help string, labels prometheus.Labels) prometheus.Histogram {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, ConstLabels: labels, Buckets: buckets,
	})
	m.registry.MustRegister(histogram)
	return histogram
}

// connectionOpened counts an accepted handoff connection.
func (m *metrics) connectionOpened() {
	m.connections.Inc()
	m.activeConnections.Add(1)
}

// handoffFailed counts a handoff connection that ended before it became a stream.
func (m *metrics) handoffFailed(r reason) {
	m.handoffAnomaly(r)
	m.activeConnections.Add(-1)
}

// handoffAnomaly counts an error of a handoff, or of accepting, that did not end a connection.
func (m *metrics) handoffAnomaly(r reason) {
	m.handoffErrors.WithLabelValues(string(r)).Inc()
}

// handoffDone counts a received client socket.
func (m *metrics) handoffDone(took time.Duration) {
	m.handoffs.Inc()
	m.handoffDuration.Observe(took.Seconds())
}

// tryStartStream counts a new stream if fewer than capacity are open; otherwise it counts a rejected
// client and returns false.
func (m *metrics) tryStartStream(capacity int64) bool {
	active, ok := m.reserve(capacity)
	if !ok {
		m.rejected.Inc()
		m.activeConnections.Add(-1)
		return false
	}
	m.started.Add(1)
	for peak := m.peakStreams.Load(); active > peak; peak = m.peakStreams.Load() {
		m.peakStreams.CompareAndSwap(peak, active)
	}
	return true
}

// reserve counts one more open stream and returns their number. The count never exceeds the capacity,
// not even for a moment while a client is turned away.
func (m *metrics) reserve(capacity int64) (active int64, ok bool) {
	for active := m.activeStreams.Load(); active < capacity; active = m.activeStreams.Load() {
		if m.activeStreams.CompareAndSwap(active, active+1) {
			return active + 1, true
		}
	}
	return 0, false
}

// wrote counts the bytes of one write to a client.
func (m *metrics) wrote(count int) {
	m.bytesSent.Add(int64(count))
}

// streamCompleted counts a complete stream.
func (m *metrics) streamCompleted(took time.Duration) {
	m.completed.Add(1)
	m.streamDuration.Observe(took.Seconds())
	m.backendDuration.Observe(took.Seconds())
	m.streamClosed()
}

// streamFailed counts a stream that ended early.
func (m *metrics) streamFailed(r reason) {
	m.streamErrors.WithLabelValues(string(r)).Inc()
	m.streamClosed()
}

func (m *metrics) streamClosed() {
	m.activeStreams.Add(-1)
	m.activeConnections.Add(-1)
}

// A summary holds the totals that --benchmark prints at the end. Streams that are still open count as
// failed.
type summary struct {
	peakConcurrent, started, completed, failed, bytes int64
}

func (m *metrics) summary() summary {
	s := summary{
		peakConcurrent: m.peakStreams.Load(),
		completed:      m.completed.Load(),
		bytes:          m.bytesSent.Load(),
		started:        m.started.Load(),
	}
	s.failed = s.started - s.completed
	return s
}

// String returns the summary, one value per line.
func (s summary) String() string {
	return fmt.Sprintf("peak concurrent: %d\nstarted: %d\ncompleted: %d\nfailed: %d\nbytes: %d\n",
		s.peakConcurrent, s.started, s.completed, s.failed, s.bytes)
}
