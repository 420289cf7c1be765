package main

import (
	"sync"
	"time"
)

// The grain of a clock that few wait for: it makes no write later than a timer does anyway.
const fineGrain = 50 * time.Microsecond

// A clock wakes all that are due about the same time together: they share one timer and one channel,
// which is closed for them. A wake-up of the process costs more than the write that it is for.
type clock struct {
	epoch  time.Time
	coarse time.Duration
	// The delay after which a stream is due again.
	period time.Duration

	mutex  sync.Mutex
	ticks  map[time.Duration]chan struct{} // by the time since the epoch
	silent bool
}

// newClock makes a clock for streams that are due every period.
//
// Its grain is 1/500 of the period, but no less than 1 ms and no more than 5 ms: so late is a write
// at most. Lateness never adds up, because due times do not move.
func newClock(period time.Duration) *clock {
	return &clock{
		epoch:  time.Now(),
		coarse: min(max(period/500, time.Millisecond), 5*time.Millisecond),
		period: period,
		ticks:  map[time.Duration]chan struct{}{},
	}
}

// wait waits until the due time, and then up to a grain. The grain is coarse if so many streams are
// open that more than one falls due within it. It fails when the clock is stopped.
func (c *clock) wait(due time.Time, open int64) error {
	grain := fineGrain
	if time.Duration(open)*c.coarse > c.period {
		grain = c.coarse
	}
	tick := c.tick((due.Sub(c.epoch) + grain - 1).Truncate(grain))
	if tick != nil {
		<-tick
	}
	if c.isSilent() {
		return reasonCanceled
	}
	return nil
}

// tick returns the channel that is closed at a time, or nil if the clock is stopped.
func (c *clock) tick(at time.Duration) <-chan struct{} {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.silent {
		return nil
	}
	tick, there := c.ticks[at]
	if !there {
		tick = make(chan struct{})
		c.ticks[at] = tick
		time.AfterFunc(time.Until(c.epoch.Add(at)), func() { c.ring(at) })
	}
	return tick
}

// ring wakes those who wait for a time.
func (c *clock) ring(at time.Duration) {
	c.mutex.Lock()
	tick, there := c.ticks[at]
	delete(c.ticks, at)
	c.mutex.Unlock()
	if there {
		close(tick)
	}
}

func (c *clock) isSilent() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.silent
}

// stop wakes everybody, now and from now on.
func (c *clock) stop() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.silent = true
	for _, tick := range c.ticks {
		close(tick)
	}
	clear(c.ticks)
}
