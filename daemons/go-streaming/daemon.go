package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Descriptors that are kept for other things than streams: the standard ones, the runtime, the
	// metrics page, the handoffs that are just being read.
	reservedFiles = 64

	// How long nothing is accepted after the process ran out of descriptors. Trying again at once
	// would spin, for the connection stays in the queue.
	acceptPause = 10 * time.Millisecond
)

// A daemon takes handoffs and answers their clients.
type daemon struct {
	config   *config
	answer   *answer
	clock    *clock
	metrics  *metrics
	log      *limitedLog
	listener *listener
	waiter   *waiter
	pages    []*pageServer
	buffers  sync.Pool
	capacity int64

	// The goroutines that have to end before the daemon does.
	running sync.WaitGroup
	// Ends them, whatever they do.
	canceled context.Context
	cancel   context.CancelFunc
}

// newDaemon makes a daemon that listens already: a handoff sent now waits until run.
func newDaemon(c config) (*daemon, error) {
	openFiles, err := raiseOpenFiles()
	if err != nil {
		return nil, err
	}
	d := &daemon{
		config:   &c,
		answer:   newAnswer(c.messageCount, c.messageDelay),
		clock:    newClock(c.messageDelay),
		metrics:  newMetrics(),
		log:      newLimitedLog(),
		capacity: min(c.maxConnections, max(int64(openFiles)-reservedFiles, 1)),
	}
	makeRoom(min(uint64(d.capacity)+reservedFiles, openFiles))
	d.buffers.New = func() any { return newBuffer() }
	if d.capacity < c.maxConnections {
		d.log.warn("the limit of open files leaves room for %d streams", d.capacity)
	}
	d.canceled, d.cancel = context.WithCancel(context.Background())
	context.AfterFunc(d.canceled, d.clock.stop)
	if err := d.open(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// open makes what has to be closed.
func (d *daemon) open() (err error) {
	if d.waiter, err = newWaiter(); err != nil {
		return err
	}
	if address := d.config.metricsAddr; address != "" {
		const remedy = "another address: -metrics-addr or DAEMON_METRICS_ADDR; none: DAEMON_METRICS_ENABLED=false"
		if err := d.addPages(address, remedy, metricsPages(d.metrics), metricsTimeout); err != nil {
			return fmt.Errorf("listening for the metrics: %w", err)
		}
	}
	if address := d.config.pprofAddr; address != "" {
		// A profile takes as long as it was asked to.
		if err := d.addPages(address, "another address: -pprof-addr", pprofPages(), 0); err != nil {
			return fmt.Errorf("listening for pprof: %w", err)
		}
	}
	d.listener, err = listen(d.config)
	return err
}

func (d *daemon) addPages(address, remedy string, pages http.Handler, timeout time.Duration) error {
	server, err := newPageServer(address, remedy, pages, timeout)
	if err == nil {
		d.pages = append(d.pages, server)
	}
	return err
}

// run serves until the shutdown begins, then refuses further handoffs, takes those that wait in the
// accept queue, and lets streams go on for the grace time. Then it closes everything.
func (d *daemon) run(shutdown context.Context) {
	defer d.close()
	for _, server := range d.pages {
		go server.run()
	}
	go d.waiter.run()
	for _, file := range d.listener.files {
		d.running.Add(1)
		go d.receive(file)
	}

	<-shutdown.Done()
	d.listener.stop()
	grace := time.AfterFunc(d.config.shutdownGrace, d.cancel)
	defer grace.Stop()
	d.running.Wait()
}

func (d *daemon) close() {
	d.cancel()
	for _, server := range d.pages {
		server.close()
	}
	if d.waiter != nil {
		d.waiter.close()
	}
	if d.listener != nil {
		d.listener.close()
	}
}

// receive takes handoffs until the listener is stopped and its queue is empty.
func (d *daemon) receive(from *os.File) {
	defer d.running.Done()
	r := &receiver{daemon: d}
	for {
		err := each(from, r.take, r.endRush)
		if err == errStopped {
			return
		}
		// A handoff that lost its client has been counted already.
		if !errors.Is(err, reasonTruncated) {
			d.metrics.handoffFlaw(reasonOutOfDescriptors)
			d.log.warn("accepting: %v (%v)", reasonOutOfDescriptors, err)
		}
		time.Sleep(acceptPause)
		if d.whetherCanceled() != nil {
			return
		}
	}
}

// makeRoom has the kernel make room for so many descriptors in this process's table now.
//
// It doubles a table that is full, and with several threads each doubling waits for a grace period of
// RCU: the thread that opens stands still. At 1,024, 2,048, 4,096 … streams that was 8 to 17 ms, which
// alone was the p99 of the first byte. An entry takes 8 bytes of the kernel's memory. Where it fails,
// only this is lost.
func makeRoom(files uint64) {
	some, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return
	}
	if last, err := unix.FcntlInt(uintptr(some), unix.F_DUPFD_CLOEXEC, int(files)-1); err == nil {
		closeAll(last)
	}
	closeAll(some)
}

// whetherCanceled returns reasonCanceled once everything has to end.
func (d *daemon) whetherCanceled() error {
	if d.canceled.Err() != nil {
		return reasonCanceled
	}
	return nil
}

// raiseOpenFiles raises the soft limit of open files to the hard one and returns it.
func raiseOpenFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Cur == limit.Max {
		return limit.Max, nil
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("raising the limit of open files to the hard limit: %w", err)
	}
	return limit.Max, nil
}
