package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/engined/engined/examples/saga/internal/ledger"
)

// Ready begins the line that a service prints when it takes calls; its address
// follows.
const Ready = "ready "

const (
	// bindPatience is how long a restarted service tries for the port it had: a
	// connection of somebody else's may hold it for a moment.
	bindPatience = 5 * time.Second
	bindPause    = 20 * time.Millisecond
	// stopPatience is how long calls under way may take when a service stops.
	stopPatience = 2 * time.Second
)

// Run serves until ctx ends or parent does: a service must not outlive its
// supervisor, and the end of the supervisor's pipe is the one sign of it that a
// kill -9 gives, too. It prints the Ready line on out.
func Run(ctx context.Context, c Config, parent io.Reader, out io.Writer, log *slog.Logger) (err error) {
	l, err := ledger.Open(ctx, c.Path, c.Service, c.Shelves)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	srv, err := New(ctx, c.Service, l, c.plan(), log)
	if err != nil {
		return err
	}
	defer srv.Close()
	listener, err := listen(ctx, c.Addr)
	if err != nil {
		return fmt.Errorf("%s: listen: %w", c.Service, err)
	}
	web := &http.Server{Handler: srv.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: maxHeader}
	if _, err := fmt.Fprintln(out, Ready+listener.Addr().String()); err != nil {
		return errors.Join(fmt.Errorf("%s: say where it listens: %w", c.Service, err), listener.Close())
	}
	return serve(ctx, web, listener, parent)
}

// Main is the whole life of a process that Env has made a service: in is its
// standard input.
func Main(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	// Ctrl-C reaches every process of the terminal; a service ends when its
	// supervisor wants it to, after the callers.
	signal.Ignore(os.Interrupt)
	c, err := ReadConfig(in)
	if err != nil {
		return err
	}
	return Run(ctx, c, in, out, log)
}

func serve(ctx context.Context, web *http.Server, listener net.Listener, parent io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	orphaned := func() {
		// Nothing is ever written there: it ends, or its end fails, and both mean that
		// nobody is left.
		_, _ = io.Copy(io.Discard, parent)
		stop()
	}
	served := make(chan error, 1)
	// Neither is waited for: the first ends with the process, the second says so.
	var aside sync.WaitGroup
	aside.Go(orphaned)
	aside.Go(func() { served <- web.Serve(listener) })
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := web.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("stop serving: %w", err), web.Close())
	}
	return nil
}

// listen takes the address, patiently when it is one that this service had.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	patience := time.Now().Add(bindPatience)
	for {
		l, err := config.Listen(ctx, "tcp", addr)
		again := errors.Is(err, syscall.EADDRINUSE) && !strings.HasSuffix(addr, ":0") && time.Now().Before(patience)
		if !again {
			return l, err
		}
		time.Sleep(bindPause)
	}
}
