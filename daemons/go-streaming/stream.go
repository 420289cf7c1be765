package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// consecutiveWrites is the maximum number of due writes of one stream that are made before other streams
// of its tick continue.
const consecutiveWrites = 32

// A stream answers one client.
//
// While it waits for its time, it is these fields and an entry of the clock: a goroutine would cost a stack
// of 2 KiB and a record of 0.4 KiB. It has a goroutine while its client does not read.
type stream struct {
	client int
	// The number of the next write.
	next int
	// The start of the stream. Due times count from here, so that lateness does not accumulate.
	started time.Time
	// Freed after the last write that needs it, so that an idle stream does not keep its prompt in memory.
	opening *opening
}

// run makes the due writes. It leaves the stream to the clock until the next one is due, or ends it.
func (s *stream) run(ctx context.Context, d *daemon) {
	for writes := 0; s.next <= d.answer.messages; writes++ {
		due := s.started.Add(d.answer.offset(s.next))
		switch {
		case ctx.Err() != nil:
			s.end(ctx, d, reasonCanceled)
			return
		case time.Now().Before(due):
			if !d.clock.add(s, due, d.metrics.activeStreams.Load()) {
				s.end(ctx, d, reasonCanceled)
			}
			return
		case writes == consecutiveWrites:
			go s.run(ctx, d)
			return
		}
		data := d.answer.bytes(s.next, s.opening)
		n, err := sendNow(s.client, data)
		if err != nil {
			s.end(ctx, d, reasonOf(err))
			return
		}
		d.metrics.wrote(n)
		if n < len(data) {
			go s.finishWrite(ctx, d, data[n:])
			return
		}
		s.wrote(d)
	}
	s.end(ctx, d, nil)
}

// finishWrite writes the rest of the data when the client reads, and goes on.
func (s *stream) finishWrite(ctx context.Context, d *daemon, rest []byte) {
	if err := s.writeRest(ctx, d, rest); err != nil {
		s.end(ctx, d, err)
		return
	}
	s.wrote(d)
	s.run(ctx, d)
}

// end counts the stream and closes its client.
func (s *stream) end(ctx context.Context, d *daemon, err error) {
	// Counted before the client is closed: when the client sees the end, the page includes the stream
	// and its slot is free.
	if err == nil {
		d.metrics.streamCompleted(time.Since(s.started))
	} else {
		d.metrics.streamFailed(asReason(err))
	}
	if err == nil && hasUnread(s.client) {
		d.running.Go(func() { d.linger(ctx, s.client) })
	} else {
		closeAll(s.client)
	}
	d.running.Done()
}

// wrote counts the write that was made.
func (s *stream) wrote(d *daemon) {
	if s.next > 0 {
		d.metrics.chunks.Inc()
	}
	if s.next == 1 {
		d.metrics.backendTTFB.Observe(time.Since(s.started).Seconds())
	}
	if s.next >= 2 {
		s.opening = nil
	}
	s.next++
}

// writeRest writes the data as the client reads, within the write timeout.
func (s *stream) writeRest(ctx context.Context, d *daemon, data []byte) error {
	deadline := time.Now().Add(d.config.writeTimeout)
	for len(data) > 0 {
		if err := d.waiter.wait(ctx, s.client, unix.EPOLLOUT, time.Until(deadline)); err != nil {
			return err
		}
		n, err := sendNow(s.client, data)
		if err != nil {
			return reasonOf(err)
		}
		d.metrics.wrote(n)
		data = data[n:]
	}
	return nil
}
