package main

import (
	"golang.org/x/sys/unix"
)

// sendNow sends what the socket takes at once, and returns how much that was. MSG_DONTWAIT and not
// O_NONBLOCK, because that flag belongs to the open file, which the client's previous owner shares.
func sendNow(socket int, bytes []byte) (int, error) {
	n, err := unix.SendmsgN(socket, bytes, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err == unix.EAGAIN || err == unix.EINTR {
		return 0, nil
	}
	return n, err
}

// closeAll closes descriptors that nobody uses any more. What close could complain about, nobody
// could mend.
func closeAll(descriptors ...int) {
	for _, descriptor := range descriptors {
		unix.Close(descriptor)
	}
}

// prepareClient checks that a descriptor is a stream socket, and has TCP send each event at once.
func prepareClient(client int) error {
	kind, err := unix.GetsockoptInt(client, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return reasonNotAStreamSocket
	}
	// Without this the second event would wait for the acknowledgement of the first, up to 40 ms.
	// Other sockets refuse the option, and need it not.
	unix.SetsockoptInt(client, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return nil
}
