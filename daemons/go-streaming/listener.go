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

// maxPathLength is the maximum length of a path in a socket address, in bytes, without the final NUL.
const maxPathLength = 107

// errStopped reports that the listener accepts no more connections and its queue is empty.
var errStopped = errors.New("the listener was stopped")

// A listener is the handoff socket. Its file has the configured permissions, does not replace the socket
// of a running daemon, and is removed at the end.
type listener struct {
	path string
	made os.FileInfo // of the socket file, to detect that another file replaced it
	// Two descriptors of the socket for two receivers, watched by Go's poller.
	files [2]*os.File
}

// listen creates the socket file and listens.
//
// The file never has wider permissions than configured: bind gives it the permissions of the socket,
// minus the umask, and clients cannot connect before listen.
func listen(c *config) (*listener, error) {
	if len(c.socketPath) > maxPathLength {
		return nil, fmt.Errorf("%s: the socket path is too long: give at most %d bytes", c.socketPath, maxPathLength)
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

// begin creates the file and the second descriptor, and listens.
func (l *listener) begin(socket int, c *config) (err error) {
	if l.made, err = bind(socket, c); err != nil {
		return err
	}
	// Restores the permissions that the umask removed.
	if err := unix.Chmod(c.socketPath, c.socketMode); err != nil {
		return fmt.Errorf("cannot set the permissions of %s: %w", c.socketPath, err)
	}
	if err := unix.Listen(socket, c.backlog); err != nil {
		return fmt.Errorf("cannot listen on %s: %w", c.socketPath, err)
	}
	second, err := unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot duplicate the handoff socket: %w", err)
	}
	l.files[1] = os.NewFile(uintptr(second), c.socketPath)
	return nil
}

func newSocket(kind int) (int, error) {
	socket, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot create a Unix socket: %w", err)
	}
	return socket, nil
}

// bind creates the socket file and returns its file information.
func bind(socket int, c *config) (os.FileInfo, error) {
	if err := unix.Fchmod(socket, c.socketMode); err != nil {
		return nil, fmt.Errorf("cannot set the permissions of a socket: %w", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: c.socketPath}); err != nil {
		return nil, fmt.Errorf("cannot create the socket %s: %w", c.socketPath, err)
	}
	made, err := os.Lstat(c.socketPath)
	if err != nil {
		return nil, fmt.Errorf("cannot inspect the new socket %s: %w", c.socketPath, err)
	}
	return made, nil
}

// removeStale removes the socket file of a daemon that has ended. It connects to find out: ECONNREFUSED
// means that no process is listening; after any other result one might be.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil // bind reports what is wrong with the path, if anything
	case found.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: name another path, or move it away", path)
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
		return fmt.Errorf("%s: no permission to check whether a process listens on it: remove it, or name another path", path)
	default:
		return fmt.Errorf("another process is listening on %s: stop it, or name another path", path)
	}
}

// acceptEach calls take for every connection, and drained whenever the queue is empty. It returns errStopped
// after stop once the queue is empty, or the error of accepting or of take. No thread blocks while it
// waits.
func acceptEach(from *os.File, take func(connection int) error, drained func()) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	accept := func(socket uintptr) {
		failure = acceptAll(int(socket), take)
		drained()
	}
	err = raw.Read(func(socket uintptr) bool {
		accept(socket)
		return failure != nil
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.Join(err, failure)
	}
	// Stopped: earlier connections are still in the queue, and no new ones arrive.
	err = raw.Control(accept)
	return cmp.Or(failure, err, errStopped)
}

// acceptAll accepts until the queue is empty, and then returns nil.
func acceptAll(socket int, take func(connection int) error) error {
	for {
		connection, _, err := unix.Accept4(socket, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			if err := take(connection); err != nil {
				return err
			}
		case unix.EINTR, unix.ECONNABORTED:
		// EINVAL: shut down, and the queue is empty.
		case unix.EAGAIN, unix.EINVAL:
			return nil
		default:
			return err
		}
	}
}

// stop makes the kernel refuse new connections. Those in the queue can still be accepted.
func (l *listener) stop() {
	l.removeFile()
	if raw, err := l.files[0].SyscallConn(); err == nil {
		raw.Control(func(socket uintptr) { unix.Shutdown(int(socket), unix.SHUT_RD) })
	}
	// After the shutdown, so that each sees the final queue. A deadline in the past wakes it.
	for _, file := range l.files {
		file.SetReadDeadline(time.Unix(1, 0))
	}
}

func (l *listener) close() {
	l.removeFile()
	for _, file := range l.files {
		file.Close() // closing a nil file only returns an error
	}
}

// removeFile removes the socket file, unless another file has replaced it. On failure a stale file
// remains, which the next start replaces.
func (l *listener) removeFile() {
	if l.made == nil {
		return
	}
	if found, err := os.Lstat(l.path); err == nil && os.SameFile(found, l.made) {
		os.Remove(l.path)
	}
}
