package main

import (
	"context"
	"errors"
	"time"
)

// batchLimit is the maximum number of clients in a batch. A batch also ends when the accept queue is
// empty.
const batchLimit = 4096

// A receiver accepts handoffs. There are two, so that one continues while the other is not scheduled.
type receiver struct {
	*daemon
	batch []*stream // received in this batch and not started yet
}

// take reads an accepted handoff connection. Its message has usually arrived; if not, a separate
// goroutine waits for it. take returns reasonTruncated if no descriptor was free for the client,
// because the next client would be lost as well.
//
// The streams start when the batch ends: the accept queue is short (4,096) and refuses handoffs when
// it is full, while a write can be late. If each stream started at once, thousands of goroutines would
// compete with the one that accepts.
func (r *receiver) take(ctx context.Context, connection int) error {
	r.metrics.connectionOpened()
	in := newIncoming(connection)
	s, err := r.tryRead(ctx, in)
	if errors.Is(err, errWait) {
		r.running.Go(func() { r.await(ctx, in) })
	}
	if s != nil {
		r.batch = append(r.batch, s)
	}
	if len(r.batch) == batchLimit {
		r.endBatch(ctx)
	}
	if errors.Is(err, reasonTruncated) {
		return err
	}
	return nil
}

// endBatch starts the streams of the batch.
func (r *receiver) endBatch(ctx context.Context) {
	for _, s := range r.batch {
		r.begin(ctx, s)
	}
	clear(r.batch)
	r.batch = r.batch[:0]
}

func (d *daemon) begin(ctx context.Context, s *stream) {
	d.running.Add(1)
	go s.run(ctx, d)
}

// await waits for the message of a handoff connection, or for the rest of it.
func (d *daemon) await(ctx context.Context, in *incoming) {
	var s *stream
	err := errWait
	for errors.Is(err, errWait) {
		if err = in.wait(ctx, d.waiter); err == nil {
			s, err = d.tryRead(ctx, in)
		} else {
			s = d.giveUp(ctx, in, asReason(err))
		}
	}
	if s != nil {
		d.begin(ctx, s)
	}
}

// tryRead reads what has arrived. It returns errWait if the message is incomplete. Otherwise the
// handoff is finished or refused; the stream is nil if it was refused or turned away.
func (d *daemon) tryRead(ctx context.Context, in *incoming) (*stream, error) {
	b := d.buffers.Get().(*buffer)
	defer d.buffers.Put(b)
	payload, err := in.read(d.config.isSeqpacket, b)
	switch {
	case err == nil:
		return d.finish(ctx, in, payload), nil
	case !errors.Is(err, errWait):
		d.refuse(in, asReason(err))
	}
	return nil, err
}

// giveUp stops waiting for a message. After a timeout, a client whose payload is incomplete is served
// with the defaults.
func (d *daemon) giveUp(ctx context.Context, in *incoming, r reason) *stream {
	if r == reasonTimeout && in.client != noClient {
		return d.finish(ctx, in, in.begun)
	}
	d.refuse(in, r)
	return nil
}

// finish closes the handoff connection and makes the stream of its client. It returns nil if the
// handoff is invalid or the limit of streams is reached.
func (d *daemon) finish(ctx context.Context, in *incoming, payload []byte) *stream {
	if in.client == noClient {
		d.refuse(in, reasonNoDescriptor)
		return nil
	}
	if err := prepareClient(in.client); err != nil {
		d.refuse(in, asReason(err))
		return nil
	}
	in.close()
	if in.surplus > 0 {
		d.anomaly(reasonSurplusDescriptors, nil)
	}
	req, err := parseRequest(payload)
	if err != nil {
		d.anomaly(reasonInvalidJSON, err)
		req = request{}
	}
	return d.admit(ctx, in, d.answer.opening(req))
}

// admit makes a stream, or turns the client away if the limit of streams is reached.
func (d *daemon) admit(ctx context.Context, in *incoming, o *opening) *stream {
	started := time.Now()
	d.metrics.handoffDone(started.Sub(in.accepted))
	if !d.metrics.tryStartStream(d.capacity) {
		d.turnAway(ctx, in.client)
		return nil
	}
	return &stream{client: in.client, started: started, opening: o}
}

// turnAway answers 503. A fresh socket takes the answer at once; if it does not, the client only sees
// the connection close. More may be on its way from a client that has just connected.
func (d *daemon) turnAway(ctx context.Context, client int) {
	sendNow(client, []byte(refusal))
	d.running.Go(func() { d.linger(ctx, client) })
}

// refuse ends a handoff that does not lead to a stream.
func (d *daemon) refuse(in *incoming, r reason) {
	in.drop()
	d.metrics.handoffFailed(r)
	if r != reasonEmpty {
		d.log.warn("handoff refused: %v", r)
	}
}

// anomaly counts and logs an irregularity of a handoff that leads to a stream nevertheless.
func (d *daemon) anomaly(r reason, cause error) {
	d.metrics.handoffAnomaly(r)
	if cause != nil {
		d.log.warn("%v: %v", r, cause)
	} else {
		d.log.warn("%v", r)
	}
}
