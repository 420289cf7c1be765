package main

import (
	"errors"

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
