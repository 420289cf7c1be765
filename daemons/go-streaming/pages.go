package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// Limits the time to receive a request head.
	headTimeout = 5 * time.Second
	// Limits the time to receive a request for a metrics page, and the time to send the response.
	metricsTimeout = 30 * time.Second
	// Limits the time that a connection stays idle between two requests.
	idleTimeout = 30 * time.Second
)

// metricsPages returns the handler of /metrics and /healthz.
func metricsPages(m *metrics) http.Handler {
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	return pages
}

// pprofPages returns the handler of Go's profiles, below /debug/pprof/.
func pprofPages() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	pages.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return pages
}

// A pageServer serves pages over HTTP at its own address.
type pageServer struct {
	listener net.Listener
	server   *http.Server
}

// newPageServer listens at an address. The error contains remedy, which says how to choose another
// address. The timeout limits reading the request and writing the response; 0 means no limit.
func newPageServer(address, remedy string, pages http.Handler, timeout time.Duration) (*pageServer, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, remedy)
	}
	server := &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       timeout,
		WriteTimeout:      timeout,
		IdleTimeout:       idleTimeout,
	}
	return &pageServer{ln, server}, nil
}

// address returns the address of the pages, with the actual port if the configured port is 0.
func (s *pageServer) address() string {
	return s.listener.Addr().String()
}

// run serves until close.
func (s *pageServer) run() {
	s.server.Serve(s.listener)
}

func (s *pageServer) close() {
	s.server.Close()
	// The server does not close the listener if run was never called.
	s.listener.Close()
}
