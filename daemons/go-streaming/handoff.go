package main

import (
	"time"
)

// take reads a handoff connection that was accepted. The message is mostly there already; if not,
// it is waited for elsewhere, so that nobody else waits.
func (d *daemon) take(connection int) {
	d.metrics.connectionOpened()
	i := newIncoming(connection)
	if d.tryRead(i) == errWait {
		d.running.Add(1)
		go d.await(i)
	}
}

// await reads a handoff connection whose message has not come yet, or not all of it.
func (d *daemon) await(i *incoming) {
	defer d.running.Done()
	err := errWait
	for err == errWait {
		if err = i.wait(d.canceled, d.waiter); err == nil {
			err = d.tryRead(i)
		} else {
			d.giveUp(i, err.(reason))
		}
	}
}

// tryRead reads what is there. It returns errWait if more has to come; otherwise the handoff has
// been dealt with, well or not.
func (d *daemon) tryRead(i *incoming) error {
	b := d.buffers.Get().(*buffer)
	defer d.buffers.Put(b)
	payload, err := i.read(d.config.isSeqpacket, b)
	switch {
	case err == nil:
		d.finish(i, payload)
	case err != errWait:
		d.refuse(i, err.(reason))
	}
	return err
}

// giveUp ends the waiting for a message. Half a payload is one that does not parse: the client is
// served with the defaults.
func (d *daemon) giveUp(i *incoming, r reason) {
	if r == reasonTimeout && i.client != noClient {
		d.finish(i, i.begun)
	} else {
		d.refuse(i, r)
	}
}

// finish closes the handoff connection and begins the stream of its client, if it is in order and
// there is a place for it.
func (d *daemon) finish(i *incoming, payload []byte) {
	if i.client == noClient {
		d.refuse(i, reasonNoDescriptor)
		return
	}
	if err := prepareClient(i.client); err != nil {
		d.refuse(i, err.(reason))
		return
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
	d.begin(i, d.answer.opening(r))
}

func (d *daemon) begin(i *incoming, o *opening) {
	started := time.Now()
	d.metrics.handoffDone(started.Sub(i.accepted))
	if !d.metrics.tryStartStream(d.capacity) {
		turnAway(i.client)
		return
	}
	s := &stream{client: i.client, started: started, opening: o}
	d.running.Add(1)
	go s.run(d)
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
