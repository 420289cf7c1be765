package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// sendNow sends without blocking and returns the number of bytes sent. It uses MSG_DONTWAIT instead of
// O_NONBLOCK, because O_NONBLOCK belongs to the open file, which the sender shares.
func sendNow(socket int, data []byte) (int, error) {
	n, err := unix.SendmsgN(socket, data, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, err
}

const (
	// lingerTime is the time for a client to read the end of its answer and to close.
	lingerTime = 2 * time.Second

	// maxLingering is the maximum number of clients that are closed with a delay: they use reserved descriptors.
	maxLingering = 32
)

// hasUnread reports whether the client has sent data that nobody has read. A close would then be a reset,
// with which the client may lose the end of its answer.
func hasUnread(client int) bool {
	n, _, err := unix.Recvfrom(client, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == nil && n > 0
}

// linger shuts down the sending side, and closes when the client has closed or its time is over. It drops
// received data.
func (d *daemon) linger(ctx context.Context, client int) {
	defer closeAll(client)
	if d.lingering.Add(1) <= maxLingering {
		unix.Shutdown(client, unix.SHUT_WR)
		d.readToEnd(ctx, client)
	}
	d.lingering.Add(-1)
}

func (d *daemon) readToEnd(ctx context.Context, client int) {
	deadline := time.Now().Add(lingerTime)
	for time.Now().Before(deadline) {
		n, _, err := unix.Recvfrom(client, make([]byte, 4096), unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			err = d.waiter.wait(ctx, client, unix.EPOLLIN, time.Until(deadline))
		} else if n == 0 {
			return
		}
		if err != nil {
			return
		}
	}
}

// closeAll closes descriptors that are no longer in use. It ignores errors, because nothing can be done
// about them.
func closeAll(descriptors ...int) {
	for _, descriptor := range descriptors {
		unix.Close(descriptor)
	}
}

// prepareClient checks that a descriptor is a stream socket, and makes TCP send each event at once.
func prepareClient(client int) error {
	kind, err := unix.GetsockoptInt(client, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return reasonNotAStreamSocket
	}
	// Without this the second event would wait for the acknowledgement of the first, up to 40 ms.
	// Other sockets refuse the option and do not need it.
	unix.SetsockoptInt(client, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return nil
}
