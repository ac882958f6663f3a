package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/ledger"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// Server answers the calls to one service. Make it with New.
type Server struct {
	service wire.Service
	ledger  *ledger.Ledger
	plan    ledger.Plan
	log     *slog.Logger

	// ctx ends the calls that are held back; they stay in the ledger.
	ctx    context.Context
	cancel context.CancelFunc
	late   sync.WaitGroup
}

// New returns a server over an open ledger. It goes on holding back what a
// process before it held back. plan may be nil: no faults.
func New(ctx context.Context, s wire.Service, l *ledger.Ledger, plan ledger.Plan, log *slog.Logger) (*Server, error) {
	srv := &Server{service: s, ledger: l, plan: plan, log: log}
	srv.ctx, srv.cancel = context.WithCancel(ctx)
	held, err := l.Held(ctx)
	if err == nil {
		err = srv.overtaken(ctx)
	}
	if err != nil {
		srv.cancel()
		return nil, err
	}
	for _, h := range held {
		srv.holdBack(h)
	}
	return srv, nil
}

// Close stops waiting for calls that are held back, and waits until none is
// being delivered. The ledger stays open.
func (s *Server) Close() {
	s.cancel()
	s.late.Wait()
}

// Handler is the service's HTTP interface.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.HealthPath, func(w http.ResponseWriter, _ *http.Request) { s.write(w, http.StatusOK, []byte(`"ok"`)) })
	mux.HandleFunc("GET "+wire.LedgerPath, s.page)
	mux.HandleFunc("POST "+wire.SettlePath, s.settle)
	mux.HandleFunc("POST /"+s.service.Forward(), func(w http.ResponseWriter, r *http.Request) { s.call(w, r, s.service.Forward()) })
	if undo := s.service.Undo(); undo != "" {
		mux.HandleFunc("POST /"+undo, func(w http.ResponseWriter, r *http.Request) { s.call(w, r, undo) })
	}
	return mux
}

func (s *Server) call(w http.ResponseWriter, r *http.Request, endpoint string) {
	// A client that hangs up does not stop work that has begun.
	ctx := context.WithoutCancel(r.Context())
	c, err := s.read(w, r, endpoint)
	if err != nil {
		s.problem(w, err)
		return
	}
	a, err := s.ledger.Arrive(ctx, c, s.plan)
	if err != nil {
		s.problem(w, err)
		return
	}
	switch a.Fault.Kind {
	case chaos.LoseRequest:
		s.cut(w)
		return
	case chaos.DieBefore:
		s.die()
	case chaos.Late, chaos.LateAfterUndo:
		s.holdBack(*a.Held)
		s.cut(w)
		return
	case chaos.Slow:
		time.Sleep(a.Fault.Delay)
	}
	res, err := s.ledger.Do(ctx, c, a)
	if err != nil {
		s.problem(w, err)
		return
	}
	s.answer(ctx, w, res, a.Fault.Kind)
}

// answer tells the caller what became of its call, if the weather lets it.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, res ledger.Result, fault chaos.Kind) {
	if fault == chaos.DieAfter && res.Worked {
		s.die()
	}
	if res.Worked {
		// It may have been the undo that a call was held back for.
		if err := s.overtaken(ctx); err != nil {
			s.problem(w, err)
			return
		}
	}
	if fault == chaos.LoseAnswer && res.Worked {
		s.cut(w)
		return
	}
	s.write(w, res.Status, res.Body)
}

func (s *Server) read(w http.ResponseWriter, r *http.Request, endpoint string) (*ledger.Call, error) {
	fence, err := strconv.ParseInt(r.Header.Get(wire.FenceHeader), 10, 64)
	if err != nil {
		return nil, &ledger.BadCallError{Why: fmt.Sprintf("the header %s is no number", wire.FenceHeader)}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	if err != nil {
		return nil, &ledger.BadCallError{Why: fmt.Sprintf("the body cannot be read: %v", err)}
	}
	return s.ledger.NewCall(endpoint, r.Header.Get(wire.KeyHeader), fence, body)
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	page, err := s.ledger.Page(r.Context())
	if err != nil {
		s.problem(w, err)
		return
	}
	body, err := json.Marshal(page)
	if err != nil {
		s.problem(w, err)
		return
	}
	s.write(w, http.StatusOK, body)
}

// settle delivers at once all that is held back, so that the ledger's last page
// can be read.
func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	held, err := s.ledger.Held(r.Context())
	if err == nil {
		err = s.deliver(context.WithoutCancel(r.Context()), held)
	}
	if err != nil {
		s.problem(w, err)
		return
	}
	s.write(w, http.StatusOK, []byte(`"settled"`))
}

// problem answers with what kept the service from answering.
func (s *Server) problem(w http.ResponseWriter, err error) {
	p := wire.Problem{Code: wire.Internal, Detail: err.Error()}
	if _, bad := errors.AsType[*ledger.BadCallError](err); bad {
		p.Code = wire.BadCall
	} else {
		s.log.Error("a call has failed", "service", s.service, "error", err)
	}
	body, err := json.Marshal(p)
	if err != nil {
		s.log.Error("a problem cannot be told", "error", err)
	}
	s.write(w, p.Code.Status(), body)
}

func (s *Server) write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		// The client has hung up: its loss, it will ask again.
		s.log.Debug("an answer was not taken", "error", err)
	}
}

// cut ends the connection without a word.
func (s *Server) cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.problem(w, fmt.Errorf("cut the connection: %w", err))
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// A reset, as when a machine is gone. Without it, it is merely closed.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close() // nobody listens any more
}

// die ends the process as kill -9 does: nothing is flushed, nothing closed.
func (s *Server) die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		s.log.Error("the process cannot kill itself", "error", err)
		os.Exit(137)
	}
	select {} // until the signal has arrived
}
