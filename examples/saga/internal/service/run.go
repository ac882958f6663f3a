package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/engined/engined/examples/saga/internal/ledger"
	"github.com/engined/engined/examples/saga/internal/proc"
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
// supervisor (see proc.Child). It prints the Ready line on out.
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
	return serve(proc.Child(ctx, parent), web, listener)
}

// Main is the whole life of a process that Env has made a service: in is its
// standard input.
func Main(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	c, err := ReadConfig(in)
	if err != nil {
		return err
	}
	return Run(ctx, c, in, out, log)
}

func serve(ctx context.Context, web *http.Server, listener net.Listener) error {
	served := make(chan error, 1)
	var aside sync.WaitGroup // not waited for: it says when it ends
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
