package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// A stream is one client that is being answered, by a goroutine of its own.
//
// While it waits it keeps a stack of 2 KiB, which nothing here may outgrow (the payload is parsed
// elsewhere for that reason), the goroutine's own record, and what is below.
type stream struct {
	client int
	// When the stream began. Due times are reckoned from here, so that lateness never adds up.
	started time.Time
	// Freed after the last write that needs it, so that a held stream does not pay for its prompt.
	opening *opening
}

// run answers the client and closes it.
func (s *stream) run(d *daemon) {
	err := s.serve(d)
	// Counted before the client is closed: what it has seen to its end is on the page, and its place
	// is free.
	if err == nil {
		d.metrics.streamCompleted(time.Since(s.started))
	} else {
		d.metrics.streamFailed(err.(reason))
	}
	closeAll(s.client)
	d.running.Done()
}

func (s *stream) serve(d *daemon) error {
	for n := 0; n <= d.answer.messages; n++ {
		if err := s.pause(d, d.answer.offset(n)); err != nil {
			return err
		}
		if err := s.write(d, d.answer.bytes(n, s.opening)); err != nil {
			return err
		}
		s.wrote(d, n)
	}
	return nil
}

// pause waits until the offset from the start of the stream, if that is still to come. Also a stream
// that never waits hears here that the daemon ends.
func (s *stream) pause(d *daemon, offset time.Duration) error {
	due := s.started.Add(offset)
	if !time.Now().Before(due) {
		return d.whetherCanceled()
	}
	return d.clock.wait(due, d.metrics.activeStreams.Load())
}

func (s *stream) wrote(d *daemon, n int) {
	if n > 0 {
		d.metrics.chunks.Inc()
	}
	if n == 1 {
		d.metrics.backendTTFB.Observe(time.Since(s.started).Seconds())
	}
	if n >= 2 {
		s.opening = nil
	}
}

// write writes all of the bytes, and waits for a client that does not take them at once.
func (s *stream) write(d *daemon, bytes []byte) error {
	n, err := sendNow(s.client, bytes)
	if err != nil {
		return reasonOf(err)
	}
	d.metrics.wrote(n)
	if n < len(bytes) {
		return s.writeRest(d, bytes[n:])
	}
	return nil
}

// writeRest writes the bytes as the client makes room for them, within the write timeout.
func (s *stream) writeRest(d *daemon, bytes []byte) error {
	deadline := time.Now().Add(d.config.writeTimeout)
	for len(bytes) > 0 {
		if err := d.waiter.wait(d.canceled, s.client, unix.EPOLLOUT, time.Until(deadline)); err != nil {
			return err
		}
		n, err := sendNow(s.client, bytes)
		if err != nil {
			return reasonOf(err)
		}
		d.metrics.wrote(n)
		bytes = bytes[n:]
	}
	return nil
}
