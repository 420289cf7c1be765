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
	// How long a client may take to send its request head.
	headTimeout = 5 * time.Second
	// How long the request of a metrics page may take, and its answer.
	metricsTimeout = 30 * time.Second
	// How long a connection is kept between two requests.
	idleTimeout = 30 * time.Second
)

// metricsPages are /metrics and /healthz.
func metricsPages(m *metrics) http.Handler {
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	return pages
}

// pprofPages are Go's own profiles, below /debug/pprof/.
func pprofPages() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	pages.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return pages
}

// A pageServer serves pages over HTTP at an address of its own.
type pageServer struct {
	listener net.Listener
	server   *http.Server
}

// newPageServer listens; remedy says what to do about an address that cannot be used. A request
// may take the timeout, and its answer too; with 0 as long as they like.
func newPageServer(address, remedy string, pages http.Handler, timeout time.Duration) (*pageServer, error) {
	listener, err := net.Listen("tcp", address)
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
	return &pageServer{listener, server}, nil
}

// address is where the pages are; with the port that the system chose, if it was asked to.
func (s *pageServer) address() string {
	return s.listener.Addr().String()
}

// run serves until close.
func (s *pageServer) run() {
	s.server.Serve(s.listener)
}

func (s *pageServer) close() {
	s.server.Close()
	// In case that run never began.
	s.listener.Close()
}
