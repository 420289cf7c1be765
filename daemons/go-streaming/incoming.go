package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// How long a sender may take for its payload after it connected.
const receiveTimeout = 5 * time.Second

// Linux lets one message carry so many descriptors (SCM_MAX_FD).
const maxDescriptors = 253

// errWait says that the message, or the rest of it, has still to come.
var errWait = errors.New("the message has not arrived yet")

// A buffer is room for one handoff, used again and again.
type buffer struct {
	// One byte more than is allowed, so that what is too long shows.
	payload [payloadLimit + 1]byte
	control []byte
}

func newBuffer() *buffer {
	return &buffer{control: make([]byte, unix.CmsgSpace(maxDescriptors*4))}
}

// An incoming is a handoff connection that was accepted, and what came from it.
type incoming struct {
	connection int
	accepted   time.Time
	client     int // or noClient
	surplus    int
	sawEnd     bool
	// What has come of a payload while its rest is waited for.
	begun []byte
}

const noClient = -1

func newIncoming(connection int) *incoming {
	return &incoming{connection: connection, accepted: time.Now(), client: noClient}
}

// close closes the connection, which is all that its sender hears from us.
func (i *incoming) close() {
	closeAll(i.connection)
}

// drop closes the client as well.
func (i *incoming) drop() {
	i.close()
	if i.client != noClient {
		closeAll(i.client)
	}
}

// read reads what is there into the buffer, after what had been read before, and returns the
// payload if it is whole, or errWait.
//
// On SOCK_SEQPACKET one record is one handoff. On SOCK_STREAM nothing marks the end of the payload,
// for the sender may keep the connection open until we close it. So a payload is whole there unless
// it is the beginning of a JSON object; then the rest is waited for, until it parses or the
// connection ends or the time is over.
func (i *incoming) read(isRecord bool, b *buffer) ([]byte, error) {
	filled := copy(b.payload[:], i.begun)
	for {
		n, isEnd, err := i.receive(b, filled)
		if err == errWait {
			i.begun = append([]byte(nil), b.payload[:filled]...)
		}
		if err != nil {
			return nil, err
		}
		filled += n
		switch {
		case filled > payloadLimit:
			return nil, reasonTooLarge
		case isEnd && !i.sawEnd:
			// On a SEQPACKET socket the first end may be none: the kernel looks for a message, finds
			// none, then the sender sends and closes, and then the kernel finds that the sender has
			// closed. The message is there at the second try.
			i.sawEnd = true
		case isEnd && filled == 0 && i.client == noClient:
			return nil, reasonEmpty
		case isEnd || isRecord || isWhole(b.payload[:filled]):
			return b.payload[:filled], nil
		}
	}
}

func isWhole(payload []byte) bool {
	_, err := parseRequest(payload)
	return err != errBeginning
}

// receive receives once, without waiting. Every descriptor that comes along is kept or closed.
func (i *incoming) receive(b *buffer, filled int) (n int, isEnd bool, err error) {
	const flags = unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
	n, controlled, got, _, err := unix.Recvmsg(i.connection, b.payload[filled:], b.control, flags)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, false, errWait
	case err != nil:
		return 0, false, reasonOf(err)
	}
	descriptors := descriptorsIn(b.control[:controlled])
	i.keep(descriptors)
	switch {
	case got&unix.MSG_CTRUNC != 0:
		return 0, false, reasonTruncated
	case got&unix.MSG_TRUNC != 0:
		return 0, false, reasonTooLarge
	}
	return n, n == 0 && len(descriptors) == 0, nil
}

// keep keeps the first descriptor and closes the others.
func (i *incoming) keep(descriptors []int) {
	if i.client == noClient && len(descriptors) > 0 {
		i.client, descriptors = descriptors[0], descriptors[1:]
	}
	i.surplus += len(descriptors)
	closeAll(descriptors...)
}

// descriptorsIn lists the descriptors in control data, also where it was cut off: the kernel has
// opened those that fitted.
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

// wait waits until there is more to read. It fails with reasonTimeout if the time is over.
func (i *incoming) wait(ctx context.Context, w *waiter) error {
	return w.wait(ctx, i.connection, unix.EPOLLIN, receiveTimeout-time.Since(i.accepted))
}
