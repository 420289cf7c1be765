package main

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheSenderSeesTheConnectionClosedAndNotAByteOnIt(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, func(c *config) { kind(c); c.messageDelay = time.Hour })
		_, theirs := newClient(t)
		sender := daemon.connect()
		pass(t, sender, payload, theirs)
		// The sender keeps its end open: the daemon closes the connection, long before the stream ends.
		expectHungUp(t, sender)
		closeAll(sender, theirs)
	})
}

func TestPayloadsUpTo128KiBArriveWholeAndLongerOnesAreRefused(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, kind)
		for _, length := range []int{10_000, 64 * 1024, 100_000, 128 * 1024} {
			if answer := daemon.answerTo(payloadOf(length)); len(answer) != 1226+50+3-len("benchmark test") {
				t.Errorf("%d bytes: %q", length, answer)
			}
		}
		for _, length := range []int{128*1024 + 1, 150_000} {
			if answer := daemon.answerTo(payloadOf(length)); answer != "" {
				t.Errorf("%d bytes: %q", length, answer)
			}
		}
		daemon.expect(handoffErrors(reasonTooLarge, 2), handoffErrors(reasonInvalidJSON, 0), "daemon_active_connections 0")
	})
}

func TestAPayloadInPiecesIsPutTogetherOnAStreamSocket(t *testing.T) {
	daemon := start(t, func(c *config) { c.isSeqpacket = false })
	ours, theirs := newClient(t)
	sender := daemon.connect()
	pass(t, sender, payload[:5], theirs)
	closeAll(theirs)
	daemon.expect("daemon_connections_total 1")
	for _, b := range []byte(payload[5:]) {
		pass(t, sender, string(b))
	}
	expectHungUp(t, sender)
	closeAll(sender)
	if answer := readAll(t, ours); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
}

func TestSendersThatFallSilentAreGivenUpAfterFiveSecondsAndKeepNobodyWaiting(t *testing.T) {
	daemon := start(t, func(c *config) { c.isSeqpacket = false })
	silent, halting := daemon.connect(), daemon.connect()
	ours, theirs := newClient(t)
	pass(t, halting, payload[:20], theirs)
	closeAll(theirs)
	if answer := daemon.answerTo(payload); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
	daemon.expect("daemon_active_connections 2")
	expectHungUp(t, silent)
	expectHungUp(t, halting)
	closeAll(silent, halting)
	if answer := readAll(t, ours); len(answer) != 1226-len("benchmark test") {
		t.Errorf("%q", answer)
	}
	daemon.expect(handoffErrors(reasonTimeout, 1), handoffErrors(reasonInvalidJSON, 1))
}

func TestAMessageThatComesLateIsTaken(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, kind)
		sender := daemon.connect()
		daemon.expect("daemon_connections_total 1")
		ours, theirs := newClient(t)
		pass(t, sender, payload, theirs)
		closeAll(sender, theirs)
		if answer := readAll(t, ours); len(answer) != 1226 {
			t.Errorf("%q", answer)
		}
	})
}

func TestOfTwoDescriptorsTheFirstIsUsedAndTheSecondClosed(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, kind)
		first, theirFirst := newClient(t)
		second, theirSecond := newClient(t)
		sender := daemon.connect()
		pass(t, sender, payload, theirFirst, theirSecond)
		closeAll(sender, theirFirst, theirSecond)
		if answer := readAll(t, second); answer != "" {
			t.Errorf("the second got %q", answer)
		}
		if answer := readAll(t, first); len(answer) != 1226 {
			t.Errorf("the first got %q", answer)
		}
		daemon.expect(handoffErrors(reasonSurplusDescriptors, 1))
	})
}

func TestWhatIsNoStreamSocketAndWhatIsNoDescriptorIsRefused(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, kind)
		null, err := os.Open(os.DevNull)
		must(t, err)
		defer null.Close()
		datagram, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		must(t, err)
		defer unix.Close(datagram)
		for _, descriptors := range [][]int{{int(null.Fd())}, {datagram}, {}} {
			sender := daemon.connect()
			pass(t, sender, payload, descriptors...)
			expectHungUp(t, sender)
			closeAll(sender)
		}
		daemon.expect(handoffErrors(reasonNotAStreamSocket, 2), handoffErrors(reasonNoDescriptor, 1),
			"daemon_active_connections 0")
	})
}

func TestAProbeThatConnectsAndClosesCountsAsEmpty(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, kind)
		closeAll(daemon.connect())
		daemon.expect(handoffErrors(reasonEmpty, 1), "daemon_active_connections 0")
	})
}

// The kernel can report the end of a SEQPACKET connection while a message is queued. An empty record
// looks the same to the daemon, and the test controls when it is sent.
func TestAfterAFirstEndTheMessageIsLookedForOnceMore(t *testing.T) {
	daemon := start(t, unchanged)
	ours, theirs := newClient(t)
	sender := daemon.connect()
	must(t, unix.Sendmsg(sender, nil, nil, nil, 0))
	pass(t, sender, payload, theirs)
	closeAll(sender, theirs)
	if answer := readAll(t, ours); len(answer) != 1226 {
		t.Errorf("%q", answer)
	}
	daemon.expect(handoffErrors(reasonEmpty, 0))
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
	if _, err := in.read(true, b); err != reasonTruncated {
		t.Errorf("%v", err)
	}
	in.drop()
	for _, client := range []*os.File{first, second, third} {
		if answer := readAll(t, client); answer != "" {
			t.Errorf("%q", answer)
		}
	}
}

func TestATCPClientIsServedLikeAnyOther(t *testing.T) {
	daemon := start(t, unchanged)
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
	sender := daemon.connect()
	pass(t, sender, payload, int(theirs.Fd()))
	closeAll(sender)
	must(t, theirs.Close())
	must(t, accepted.Close())
	must(t, ours.SetReadDeadline(time.Now().Add(patience)))
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

func TestOfThousandsOfHandoffsThatRaceWithTheirReadingNoneIsLost(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemon := start(t, func(c *config) { kind(c); c.messageCount = 0 })
		for range 2_000 {
			if answer := daemon.answerTo(payload); len(answer) != 133 {
				t.Fatalf("%q", answer)
			}
		}
		daemon.expect(handoffErrors(reasonEmpty, 0), "daemon_handoffs_total 2000")
	})
}
