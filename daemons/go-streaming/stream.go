package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// A stream answers one client, in its own goroutine.
//
// While it waits, it holds a stack of 2 KiB, the goroutine's record, and the fields below. Nothing here
// may need a larger stack; for that reason the payload is parsed elsewhere.
type stream struct {
	client int
	// The start of the stream. Due times count from here, so that lateness does not accumulate.
	started time.Time
	// Freed after the last write that needs it, so that an idle stream does not keep its prompt in memory.
	opening *opening
}

// run answers the client and closes it.
func (s *stream) run(ctx context.Context, d *daemon) {
	err := s.serve(ctx, d)
	// Counted before the client is closed: when the client sees the end, the page includes the stream
	// and its slot is free.
	if err == nil {
		d.metrics.streamCompleted(time.Since(s.started))
	} else {
		d.metrics.streamFailed(asReason(err))
	}
	if err == nil && hasUnread(s.client) {
		d.linger(ctx, s.client)
	} else {
		closeAll(s.client)
	}
	d.running.Done()
}

func (s *stream) serve(ctx context.Context, d *daemon) error {
	for n := 0; n <= d.answer.messages; n++ {
		if err := s.pause(ctx, d, d.answer.offset(n)); err != nil {
			return err
		}
		if err := s.write(ctx, d, d.answer.bytes(n, s.opening)); err != nil {
			return err
		}
		s.wrote(d, n)
	}
	return nil
}

// pause waits until the offset from the start of the stream. If that time has passed, it only checks
// whether the daemon is ending.
func (s *stream) pause(ctx context.Context, d *daemon, offset time.Duration) error {
	due := s.started.Add(offset)
	if !time.Now().Before(due) {
		if ctx.Err() != nil {
			return reasonCanceled
		}
		return nil
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

// write writes all of the data. It waits if the client does not take everything at once.
func (s *stream) write(ctx context.Context, d *daemon, data []byte) error {
	n, err := sendNow(s.client, data)
	if err != nil {
		return reasonOf(err)
	}
	d.metrics.wrote(n)
	if n < len(data) {
		return s.writeRest(ctx, d, data[n:])
	}
	return nil
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
