package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// The descriptors reserved for everything but streams: the standard ones, the runtime, the metrics
	// page, and the handoffs being read.
	reservedFiles = 64

	// The pause in accepting after the process ran out of descriptors. Retrying at once would spin,
	// because the connection stays in the queue.
	acceptPause = 10 * time.Millisecond
)

// A daemon receives handoffs and answers their clients.
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

	// The number of clients that may still read the end of their answer.
	lingering atomic.Int64

	// The goroutines that must end before the daemon does.
	running sync.WaitGroup
}

// newDaemon makes a daemon that is already listening. A handoff that arrives before run waits in the
// accept queue.
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
	preallocateFDTable(min(uint64(d.capacity)+reservedFiles, openFiles))
	d.buffers.New = func() any { return newBuffer() }
	if d.capacity < c.maxConnections {
		d.log.warn("the limit of open files allows only %d streams; for more, raise it (ulimit -Hn)", d.capacity)
	}
	if err := d.open(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// open creates the resources that close releases.
func (d *daemon) open() (err error) {
	if d.waiter, err = newWaiter(); err != nil {
		return err
	}
	if address := d.config.metricsAddr; address != "" {
		const remedy = "choose another address with -metrics-addr or DAEMON_METRICS_ADDR, or disable the metrics with DAEMON_METRICS_ENABLED=false"
		if err := d.addPages(address, remedy, metricsPages(d.metrics), metricsTimeout); err != nil {
			return fmt.Errorf("cannot listen for the metrics: %w", err)
		}
	}
	if address := d.config.pprofAddr; address != "" {
		// No timeout: the request says how long a profile takes.
		if err := d.addPages(address, "choose another address with -pprof-addr", pprofPages(), 0); err != nil {
			return fmt.Errorf("cannot listen for pprof: %w", err)
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

// run serves until shutdown is closed. Then it refuses new handoffs, accepts those that wait in the
// accept queue, lets streams continue for the grace period or until ctx is done, and closes everything.
func (d *daemon) run(ctx context.Context, shutdown <-chan struct{}) {
	defer d.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, d.clock.stop)
	for _, server := range d.pages {
		go server.run()
	}
	go d.waiter.run()
	for _, file := range d.listener.files {
		d.running.Go(func() { d.receive(ctx, file) })
	}

	<-shutdown
	d.listener.stop()
	grace := time.AfterFunc(d.config.shutdownGrace, cancel)
	defer grace.Stop()
	d.running.Wait()
}

func (d *daemon) close() {
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

// receive accepts handoffs until the listener is stopped and its queue is empty.
func (d *daemon) receive(ctx context.Context, from *os.File) {
	r := &receiver{daemon: d}
	take := func(connection int) error { return r.take(ctx, connection) }
	endBatch := func() { r.endBatch(ctx) }
	for {
		err := acceptEach(from, take, endBatch)
		if errors.Is(err, errStopped) {
			return
		}
		// A handoff that lost its client is already counted.
		if !errors.Is(err, reasonTruncated) {
			d.metrics.handoffAnomaly(reasonOutOfDescriptors)
			d.log.warn("accepting: %v (%v)", reasonOutOfDescriptors, err)
		}
		time.Sleep(acceptPause)
		if ctx.Err() != nil {
			return
		}
	}
}

// preallocateFDTable makes the kernel enlarge the descriptor table of this process to the given number
// of files now.
//
// The kernel doubles a full table. With several threads, each doubling waits for an RCU grace period,
// and the thread that opens a descriptor blocks meanwhile. At 1,024, 2,048, 4,096 … streams this took 8
// to 17 ms, which alone was the p99 of the first byte. An entry takes 8 bytes of kernel memory. Errors
// are ignored: the table then grows on demand.
func preallocateFDTable(files uint64) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return
	}
	if last, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, int(files)-1); err == nil {
		closeAll(last)
	}
	closeAll(fd)
}

// raiseOpenFiles raises the soft limit of open files to the hard limit and returns it.
func raiseOpenFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	if limit.Cur == limit.Max {
		return limit.Max, nil
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("cannot raise the limit of open files to the hard limit: %w", err)
	}
	return limit.Max, nil
}
