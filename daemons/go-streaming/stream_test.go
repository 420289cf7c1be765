package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// handNarrow hands over a client whose socket buffer is as small as the kernel allows. The socket is a
// blocking one, which is the default.
func (s *subject) handNarrow() *os.File {
	ours, theirs := newClient(s.t)
	must(s.t, unix.SetsockoptInt(theirs, unix.SOL_SOCKET, unix.SO_SNDBUF, 0))
	sender := s.connect()
	pass(s.t, sender, payload, theirs)
	closeAll(sender, theirs)
	return ours
}

// fast configures enough events to fill the smallest socket buffer many times.
func fast(c *config) {
	c.messageCount = 2_000
	c.messageDelay = time.Nanosecond
}

func TestAClientThatDisconnectsIsCountedAndItsSlotBecomesFree(t *testing.T) {
	d := start(t, func(c *config) { c.messageDelay = 20 * time.Millisecond })
	client := d.hand(payload)
	readSome(t, client, 200)
	client.Close()
	d.expect(streamErrors(reasonDisconnected, 1), "daemon_active_streams 0", "daemon_active_connections 0")
	if s := d.stop(); s.started != 1 || s.completed != 0 || s.failed != 1 {
		t.Errorf("%v", s)
	}
}

func TestClientsThatNeverReadTimeOutWithoutDelayingOthers(t *testing.T) {
	d := start(t, func(c *config) { fast(c); c.writeTimeout = 300 * time.Millisecond })
	for range 50 {
		d.handNarrow()
	}
	for range 20 {
		if answer := d.answerTo(payload); !strings.HasSuffix(answer, done) {
			t.Errorf("%q", answer)
		}
	}
	d.expect(streamErrors(reasonTimeout, 50), "daemon_active_streams 0")
	if s := d.stop(); s.completed != 20 {
		t.Errorf("%v", s)
	}
}

func TestASlowReaderGetsEveryByte(t *testing.T) {
	d := start(t, fast)
	expected := d.answerTo(payload)
	client := d.handNarrow()
	must(t, client.SetReadDeadline(time.Now().Add(testTimeout)))
	var all strings.Builder
	buffer := make([]byte, 777)
	for n, err := client.Read(buffer); err == nil; n, err = client.Read(buffer) {
		all.Write(buffer[:n])
	}
	if all.String() != expected {
		t.Errorf("%d bytes of %d", all.Len(), len(expected))
	}
	if s := d.stop(); s.bytes != 2*int64(len(expected)) || s.completed != 2 {
		t.Errorf("%v", s)
	}
}

func TestAClientThatDisconnectsDuringABlockedWriteIsCounted(t *testing.T) {
	d := start(t, fast)
	client := d.handNarrow()
	waitUntil(t, "a blocked client", func() bool {
		d.waiter.mutex.Lock()
		defer d.waiter.mutex.Unlock()
		return len(d.waiter.waiting) == 1
	})
	client.Close()
	d.expect(streamErrors(reasonDisconnected, 1))
}

func TestAboveTheLimitClientsAreAnswered503UntilASlotIsFree(t *testing.T) {
	d := start(t, func(c *config) { c.maxConnections = 2; c.messageDelay = 20 * time.Millisecond })
	held := []*os.File{d.hand(payload), d.hand(payload)}
	for _, client := range held {
		readSome(t, client, len(head))
	}
	for range 2 {
		const expected = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n" +
			"Content-Length: 0\r\n\r\n"
		if answer := d.answerTo(payload); answer != expected {
			t.Errorf("%q", answer)
		}
	}
	d.expect("daemon_connections_rejected_total 2", "daemon_handoffs_total 4")
	for _, client := range held {
		if rest := readAll(t, client); len(rest) != 1226-len(head) {
			t.Errorf("%q", rest)
		}
	}
	if answer := d.answerTo(payload); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
	if s := d.stop(); s.peakConcurrent != 2 || s.started != 3 || s.completed != 3 {
		t.Errorf("%v", s)
	}
}

func TestHandoffsInTheAcceptQueueAtShutdownAreServed(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, kind)
		var clients []*os.File
		for range 500 {
			clients = append(clients, d.hand(payload))
		}
		if s := d.stop(); s.started != 500 || s.completed != 500 {
			t.Errorf("%v", s)
		}
		for _, client := range clients {
			if answer := readAll(t, client); len(answer) != 1226 {
				t.Fatalf("%q", answer)
			}
		}
	})
}

func TestStreamsOpenAfterTheGracePeriodAreClosedAndCounted(t *testing.T) {
	d := start(t, func(c *config) { c.messageDelay = time.Hour; c.shutdownGrace = 50 * time.Millisecond })
	var clients []*os.File
	for range 10 {
		clients = append(clients, d.hand(payload))
	}
	silent := d.connect()
	defer closeAll(silent)
	if s := d.stop(); s.started != 10 || s.completed != 0 || s.failed != 10 {
		t.Errorf("%v", s)
	}
	for _, client := range clients {
		// The head, the first event, and then the end.
		if answer := readAll(t, client); strings.Count(answer, `"content"`) != 1 {
			t.Errorf("%q", answer)
		}
	}
	if open := d.metrics.activeConnections.Load(); open != 0 {
		t.Errorf("%d connections are still open", open)
	}
}

func TestAStreamThatNeverWaitsEndsWithTheDaemon(t *testing.T) {
	d := start(t, unchanged)
	late := &stream{started: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	must(t, late.pause(ctx, d.daemon, 0))
	cancel()
	if err := late.pause(ctx, d.daemon, 0); !errors.Is(err, reasonCanceled) {
		t.Error(err)
	}
}

func TestTheNumberOfStreamsNeverExceedsTheCapacity(t *testing.T) {
	m := newMetrics()
	if !m.tryStartStream(1) {
		t.Fatal("there is no free slot")
	}
	var most atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200_000 {
				if m.tryStartStream(1) {
					most.Store(2)
				}
				if active := m.activeStreams.Load(); active > 1 {
					most.Store(active)
				}
			}
		})
	}
	group.Wait()
	if most.Load() != 0 {
		t.Errorf("%d slots are taken", most.Load())
	}
}

func TestTheSocketFileOfAFailedStartIsRemoved(t *testing.T) {
	path := newSocketPath(t)
	c := &config{socketPath: path, isSeqpacket: true, socketMode: 0o660, backlog: 5}
	socket, err := newSocket(c.kind())
	must(t, err)
	l := &listener{path: path}
	l.files[0] = os.NewFile(uintptr(socket), path)
	l.made, err = bind(socket, c)
	must(t, err)
	l.close()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the file still exists")
	}
}

func TestThePageHasEverySeriesFromTheStart(t *testing.T) {
	d := start(t, unchanged)
	lines := []string{
		"daemon_active_connections 0", "daemon_active_streams 0", "daemon_peak_streams 0",
		"daemon_connections_total 0", "daemon_connections_rejected_total 0", "daemon_handoffs_total 0",
		"daemon_bytes_sent_total 0", "daemon_chunks_sent_total 0",
		`daemon_backend_requests_total{backend="mock"} 0`, `daemon_backend_errors_total{backend="mock"} 0`,
		"daemon_handoff_duration_seconds_count 0", "daemon_stream_duration_seconds_count 0",
		`daemon_backend_duration_seconds_count{backend="mock"} 0`, `daemon_backend_ttfb_seconds_count{backend="mock"} 0`,
	}
	for _, r := range handoffReasons {
		lines = append(lines, handoffErrors(r, 0))
	}
	for _, r := range streamReasons {
		lines = append(lines, streamErrors(r, 0))
	}
	page := d.page()
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("%s is not in\n%s", line, page)
		}
	}
	if count := strings.Count(page, "# TYPE "); count != 16 {
		t.Errorf("%d metrics", count)
	}
}

func TestThePageIncludesEachStreamWhoseEndTheClientHasSeen(t *testing.T) {
	d := start(t, unchanged)
	d.answerTo(payload)
	page := d.page()
	for _, line := range []string{
		"daemon_active_connections 0", "daemon_active_streams 0", "daemon_peak_streams 1",
		"daemon_bytes_sent_total 1226", "daemon_chunks_sent_total 18",
		"daemon_stream_duration_seconds_count 1", `daemon_stream_duration_seconds_bucket{le="0.01"} 0`,
		`daemon_backend_ttfb_seconds_count{backend="mock"} 1`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("%s is not in\n%s", line, page)
		}
	}
}

func TestOtherPathsAndMethodsAreAnsweredWith404And405(t *testing.T) {
	d := start(t, func(c *config) { c.pprofAddr = "127.0.0.1:0" })
	for _, c := range []struct {
		method, url string
		status      int
	}{
		{"GET", d.pages[0].address() + "/healthz", 200},
		{"GET", d.pages[0].address() + "/", 404},
		{"GET", d.pages[0].address() + "/debug/pprof/", 404},
		{"POST", d.pages[0].address() + "/metrics", 405},
		{"GET", d.pages[1].address() + "/debug/pprof/", 200},
		{"GET", d.pages[1].address() + "/metrics", 404},
	} {
		request, err := http.NewRequest(c.method, "http://"+c.url, nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s %s: %d", c.method, c.url, response.StatusCode)
		}
	}
}

func TestAFloodOfWarningsIsLimitedAndTheSuppressedLinesAreCounted(t *testing.T) {
	l, admitted := newLimitedLog(), 0
	for range 100 {
		if _, is := l.admit(7); is {
			admitted++
		}
	}
	suppressed, _ := l.admit(8)
	if admitted != linesPerSecond || suppressed != 100-linesPerSecond {
		t.Errorf("%d admitted, %d suppressed", admitted, suppressed)
	}
}
