// Package server is the running engined: a database, an engine on it, and the
// two addresses where it is reached.
//
// It owns the order in which these begin and end, whether the whole is ready,
// what operators read (server's start lines, /metrics), and the exit codes. It
// must not know any rule of the engine.
//
// # Start and stop
//
// The addresses are taken first: what cannot be bound fails before a file is
// made, and /readyz tells what is under way while the database is read.
//
//	start: bind both ─▶ HTTP ─▶ database ─▶ engine ─▶ gRPC, ready
//	stop:  not ready ─▶ gRPC drains, within the budget ─▶ engine ─▶ database ─▶ HTTP
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/engined/engined/cmd/engined/internal/config"
	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/rpc"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/internal/svc"
)

// Protocol is the version of the worker stream that this build speaks.
const Protocol = engine.Protocol

// What follows the drain is bounded, too.
const (
	closeBudget = 5 * time.Second // the last commit and the files
	httpBudget  = time.Second     // a scrape under way
)

// Options are what a server is made of.
type Options struct {
	Config *config.Config
	Build  Build
	// Stdout gets the lines of a start, Stderr the logs.
	Stdout, Stderr io.Writer
	// Driver is the usual one if nil.
	Driver sqlite.Driver
}

// Build says which build runs.
type Build struct{ Version, Commit, Go string }

// FatalError says that the engine cannot go on in this process, as after a
// failed sync. A start afterwards finds the truth on disk.
type FatalError struct{ Err error }

func (e *FatalError) Error() string {
	return "the engine cannot go on: " + e.Err.Error() + ": start it again"
}

func (e *FatalError) Unwrap() error { return e.Err }

// Why a server is not ready, apart from its engine's reasons.
var (
	errStarting = errors.New("the engine is starting: the database is being read")
	errStopping = errors.New("the engine is being shut down")
)

var errNoCommit = fmt.Errorf("the last commit could not be made within %v; nothing of it was acknowledged", closeBudget)

// Server is a running engined. Make it with Open.
type Server struct {
	c    *config.Config
	log  *slog.Logger
	info store.Info
	kept bool // the database was there before

	grpcAt, httpAt net.Listener // httpAt is nil if HTTP is off
	http           *http.Server
	rpc            *rpc.Server
	group          *svc.Group
	metrics        *metrics

	closing  sync.Once
	closeErr error

	mu     sync.Mutex
	engine *engine.Engine
	phase  error // errStarting, errStopping or nil
}

// Open starts everything, in order. When it fails nothing runs. ctx bounds the
// start; the server ends by Close.
func Open(ctx context.Context, o Options) (*Server, error) {
	s := &Server{c: o.Config, log: logger(o), phase: errStarting, group: svc.New(context.Background())}
	for _, w := range o.Config.Warnings {
		s.log.Warn(w)
	}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (s *Server) open(ctx context.Context, o Options) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	s.metrics = newMetrics(o.Build, s)
	s.serveHTTP()
	e, err := s.openEngine(ctx, o)
	if err != nil {
		return err
	}
	s.rpc = rpc.NewServer(e, rpc.Options{Logger: s.log, Version: o.Build.Version, Observe: s.metrics.observe})
	s.group.Go("gRPC", func(context.Context) error {
		if err := s.rpc.Serve(s.grpcAt); !errors.Is(err, grpc.ErrServerStopped) { // that is: stopped before it began
			return err
		}
		return nil
	})
	s.group.Go("watch of the engine", func(ctx context.Context) error {
		select {
		case <-e.Stopped():
			return &FatalError{e.Err()}
		case <-ctx.Done():
			return nil
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.phase = e, nil
	return nil
}

func (s *Server) openEngine(ctx context.Context, o Options) (*engine.Engine, error) {
	if info, err := os.Stat(s.c.Database); err == nil {
		s.kept = info.Size() > 0
	}
	if o.Driver == nil {
		o.Driver = mattn.Driver()
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Path: s.c.Database, Shards: s.c.Shards, Driver: o.Driver})
	if err != nil {
		return nil, fmt.Errorf("database (%s): %w", s.c.From("database"), err)
	}
	s.info = st.Info()
	e, err := engine.Open(ctx, engine.Config{
		Store: st, Logger: s.log,
		ReclaimGrace: s.c.ReclaimGrace, RestartGrace: s.c.RestartGrace,
		ResidentRuns: s.c.ResidentRuns, MailboxLimit: s.c.MailboxLimit,
	})
	if err == nil {
		return e, nil
	}
	err = errors.Join(err, st.Close())
	if fatal := (*store.FatalError)(nil); errors.As(err, &fatal) {
		return nil, &FatalError{err}
	}
	return nil, err
}

// GRPCAddr is where gRPC is served.
func (s *Server) GRPCAddr() net.Addr { return s.grpcAt.Addr() }

// HTTPAddr is where HTTP is served, or nil if it is off.
func (s *Server) HTTPAddr() net.Addr {
	if s.httpAt == nil {
		return nil
	}
	return s.httpAt.Addr()
}

// Failed is closed when a part of the server has ended by itself, or the server
// was closed; Err then says why.
func (s *Server) Failed() <-chan struct{} { return s.group.Context().Done() }

// Err is the first error of a part that ended by itself, or nil.
func (s *Server) Err() error {
	if cause := context.Cause(s.group.Context()); cause != errStopping {
		return cause
	}
	return nil
}

// Ready says why requests are not served, or nil.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != nil {
		return s.phase
	}
	return s.engine.Ready()
}

// running is the engine, or nil while it starts.
func (s *Server) running() *engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// Close stops everything, in order. ctx bounds the drain: calls and streams are
// cut when it ends. What then remains is short, and bounded too. A second call
// waits for the first.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Server) close(ctx context.Context) error {
	s.mu.Lock()
	s.phase = errStopping
	s.mu.Unlock()
	failed := s.Err()
	if s.rpc != nil {
		s.rpc.Stop(ctx)
	}
	var errs []error
	if e := s.running(); e != nil {
		last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeBudget, errNoCommit)
		defer cancel()
		if err := e.Close(last); failed == nil && err != nil {
			errs = append(errs, fmt.Errorf("close the engine: %w", err))
		}
	}
	s.group.Stop(errStopping)
	if s.http != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpBudget)
		defer cancel()
		if s.http.Shutdown(last) != nil {
			errs = append(errs, s.http.Close())
		}
	}
	// The listeners are closed by who serves them, if anybody does yet.
	for _, l := range []net.Listener{s.grpcAt, s.httpAt} {
		if l != nil {
			l.Close()
		}
	}
	return errors.Join(append([]error{s.group.Wait()}, errs...)...)
}

// Kept says whether the database was there before this start.
func (s *Server) Kept() bool { return s.kept }
