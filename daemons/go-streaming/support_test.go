package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const payload = `{"prompt":"benchmark test","user_id":1}`

// testTimeout is the limit after which a failing test ends. It is generous.
const testTimeout = 20 * time.Second

// A subject is a daemon that runs in the test process.
type subject struct {
	t *testing.T
	*daemon
	shutdown context.CancelFunc
	stopped  chan struct{}
}

// start runs a daemon with fast events, and stops it at the end of the test.
func start(t *testing.T, change func(*config)) *subject {
	t.Helper()
	o, err := parseOptions(nil, func(string) (string, bool) { return "", false }, io.Discard)
	must(t, err)
	c := o.config
	c.socketPath = filepath.Join(t.TempDir(), "handoff.sock")
	c.metricsAddr = "127.0.0.1:0"
	c.messageDelay = time.Millisecond
	change(&c)
	d, err := newDaemon(c)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	shutdown, startShutdown := context.WithCancel(ctx)
	s := &subject{t, d, startShutdown, make(chan struct{})}
	go func() {
		defer close(s.stopped)
		d.run(ctx, shutdown.Done())
	}()
	t.Cleanup(func() {
		cancel()
		<-s.stopped
	})
	return s
}

func unchanged(*config) {}

// stop shuts the daemon down and returns its counts.
func (s *subject) stop() summary {
	s.shutdown()
	select {
	case <-s.stopped:
	case <-time.After(testTimeout):
		s.t.Fatal("the daemon does not stop")
	}
	return s.metrics.summary()
}

func (s *subject) connect() int { return connect(s.t, s.config.socketPath, s.config.kind()) }

// hand hands a client over and returns the other end of its socket.
func (s *subject) hand(payload string) *os.File {
	s.t.Helper()
	return handOver(s.t, s.config.socketPath, s.config.kind(), payload)
}

// answerTo hands a client over and returns its whole answer.
func (s *subject) answerTo(payload string) string {
	s.t.Helper()
	return readAll(s.t, s.hand(payload))
}

func (s *subject) page() string {
	s.t.Helper()
	response, err := http.Get("http://" + s.pages[0].address() + "/metrics")
	must(s.t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	must(s.t, err)
	return string(page)
}

// expect waits until all lines are on the metrics page.
func (s *subject) expect(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		waitUntil(s.t, line, func() bool { return strings.Contains(s.page(), "\n"+line+"\n") })
	}
}

func handoffErrors(r reason, count int) string {
	return fmt.Sprintf("daemon_handoff_errors_total{reason=%q} %d", string(r), count)
}

func streamErrors(r reason, count int) string {
	return fmt.Sprintf("daemon_stream_errors_total{reason=%q} %d", string(r), count)
}

func connect(t *testing.T, path string, kind int) int {
	t.Helper()
	socket, err := tryConnect(path, kind)
	must(t, err)
	return socket
}

func tryConnect(path string, kind int) (int, error) {
	socket, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(socket, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(socket)
		return 0, err
	}
	return socket, nil
}

// newClient returns our end of a socket, and the end to hand over.
func newClient(t *testing.T) (*os.File, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetNonblock(pair[0], true)) // so that reading can have a deadline
	ours := os.NewFile(uintptr(pair[0]), "client")
	t.Cleanup(func() { ours.Close() })
	return ours, pair[1]
}

func pass(t *testing.T, sender int, payload string, descriptors ...int) {
	t.Helper()
	var control []byte
	if len(descriptors) > 0 {
		control = unix.UnixRights(descriptors...)
	}
	must(t, unix.Sendmsg(sender, []byte(payload), control, nil, unix.MSG_NOSIGNAL))
}

func handOver(t *testing.T, path string, kind int, payload string) *os.File {
	t.Helper()
	ours, theirs := newClient(t)
	defer unix.Close(theirs)
	sender := connect(t, path, kind)
	defer unix.Close(sender)
	pass(t, sender, payload, theirs)
	return ours
}

func readAll(t *testing.T, client *os.File) string {
	t.Helper()
	must(t, client.SetReadDeadline(time.Now().Add(testTimeout)))
	all, err := io.ReadAll(client)
	must(t, err)
	return string(all)
}

func readSome(t *testing.T, client *os.File, count int) {
	t.Helper()
	must(t, client.SetReadDeadline(time.Now().Add(testTimeout)))
	_, err := io.ReadFull(client, make([]byte, count))
	must(t, err)
}

// expectHungUp waits until the daemon closes the handoff connection, and checks that it has not written
// to it.
func expectHungUp(t *testing.T, sender int) {
	t.Helper()
	limit := unix.NsecToTimeval(testTimeout.Nanoseconds())
	must(t, unix.SetsockoptTimeval(sender, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	n, err := unix.Read(sender, make([]byte, 1))
	if n > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the handoff connection is still open: %d bytes, %v", n, err)
	}
}

func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onBothTypes runs a test on each type of handoff socket.
func onBothTypes(t *testing.T, test func(t *testing.T, kind func(*config))) {
	for name, isSeqpacket := range map[string]bool{"seqpacket": true, "stream": false} {
		t.Run(name, func(t *testing.T) {
			test(t, func(c *config) { c.isSeqpacket = isSeqpacket })
		})
	}
}

// payloadOf returns a payload of the given length in bytes.
func payloadOf(length int) string {
	const start, end = `{"user_id":1,"prompt":"`, `"}`
	return start + string(bytes.Repeat([]byte("p"), length-len(start)-len(end))) + end
}
