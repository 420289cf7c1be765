package main

import (
	"time"
)

// A rush is over when the accept queue is empty, or when so many clients have been taken.
const rushLimit = 4096

// A receiver takes handoffs. There are two, so that one goes on while the other is off its core.
type receiver struct {
	*daemon
	fresh []*stream // taken in this rush and not begun yet
}

// take reads a handoff connection that was accepted. The message is mostly there already; if not,
// it is waited for elsewhere, so that nobody else waits. It returns reasonTruncated if there was no
// room for the client's descriptor, for the next one would be lost as well.
//
// The streams begin when the rush is over: the accept queue is short (4,096) and a full one refuses
// handoffs, while a write can be late. Were each begun at once, thousands of goroutines would
// compete with the one that accepts.
func (d *receiver) take(connection int) error {
	d.metrics.connectionOpened()
	i := newIncoming(connection)
	s, err := d.tryRead(i)
	if err == errWait {
		d.running.Add(1)
		go d.await(i)
	}
	if s != nil {
		d.fresh = append(d.fresh, s)
	}
	if len(d.fresh) == rushLimit {
		d.endRush()
	}
	if err == reasonTruncated {
		return err
	}
	return nil
}

// endRush begins the streams of those that were taken.
func (d *receiver) endRush() {
	for _, s := range d.fresh {
		d.begin(s)
	}
	clear(d.fresh)
	d.fresh = d.fresh[:0]
}

func (d *daemon) begin(s *stream) {
	d.running.Add(1)
	go s.run(d)
}

// await reads a handoff connection whose message has not come yet, or not all of it.
func (d *daemon) await(i *incoming) {
	defer d.running.Done()
	var s *stream
	err := errWait
	for err == errWait {
		if err = i.wait(d.canceled, d.waiter); err == nil {
			s, err = d.tryRead(i)
		} else {
			s = d.giveUp(i, err.(reason))
		}
	}
	if s != nil {
		d.begin(s)
	}
}

// tryRead reads what is there. It returns errWait if more has to come; otherwise the handoff has
// been dealt with: it brought a stream or it did not.
func (d *daemon) tryRead(i *incoming) (*stream, error) {
	b := d.buffers.Get().(*buffer)
	defer d.buffers.Put(b)
	payload, err := i.read(d.config.isSeqpacket, b)
	switch {
	case err == nil:
		return d.finish(i, payload), nil
	case err != errWait:
		d.refuse(i, err.(reason))
	}
	return nil, err
}

// giveUp ends the waiting for a message. Half a payload is one that does not parse: the client is
// served with the defaults.
func (d *daemon) giveUp(i *incoming, r reason) *stream {
	if r == reasonTimeout && i.client != noClient {
		return d.finish(i, i.begun)
	}
	d.refuse(i, r)
	return nil
}

// finish closes the handoff connection and makes the stream of its client, if it is in order and
// there is a place for it.
func (d *daemon) finish(i *incoming, payload []byte) *stream {
	if i.client == noClient {
		d.refuse(i, reasonNoDescriptor)
		return nil
	}
	if err := prepareClient(i.client); err != nil {
		d.refuse(i, err.(reason))
		return nil
	}
	i.close()
	if i.surplus > 0 {
		d.flaw(reasonSurplusDescriptors, nil)
	}
	r, err := parseRequest(payload)
	if err != nil {
		d.flaw(reasonInvalidJSON, err)
		r = request{}
	}
	return d.place(i, d.answer.opening(r))
}

// place takes one of the places for streams, or turns the client away.
func (d *daemon) place(i *incoming, o *opening) *stream {
	started := time.Now()
	d.metrics.handoffDone(started.Sub(i.accepted))
	if !d.metrics.tryStartStream(d.capacity) {
		turnAway(i.client)
		return nil
	}
	return &stream{client: i.client, started: started, opening: o}
}

// turnAway answers 503. A fresh socket takes it at once; to one that does not, the close has to say
// it.
func turnAway(client int) {
	sendNow(client, []byte(refusal))
	closeAll(client)
}

// refuse ends a handoff that brings no stream.
func (d *daemon) refuse(i *incoming, r reason) {
	i.drop()
	d.metrics.handoffFailed(r)
	if r != reasonEmpty {
		d.log.warn("handoff refused: %v", r)
	}
}

// flaw notes what is wrong with a handoff that brings a stream all the same.
func (d *daemon) flaw(r reason, why error) {
	d.metrics.handoffFlaw(r)
	if why != nil {
		d.log.warn("%v: %v", r, why)
	} else {
		d.log.warn("%v", r)
	}
}
