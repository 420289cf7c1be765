package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A waiter waits for sockets that are not ready: a client that does not read, or a sender that has not
// sent. These are exceptions; all other sockets are not registered with any poller.
//
// Go's poller requires O_NONBLOCK, a flag that a client's socket shares with its sender. The waiter
// therefore has its own epoll set, and Go's poller watches that set. No thread blocks, for any number of
// waiting sockets.
type waiter struct {
	set     int
	poll    *os.File
	mutex   sync.Mutex
	waiting map[int]chan<- struct{}
}

func newWaiter() (*waiter, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create an epoll set: %w", err)
	}
	if err := unix.SetNonblock(set, true); err != nil {
		closeAll(set)
		return nil, fmt.Errorf("cannot make the epoll set non-blocking: %w", err)
	}
	return &waiter{set: set, poll: os.NewFile(uintptr(set), "epoll"), waiting: map[int]chan<- struct{}{}}, nil
}

// run wakes the goroutines whose sockets are ready, until close.
func (w *waiter) run() {
	poll, err := w.poll.SyscallConn()
	if err != nil {
		return
	}
	var events [64]unix.EpollEvent
	for err == nil {
		count := 0
		err = poll.Read(func(set uintptr) bool {
			count, _ = unix.EpollWait(int(set), events[:], 0)
			return count > 0
		})
		w.wake(events[:max(count, 0)])
	}
}

func (w *waiter) wake(events []unix.EpollEvent) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, event := range events {
		// A goroutine that has timed out is no longer registered.
		if waiting, ok := w.waiting[int(event.Fd)]; ok {
			waiting <- struct{}{}
			delete(w.waiting, int(event.Fd))
		}
	}
}

func (w *waiter) close() {
	w.poll.Close()
}

// wait blocks until the socket is ready for the events (unix.EPOLLIN, unix.EPOLLOUT) or hung up. It
// fails with reasonTimeout after the limit, and with reasonCanceled when the context is done.
func (w *waiter) wait(ctx context.Context, socket int, events uint32, limit time.Duration) error {
	ready := make(chan struct{}, 1)
	if err := w.add(socket, events, ready); err != nil {
		return reasonOther
	}
	defer w.remove(socket)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-timer.C:
		return reasonTimeout
	case <-ctx.Done():
		return reasonCanceled
	}
}

func (w *waiter) add(socket int, events uint32, ready chan<- struct{}) error {
	w.mutex.Lock()
	w.waiting[socket] = ready
	w.mutex.Unlock()
	event := unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(socket)}
	err := unix.EpollCtl(w.set, unix.EPOLL_CTL_ADD, socket, &event)
	if err != nil {
		w.forget(socket)
	}
	return err
}

// remove unregisters a socket. It must be called before the socket is closed: an open file that another
// process shares would stay in the set.
func (w *waiter) remove(socket int) {
	unix.EpollCtl(w.set, unix.EPOLL_CTL_DEL, socket, nil)
	w.forget(socket)
}

func (w *waiter) forget(socket int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.waiting, socket)
}
