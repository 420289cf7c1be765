package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The longest path that fits into a socket address, which ends with a NUL.
const longestPath = 107

// errStopped says that the listener takes no further connections and none is left in its queue.
var errStopped = errors.New("the listener was stopped")

// A listener is the handoff socket: made with its permissions, never stolen from a living daemon,
// removed at the end.
type listener struct {
	path string
	made os.FileInfo // of the socket file, to tell it from one that took its place
	// Two descriptors of the socket, which Go's poller watches, for two that accept.
	files [2]*os.File
}

// listen makes the socket file and listens.
//
// The file never has wider permissions than those asked for: bind gives it those of the socket, less
// the umask, and nobody can connect before listen.
func listen(c *config) (*listener, error) {
	if len(c.socketPath) > longestPath {
		return nil, fmt.Errorf("%s: a socket path has at most %d bytes", c.socketPath, longestPath)
	}
	if err := removeStale(c.socketPath); err != nil {
		return nil, err
	}
	socket, err := newSocket(c.kind())
	if err != nil {
		return nil, err
	}
	l := &listener{path: c.socketPath}
	l.files[0] = os.NewFile(uintptr(socket), c.socketPath)
	if err := l.begin(socket, c); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// begin makes the file and the second descriptor, and listens.
func (l *listener) begin(socket int, c *config) (err error) {
	if l.made, err = bind(socket, c); err != nil {
		return err
	}
	// What the umask took away.
	if err := unix.Chmod(c.socketPath, c.socketMode); err != nil {
		return fmt.Errorf("setting the permissions of %s: %w", c.socketPath, err)
	}
	if err := unix.Listen(socket, c.backlog); err != nil {
		return fmt.Errorf("listening on %s: %w", c.socketPath, err)
	}
	second, err := unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("duplicating the handoff socket: %w", err)
	}
	l.files[1] = os.NewFile(uintptr(second), c.socketPath)
	return nil
}

func newSocket(kind int) (int, error) {
	socket, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("making a Unix socket: %w", err)
	}
	return socket, nil
}

// bind makes the socket file and returns what it is.
func bind(socket int, c *config) (os.FileInfo, error) {
	if err := unix.Fchmod(socket, c.socketMode); err != nil {
		return nil, fmt.Errorf("setting the permissions of a socket: %w", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: c.socketPath}); err != nil {
		return nil, fmt.Errorf("making the socket %s: %w", c.socketPath, err)
	}
	made, err := os.Lstat(c.socketPath)
	if err != nil {
		return nil, fmt.Errorf("looking at the new socket: %w", err)
	}
	return made, nil
}

// removeStale removes the socket file of a daemon that is gone. Whether it is gone is asked by
// connecting: ECONNREFUSED means that nobody listens, and every other answer that somebody might.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil // bind will say what is wrong with the path, if anything
	case found.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is no socket: name another path, or move it away", path)
	}
	probe, err := newSocket(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer closeAll(probe)
	switch unix.Connect(probe, &unix.SockaddrUnix{Name: path}) {
	case unix.ECONNREFUSED:
		return os.Remove(path)
	case unix.EACCES:
		return fmt.Errorf("%s: no permission to ask who listens on it", path)
	default:
		return fmt.Errorf("another process listens on %s: stop it, or name another path", path)
	}
}

// each calls take with every connection, and rest whenever there is none left, until stop and the
// end of the queue (errStopped), or until accepting or take fails. It waits without a thread.
func each(listener *os.File, take func(connection int) error, rest func()) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	accept := func(socket uintptr) {
		failure = acceptAll(int(socket), take)
		rest()
	}
	err = raw.Read(func(socket uintptr) bool {
		accept(socket)
		return failure != nil
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.Join(err, failure)
	}
	// Stopped: what came before is still in the queue, and nothing comes any more.
	err = raw.Control(accept)
	return cmp.Or(failure, err, errStopped)
}

// acceptAll returns nil when the queue is empty.
func acceptAll(socket int, take func(connection int) error) error {
	for {
		connection, _, err := unix.Accept4(socket, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			if err := take(connection); err != nil {
				return err
			}
		case unix.EINTR, unix.ECONNABORTED:
		// EINVAL: shut down, and nothing waits any more.
		case unix.EAGAIN, unix.EINVAL:
			return nil
		default:
			return err
		}
	}
}

// stop has the kernel refuse further connections, while what waits in the queue can be accepted.
func (l *listener) stop() {
	l.removeFile()
	if raw, err := l.files[0].SyscallConn(); err == nil {
		raw.Control(func(socket uintptr) { unix.Shutdown(int(socket), unix.SHUT_RD) })
	}
	// Only now, so that each finds the queue as it will stay. A deadline in the past wakes it.
	for _, file := range l.files {
		file.SetReadDeadline(time.Unix(1, 0))
	}
}

func (l *listener) close() {
	l.removeFile()
	for _, file := range l.files {
		file.Close() // of one that was never opened it is an error, and nothing else
	}
}

// removeFile removes the socket file, unless another one stands in its place. Failing leaves a stale
// file, which the next start replaces.
func (l *listener) removeFile() {
	if l.made == nil {
		return
	}
	if found, err := os.Lstat(l.path); err == nil && os.SameFile(found, l.made) {
		os.Remove(l.path)
	}
}
