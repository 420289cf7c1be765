package main

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheSendersConnectionIsClosedAndNothingIsWrittenToIt(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, func(c *config) { kind(c); c.messageDelay = time.Hour })
		_, theirs := newClient(t)
		sender := d.connect()
		pass(t, sender, payload, theirs)
		// The sender keeps its end open: the daemon closes the connection, long before the stream ends.
		expectHungUp(t, sender)
		closeAll(sender, theirs)
	})
}

func TestPayloadsUpTo128KiBAreAcceptedAndLongerOnesRefused(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, kind)
		for _, length := range []int{10_000, 64 * 1024, 100_000, 128 * 1024} {
			if answer := d.answerTo(payloadOf(length)); len(answer) != 1226+50+3-len("benchmark test") {
				t.Errorf("%d bytes: %q", length, answer)
			}
		}
		for _, length := range []int{128*1024 + 1, 150_000} {
			if answer := d.answerTo(payloadOf(length)); answer != "" {
				t.Errorf("%d bytes: %q", length, answer)
			}
		}
		d.expect(handoffErrors(reasonTooLarge, 2), handoffErrors(reasonInvalidJSON, 0), "daemon_active_connections 0")
	})
}

func TestAPayloadInPiecesIsReassembledOnAStreamSocket(t *testing.T) {
	d := start(t, func(c *config) { c.isSeqpacket = false })
	ours, theirs := newClient(t)
	sender := d.connect()
	pass(t, sender, payload[:5], theirs)
	closeAll(theirs)
	d.expect("daemon_connections_total 1")
	for _, b := range []byte(payload[5:]) {
		pass(t, sender, string(b))
	}
	expectHungUp(t, sender)
	closeAll(sender)
	if answer := readAll(t, ours); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
}

func TestSilentSendersTimeOutAfterFiveSecondsAndDelayNoOthers(t *testing.T) {
	d := start(t, func(c *config) { c.isSeqpacket = false })
	silent, halting := d.connect(), d.connect()
	ours, theirs := newClient(t)
	pass(t, halting, payload[:20], theirs)
	closeAll(theirs)
	if answer := d.answerTo(payload); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
	d.expect("daemon_active_connections 2")
	expectHungUp(t, silent)
	expectHungUp(t, halting)
	closeAll(silent, halting)
	if answer := readAll(t, ours); len(answer) != 1226-len("benchmark test") {
		t.Errorf("%q", answer)
	}
	d.expect(handoffErrors(reasonTimeout, 1), handoffErrors(reasonInvalidJSON, 1))
}

func TestALateMessageIsAccepted(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, kind)
		sender := d.connect()
		d.expect("daemon_connections_total 1")
		ours, theirs := newClient(t)
		pass(t, sender, payload, theirs)
		closeAll(sender, theirs)
		if answer := readAll(t, ours); len(answer) != 1226 {
			t.Errorf("%q", answer)
		}
	})
}

func TestTheFirstOfTwoDescriptorsIsUsedAndTheSecondClosed(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, kind)
		first, theirFirst := newClient(t)
		second, theirSecond := newClient(t)
		sender := d.connect()
		pass(t, sender, payload, theirFirst, theirSecond)
		closeAll(sender, theirFirst, theirSecond)
		if answer := readAll(t, second); answer != "" {
			t.Errorf("the second got %q", answer)
		}
		if answer := readAll(t, first); len(answer) != 1226 {
			t.Errorf("the first got %q", answer)
		}
		d.expect(handoffErrors(reasonSurplusDescriptors, 1))
	})
}

func TestAMessageWithoutAStreamSocketIsRefused(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, kind)
		null, err := os.Open(os.DevNull)
		must(t, err)
		defer null.Close()
		datagram, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		must(t, err)
		defer unix.Close(datagram)
		for _, descriptors := range [][]int{{int(null.Fd())}, {datagram}, {}} {
			sender := d.connect()
			pass(t, sender, payload, descriptors...)
			expectHungUp(t, sender)
			closeAll(sender)
		}
		d.expect(handoffErrors(reasonNotAStreamSocket, 2), handoffErrors(reasonNoDescriptor, 1),
			"daemon_active_connections 0")
	})
}

func TestAProbeThatConnectsAndClosesCountsAsEmpty(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, kind)
		closeAll(d.connect())
		d.expect(handoffErrors(reasonEmpty, 1), "daemon_active_connections 0")
	})
}

// The kernel can report the end of a SEQPACKET connection while a message is queued. An empty record
// looks the same to the daemon, and the test controls when it is sent.
func TestTheMessageIsReadAfterASpuriousEndOfFile(t *testing.T) {
	d := start(t, unchanged)
	ours, theirs := newClient(t)
	sender := d.connect()
	must(t, unix.Sendmsg(sender, nil, nil, nil, 0))
	pass(t, sender, payload, theirs)
	closeAll(sender, theirs)
	if answer := readAll(t, ours); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
	d.expect(handoffErrors(reasonEmpty, 0))
}

func TestAHandoffThatLostDescriptorsIsDroppedWithThoseThatArrived(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must(t, err)
	first, theirFirst := newClient(t)
	second, theirSecond := newClient(t)
	third, theirThird := newClient(t)
	pass(t, pair[0], payload, theirFirst, theirSecond, theirThird)
	closeAll(pair[0], theirFirst, theirSecond, theirThird)

	in, b := newIncoming(pair[1]), newBuffer()
	b.control = b.control[:unix.CmsgLen(2*4)] // room for two of the three
	if _, err := in.read(true, b); !errors.Is(err, reasonTruncated) {
		t.Errorf("%v", err)
	}
	in.drop()
	for _, client := range []*os.File{first, second, third} {
		if answer := readAll(t, client); answer != "" {
			t.Errorf("%q", answer)
		}
	}
}

func TestATCPClientIsServed(t *testing.T) {
	d := start(t, unchanged)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	ours, err := net.Dial("tcp", server.Addr().String())
	must(t, err)
	defer ours.Close()
	accepted, err := server.Accept()
	must(t, err)
	theirs, err := accepted.(*net.TCPConn).File()
	must(t, err)
	sender := d.connect()
	pass(t, sender, payload, int(theirs.Fd()))
	closeAll(sender)
	must(t, theirs.Close())
	must(t, accepted.Close())
	must(t, ours.SetReadDeadline(time.Now().Add(testTimeout)))
	all := make([]byte, 2000)
	count := 0
	for err == nil {
		var n int
		n, err = ours.Read(all[count:])
		count += n
	}
	if count != 1226 {
		t.Errorf("%d bytes: %v", count, err)
	}
}

func TestNoneOfThousandsOfHandoffsIsLost(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		d := start(t, func(c *config) { kind(c); c.messageCount = 0 })
		for range 2_000 {
			if answer := d.answerTo(payload); len(answer) != 133 {
				t.Fatalf("%q", answer)
			}
		}
		d.expect(handoffErrors(reasonEmpty, 0), "daemon_handoffs_total 2000")
	})
}
