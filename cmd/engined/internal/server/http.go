package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// serveHTTP begins to serve what operators ask for. A peer can hold a connection
// only for as long as these limits say.
func (s *Server) serveHTTP() {
	if s.httpAt == nil {
		return
	}
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.group.Go("HTTP", func(context.Context) error {
		if err := s.http.Serve(s.httpAt); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	// The process lives and answers: nothing more is said.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { line(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			line(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		line(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", s.metrics.handler(s.log))
	return mux
}

func line(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
