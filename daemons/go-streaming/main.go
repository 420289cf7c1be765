// Command streaming-daemon receives client sockets over a Unix socket (SCM_RIGHTS) and responds to each
// with server-sent events, with one goroutine per stream. daemons/README.md describes the protocol.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const version = "0.1.0"

const (
	exitFailure = 1 // the daemon failed
	exitUsage   = 2 // the command line or the environment is invalid
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(arguments []string) int {
	options, err := parseOptions(arguments, os.LookupEnv, os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		printError(err)
		return exitUsage
	case options.version:
		fmt.Println("streaming-daemon", version, "(Go)")
		return 0
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Under nohup the daemon continues without its terminal.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	d, err := newDaemon(options.config)
	if err != nil {
		printError(err)
		return exitFailure
	}
	serve(d, signals)
	if options.benchmark {
		fmt.Print(d.metrics.summary())
	}
	return 0
}

// serve runs the daemon. The first signal starts the shutdown, and a second one ends the open streams. A second
// SIGHUP does not: the shell and the kernel send one each when a terminal closes.
func serve(d *daemon, signals <-chan os.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	shutdown := make(chan struct{})
	go func() {
		<-signals
		close(shutdown)
		for <-signals == syscall.SIGHUP {
		}
		cancel()
	}()
	d.run(ctx, shutdown)
}

func printError(err error) {
	fmt.Fprintln(os.Stderr, "streaming-daemon:", err)
}
