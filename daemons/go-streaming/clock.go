package main

import (
	"sync"
	"time"
)

// fineGrain is the grain of a clock with few waiters. A write is not delayed by more than the error of
// a timer.
const fineGrain = 50 * time.Microsecond

// A clock resumes streams that are due at about the same time together. They share one timer. Waking the
// process costs more than the write itself.
type clock struct {
	epoch  time.Time
	coarse time.Duration
	// The delay between two writes of a stream.
	period time.Duration
	// Makes the due writes of a stream, without waiting.
	resume func(*stream)

	mutex   sync.Mutex
	ticks   map[time.Duration][]*stream // by the time since the epoch
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
		ticks:  map[time.Duration][]*stream{},
	}
}

// add resumes a stream at the due time, rounded up to the grain. The grain is coarse if the number of open
// streams makes more than one of them due within it. It returns false if the clock is stopped.
func (c *clock) add(s *stream, due time.Time, open int64) bool {
	grain := fineGrain
	if time.Duration(open)*c.coarse > c.period {
		grain = c.coarse
	}
	at := (due.Sub(c.epoch) + grain - 1).Truncate(grain)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return false
	}
	tick := c.ticks[at]
	if tick == nil {
		time.AfterFunc(time.Until(c.epoch.Add(at)), func() { c.fire(at) })
	}
	c.ticks[at] = append(tick, s)
	return true
}

// fire resumes the streams that wait for the given time.
func (c *clock) fire(at time.Duration) {
	c.mutex.Lock()
	tick := c.ticks[at]
	delete(c.ticks, at)
	c.mutex.Unlock()
	for _, s := range tick {
		c.resume(s)
	}
}

// stop resumes all streams. Later calls of add fail at once.
func (c *clock) stop() {
	c.mutex.Lock()
	c.stopped = true
	ticks := c.ticks
	c.ticks = nil
	c.mutex.Unlock()
	for _, tick := range ticks {
		for _, s := range tick {
			c.resume(s)
		}
	}
}
