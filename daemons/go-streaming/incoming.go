package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// receiveTimeout limits the time between the connection of a sender and the end of its payload.
const receiveTimeout = 5 * time.Second

// maxDescriptors is the maximum number of descriptors in one message on Linux (SCM_MAX_FD).
const maxDescriptors = 253

// errWait reports that the message is missing or incomplete.
var errWait = errors.New("the message has not arrived yet")

// A buffer holds the data of one handoff. Buffers are reused.
type buffer struct {
	// One byte longer than the limit, to detect a payload that is too long.
	payload [payloadLimit + 1]byte
	control []byte
}

func newBuffer() *buffer {
	return &buffer{control: make([]byte, unix.CmsgSpace(maxDescriptors*4))}
}

// An incoming is an accepted handoff connection, and the data received from it.
type incoming struct {
	connection int
	accepted   time.Time
	client     int // or noClient
	surplus    int
	sawEnd     bool
	// The part of a payload received so far, while the rest is awaited.
	begun []byte
}

const noClient = -1

func newIncoming(connection int) *incoming {
	return &incoming{connection: connection, accepted: time.Now(), client: noClient}
}

// close closes the connection. The sender gets no other reply.
func (in *incoming) close() {
	closeAll(in.connection)
}

// drop closes the client as well.
func (in *incoming) drop() {
	in.close()
	if in.client != noClient {
		closeAll(in.client)
	}
}

// read appends the available data to the buffer. It returns the payload if it is complete, or errWait.
//
// On SOCK_SEQPACKET one record is one handoff. On SOCK_STREAM nothing marks the end of the payload,
// because the sender may keep the connection open until the daemon closes it. There a payload is
// complete unless it is the beginning of a JSON object. In that case the rest is awaited until the
// payload parses, the connection ends, or the timeout expires.
func (in *incoming) read(isRecord bool, b *buffer) ([]byte, error) {
	filled := copy(b.payload[:], in.begun)
	for {
		n, isEnd, err := in.receive(b, filled)
		if errors.Is(err, errWait) {
			in.begun = append([]byte(nil), b.payload[:filled]...)
		}
		if err != nil {
			return nil, err
		}
		filled += n
		switch {
		case filled > payloadLimit:
			return nil, reasonTooLarge
		case isEnd && !in.sawEnd:
			// On a SEQPACKET socket the first end of file may be spurious: the kernel looks for a
			// message and finds none, then the sender sends and closes, and then the kernel sees that
			// the sender has closed. The second attempt returns the message.
			in.sawEnd = true
		case isEnd && filled == 0 && in.client == noClient:
			return nil, reasonEmpty
		case isEnd || isRecord || isComplete(b.payload[:filled]):
			return b.payload[:filled], nil
		}
	}
}

func isComplete(payload []byte) bool {
	_, err := parseRequest(payload)
	return !errors.Is(err, errIncomplete)
}

// receive receives once, without blocking. Every received descriptor is kept or closed.
func (in *incoming) receive(b *buffer, filled int) (n int, isEnd bool, err error) {
	const flags = unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
	n, controlled, got, _, err := unix.Recvmsg(in.connection, b.payload[filled:], b.control, flags)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, false, errWait
	case err != nil:
		return 0, false, reasonOf(err)
	}
	descriptors := descriptorsIn(b.control[:controlled])
	in.keep(descriptors)
	switch {
	case got&unix.MSG_CTRUNC != 0:
		return 0, false, reasonTruncated
	case got&unix.MSG_TRUNC != 0:
		return 0, false, reasonTooLarge
	}
	return n, n == 0 && len(descriptors) == 0, nil
}

// keep keeps the first descriptor and closes the others.
func (in *incoming) keep(descriptors []int) {
	if in.client == noClient && len(descriptors) > 0 {
		in.client, descriptors = descriptors[0], descriptors[1:]
	}
	in.surplus += len(descriptors)
	closeAll(descriptors...)
}

// descriptorsIn returns the descriptors in control data. Truncated data counts as well: the kernel has
// opened the descriptors that fitted.
func descriptorsIn(control []byte) []int {
	var all []int
	for len(control) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		message := unix.SocketControlMessage{Header: header, Data: data}
		if descriptors, err := unix.ParseUnixRights(&message); err == nil {
			all = append(all, descriptors...)
		}
		control = rest
	}
	return all
}

// wait blocks until more data can be read. It fails with reasonTimeout after the receive timeout.
func (in *incoming) wait(ctx context.Context, w *waiter) error {
	return w.wait(ctx, in.connection, unix.EPOLLIN, receiveTimeout-time.Since(in.accepted))
}
