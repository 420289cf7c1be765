package main

import (
	"sync"
	"time"
)

// fineGrain is the grain of a clock with few waiters. A write is not delayed by more than the error of
// a timer.
const fineGrain = 50 * time.Microsecond

// A clock wakes streams that are due at about the same time together. They share one timer and one
// channel, which the timer closes. Waking the process costs more than the write itself.
type clock struct {
	epoch  time.Time
	coarse time.Duration
	// The delay between two writes of a stream.
	period time.Duration

	mutex   sync.Mutex
	ticks   map[time.Duration]chan struct{} // by the time since the epoch
	stopped bool
}

// newClock makes a clock for streams that are due once per period.
//
// The grain is 1/500 of the period, but at least 1 ms and at most 5 ms. It limits how late a write can
// be. Lateness does not accumulate, because due times do not move.
func newClock(period time.Duration) *clock {
	return &clock{
		epoch:  time.Now(),
		coarse: min(max(period/500, time.Millisecond), 5*time.Millisecond),
		period: period,
		ticks:  map[time.Duration]chan struct{}{},
	}
}

// wait blocks until the due time, rounded up to the grain. The grain is coarse if the number of open
// streams makes more than one of them due within it. It fails once the clock is stopped.
func (c *clock) wait(due time.Time, open int64) error {
	grain := fineGrain
	if time.Duration(open)*c.coarse > c.period {
		grain = c.coarse
	}
	tick := c.tick((due.Sub(c.epoch) + grain - 1).Truncate(grain))
	if tick != nil {
		<-tick
	}
	if c.isStopped() {
		return reasonCanceled
	}
	return nil
}

// tick returns the channel that is closed at the given time, or nil if the clock is stopped.
func (c *clock) tick(at time.Duration) <-chan struct{} {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return nil
	}
	tick, ok := c.ticks[at]
	if !ok {
		tick = make(chan struct{})
		c.ticks[at] = tick
		time.AfterFunc(time.Until(c.epoch.Add(at)), func() { c.fire(at) })
	}
	return tick
}

// fire wakes the streams that wait for the given time.
func (c *clock) fire(at time.Duration) {
	c.mutex.Lock()
	tick, ok := c.ticks[at]
	delete(c.ticks, at)
	c.mutex.Unlock()
	if ok {
		close(tick)
	}
}

func (c *clock) isStopped() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.stopped
}

// stop wakes all waiters. Later calls of wait fail at once.
func (c *clock) stop() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stopped = true
	for _, tick := range c.ticks {
		close(tick)
	}
	clear(c.ticks)
}
