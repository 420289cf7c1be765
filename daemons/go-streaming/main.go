// Command streaming-daemon takes client sockets over a Unix socket (SCM_RIGHTS) and answers each
// with server-sent events: one goroutine per connection. daemons/README.md describes the protocol.
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
	exitFailed    = 1 // what was called went wrong
	exitWrongCall = 2 // the call was wrong
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
		complain(err)
		return exitWrongCall
	case options.version:
		fmt.Println("streaming-daemon", version, "(Go)")
		return 0
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	daemon, err := newDaemon(options.config)
	if err != nil {
		complain(err)
		return exitFailed
	}
	serve(daemon, signals)
	if options.benchmark {
		fmt.Print(daemon.metrics.summary())
	}
	return 0
}

// serve runs the daemon until the first signal asks for its end, and to that end; a second signal
// does not wait for it.
func serve(daemon *daemon, signals <-chan os.Signal) {
	shutdown, ask := context.WithCancel(context.Background())
	defer ask()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		daemon.run(shutdown)
	}()
	<-signals
	ask()
	select {
	case <-ended:
	case <-signals:
		daemon.listener.close()
	}
}

func complain(err error) {
	fmt.Fprintln(os.Stderr, "streaming-daemon:", err)
}
