// Command server serves FILES/www with the file server of net/http on three ports of 127.0.0.1: HTTP/1.1, HTTPS with
// HTTP/1.1 and HTTP/2, and HTTP/2 with prior knowledge. It ends on SIGTERM, SIGINT or SIGHUP.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// grace is the time for open requests to finish after the signal.
const grace = 5 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "go-http:", err)
		os.Exit(1)
	}
}

func run() error {
	workers, err := strconv.Atoi(os.Getenv("HTTP_WORKERS"))
	if err != nil {
		return fmt.Errorf("HTTP_WORKERS: %w; set it to the number of workers", err)
	}
	runtime.GOMAXPROCS(workers)
	files := os.Getenv("FILES")
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	// Under nohup the daemon continues without its terminal.
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	shutdown, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()

	plain, err := listen("HTTP_PORT")
	if err != nil {
		return err
	}
	secure, err := listen("HTTPS_PORT")
	if err != nil {
		return err
	}
	h2c, err := listen("H2C_PORT")
	if err != nil {
		return err
	}
	server := newServer(files, new(http.Protocols))
	server.Protocols.SetHTTP1(true)
	http2 := newServer(files, new(http.Protocols))
	http2.Protocols.SetUnencryptedHTTP2(true)
	both := newServer(files, new(http.Protocols))
	both.Protocols.SetHTTP1(true)
	both.Protocols.SetHTTP2(true)

	ended := make(chan error, 3)
	go func() { ended <- server.Serve(plain) }()
	go func() { ended <- http2.Serve(h2c) }()
	tls := filepath.Join(files, "tls")
	go func() {
		ended <- both.ServeTLS(secure, filepath.Join(tls, "cert.pem"), filepath.Join(tls, "key.pem"))
	}()
	select {
	case err := <-ended:
		return err
	case <-shutdown.Done():
	}
	limited, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var errs []error
	for _, server := range []*http.Server{server, both, http2} {
		errs = append(errs, server.Shutdown(limited))
	}
	return errors.Join(errs...)
}

func newServer(files string, protocols *http.Protocols) *http.Server {
	return &http.Server{
		Handler:     http.FileServer(http.Dir(filepath.Join(files, "www"))),
		Protocols:   protocols,
		IdleTimeout: time.Minute,
	}
}

func listen(variable string) (net.Listener, error) {
	port := os.Getenv(variable)
	if port == "" {
		return nil, fmt.Errorf("%s is not set: set it to the port to listen on", variable)
	}
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
}
