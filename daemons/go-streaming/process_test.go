package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var binaryFolder string

func TestMain(m *testing.M) {
	var err error
	if binaryFolder, err = os.MkdirTemp("", "go-streaming"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(binaryFolder)
	os.Exit(code)
}

// binary builds the daemon, once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryFolder, "daemon")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return path, nil
})

// A process is the daemon as a separate process, killed at the end of the test.
type process struct {
	t      *testing.T
	socket string
	*exec.Cmd
	out    bytes.Buffer
	ended  chan struct{}
	waited error
}

// launch starts the daemon through a shell that first runs the prelude, and waits until it listens.
func launch(t *testing.T, socket, prelude string, variables ...string) *process {
	t.Helper()
	path, err := binary()
	must(t, err)
	p := &process{t: t, socket: socket, ended: make(chan struct{})}
	p.Cmd = exec.Command("sh", "-c", prelude+" exec "+path+" -benchmark")
	p.Env = append([]string{"DAEMON_SOCKET_PATH=" + socket}, variables...)
	p.Stdout = &p.out
	must(t, p.Start())
	go func() {
		p.waited = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.ended
	})
	waitUntil(t, "listening", func() bool {
		probe, err := tryConnect(socket, unix.SOCK_SEQPACKET)
		if err == nil {
			closeAll(probe)
		}
		return err == nil
	})
	return p
}

func newSocketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "handoff.sock") }

func (p *process) hand() *os.File {
	p.t.Helper()
	return handOver(p.t, p.socket, unix.SOCK_SEQPACKET, payload)
}

// end waits until the process exits with code 0, and returns its output.
func (p *process) end() string {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(testTimeout):
		p.t.Fatal("the process does not end")
	}
	must(p.t, p.waited)
	return p.out.String()
}

func (p *process) isSocketGone() bool {
	_, err := os.Lstat(p.socket)
	return errors.Is(err, fs.ErrNotExist)
}

func TestSIGTERMUnderLoadLetsStreamsFinishAndRemovesTheSocket(t *testing.T) {
	d := launch(t, newSocketPath(t), "", "DAEMON_MESSAGE_DELAY=20ms")
	first := d.hand()
	readSome(t, first, 200)
	clients := []*os.File{}
	var refused error
	for refused == nil && len(clients) < 5_000 {
		var sender int
		if sender, refused = tryConnect(d.socket, unix.SOCK_SEQPACKET); refused != nil {
			break
		}
		ours, theirs := newClient(t)
		pass(t, sender, payload, theirs)
		closeAll(sender, theirs)
		clients = append(clients, ours)
		if len(clients) == 100 {
			must(t, d.Process.Signal(syscall.SIGTERM))
		}
	}
	if !errors.Is(refused, unix.ENOENT) && !errors.Is(refused, unix.ECONNREFUSED) {
		t.Errorf("%d handoffs, then %v", len(clients), refused)
	}
	for _, client := range clients {
		if answer := readAll(t, client); len(answer) != 1226 {
			t.Fatalf("%q", answer)
		}
	}
	if rest := readAll(t, first); len(rest) != 1226-200 {
		t.Errorf("%q", rest)
	}
	count := len(clients) + 1
	if expected := fmt.Sprintf("started: %d\ncompleted: %d\nfailed: 0\n", count, count); !strings.Contains(d.end(), expected) {
		t.Errorf("%s is not in %s", expected, d.out.String())
	}
	if !d.isSocketGone() {
		t.Error("the socket file still exists")
	}
}

func TestASecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	d := launch(t, newSocketPath(t), "", "DAEMON_MESSAGE_DELAY=1h", "DAEMON_SHUTDOWN_GRACE=1h")
	client := d.hand()
	readSome(t, client, len(head))
	must(t, d.Process.Signal(syscall.SIGINT))
	waitUntil(t, "the end of the socket file", d.isSocketGone)
	must(t, d.Process.Signal(syscall.SIGINT))
	if printed := d.end(); !strings.Contains(printed, "peak concurrent: 1\nstarted: 1\ncompleted: 0\nfailed: 1\n") {
		t.Error(printed)
	}
	readAll(t, client)
}

func TestTheSocketHasTheConfiguredModeWithAnyUmask(t *testing.T) {
	for _, c := range []struct {
		umask, variable string
		mode            fs.FileMode
	}{{"0077", "0666", 0o666}, {"0", "0600", 0o600}} {
		d := launch(t, newSocketPath(t), "umask "+c.umask+";", "DAEMON_SOCKET_MODE="+c.variable)
		found, err := os.Stat(d.socket)
		must(t, err)
		if found.Mode().Perm() != c.mode {
			t.Errorf("%v", found.Mode())
		}
	}
}

func TestASecondDaemonIsRefusedAndAStaleSocketIsReplaced(t *testing.T) {
	first := launch(t, newSocketPath(t), "")
	for _, kind := range []string{"seqpacket", "stream"} {
		second := exec.Command(first.Args[0], "-c", "exec "+binaryFolder+"/daemon -benchmark -socket-type "+kind+" -socket "+first.socket)
		output, _ := second.CombinedOutput()
		if code := second.ProcessState.ExitCode(); code != exitFailure || !strings.Contains(string(output), "another process is listening on") {
			t.Errorf("%d: %s", code, output)
		}
	}
	if answer := readAll(t, first.hand()); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
	must(t, first.Process.Kill())
	<-first.ended
	if first.isSocketGone() {
		t.Error("the socket file is not stale")
	}
	third := launch(t, first.socket, "")
	if answer := readAll(t, third.hand()); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
}

func TestASocketFileOfAnotherProcessIsNotRemoved(t *testing.T) {
	d := start(t, unchanged)
	must(t, os.Remove(d.config.socketPath))
	must(t, os.WriteFile(d.config.socketPath, []byte("precious"), 0o600))
	d.stop()
	if text, err := os.ReadFile(d.config.socketPath); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := listen(d.config); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("%v", err)
	}
}

// With a limit of 80 there is room for about 60 connections.
func TestAcceptingPausesWithoutFreeDescriptorsAndResumesLater(t *testing.T) {
	d := launch(t, newSocketPath(t), "ulimit -n 80;")
	var silent []int
	for range 100 {
		silent = append(silent, connect(t, d.socket, unix.SOCK_SEQPACKET))
	}
	waitUntil(t, "running out", func() bool {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Process.Pid))
		return err == nil && len(open) >= 80
	})
	before := cpuTime(t, d.Process.Pid)
	time.Sleep(300 * time.Millisecond)
	if spent := cpuTime(t, d.Process.Pid) - before; spent > 100*time.Millisecond {
		t.Errorf("the daemon spins: %v of 300 ms", spent)
	}
	// An accepted sender sends: no descriptor is free for its client, and both are closed.
	ours, theirs := newClient(t)
	pass(t, silent[0], payload, theirs)
	closeAll(theirs)
	if answer := readAll(t, ours); answer != "" {
		t.Errorf("%q", answer)
	}
	expectHungUp(t, silent[0])
	closeAll(silent...)
	if answer := readAll(t, d.hand()); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
}

func TestAfterAClientIsLostForLackOfDescriptorsTheOthersWaitInTheQueue(t *testing.T) {
	d := launch(t, newSocketPath(t), "ulimit -n 80;", "DAEMON_MESSAGE_DELAY=0")
	// One descriptor is free: enough for a connection, but not for its client. Connecting takes a
	// moment, so the loop approaches this state until it is stable.
	var silent []int
	rounds := 0
	waitUntil(t, "one descriptor is left", func() bool {
		open := 0
		for number := range 80 { // the shell may have passed on descriptors above the limit
			if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", d.Process.Pid, number)); err == nil {
				open++
			}
		}
		rounds++
		switch {
		case open == 79:
			return rounds > 20
		case open > 79 && len(silent) > 0:
			closeAll(silent[len(silent)-1])
			silent = silent[:len(silent)-1]
		default:
			silent = append(silent, connect(t, d.socket, unix.SOCK_SEQPACKET))
		}
		rounds = 0
		time.Sleep(5 * time.Millisecond)
		return false
	})
	must(t, d.Process.Signal(syscall.SIGSTOP))
	var clients []*os.File
	for range 400 {
		clients = append(clients, d.hand())
	}
	must(t, d.Process.Signal(syscall.SIGCONT))
	if answer := readAll(t, clients[0]); answer != "" {
		t.Errorf("%q", answer)
	}
	closeAll(silent...)
	lost := 0
	for _, client := range clients[1:] {
		if readAll(t, client) == "" {
			lost++
		}
	}
	if lost > 100 {
		t.Errorf("%d of %d clients are lost", lost, len(clients))
	}
}

// cpuTime returns the CPU time of a process: fields 14 and 15 of its stat, in hundredths of a second.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))
	var user, system time.Duration
	_, err = fmt.Sscan(fields[12]+" "+fields[13], &user, &system)
	must(t, err)
	return (user + system) * 10 * time.Millisecond
}

// The limit of open files limits the streams if it is lower: 100 − 64.
func TestMoreStreamsThanDescriptorsAreAnswered503(t *testing.T) {
	d := launch(t, newSocketPath(t), "ulimit -n 100;", "DAEMON_MESSAGE_DELAY=1h")
	for range 100 - reservedFiles {
		readSome(t, d.hand(), len(head))
	}
	if answer := readAll(t, d.hand()); answer != refusal {
		t.Errorf("%q", answer)
	}
}

func TestTheSoftLimitOfOpenFilesIsRaised(t *testing.T) {
	d := launch(t, newSocketPath(t), "ulimit -S -n 70; ulimit -H -n 200;", "DAEMON_MESSAGE_DELAY=1h")
	for range 200 - reservedFiles {
		readSome(t, d.hand(), len(head))
	}
}

func TestUsageErrorsExitWith2AndUnusableSocketsWith1(t *testing.T) {
	path, err := binary()
	must(t, err)
	for _, c := range []struct {
		code  int
		words string
		call  []string
	}{
		{exitUsage, "DAEMON_MESSAGE_DELAY", []string{"-message-delay", "5"}},
		{exitUsage, "-help", []string{"-no-such-option"}},
		{exitUsage, "unexpected argument", []string{"surplus"}},
		{exitFailure, "107 bytes", []string{"-benchmark", "-socket", "/" + strings.Repeat("x", 107)}},
		{exitFailure, "/no/such/folder", []string{"-benchmark", "-socket", "/no/such/folder/a.sock"}},
		{exitFailure, "is not a socket", []string{"-benchmark", "-socket", "/dev/null"}},
		{exitFailure, "DAEMON_METRICS_ADDR", []string{"-socket", "/no/such/a.sock", "-metrics-addr", "192.0.2.1:1"}},
		{0, "streaming-daemon " + version, []string{"-version"}},
		{0, "DAEMON_SOCKET_PATH", []string{"-help"}},
	} {
		command := exec.Command(path, c.call...)
		output, _ := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(output), c.words) {
			t.Errorf("%v: %d, %s", c.call, code, output)
		}
	}
}
