package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// The exit codes of the process.
const (
	ExitFailure = 1
	// ExitUsage: the command line or the configuration is wrong; nothing was
	// begun.
	ExitUsage = 2
	// ExitFatal is EX_SOFTWARE of sysexits.h: the engine ended by itself.
	ExitFatal = 70
)

// ExitCode is how the process ends after Run has returned err.
func ExitCode(err error) int {
	var fatal *FatalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &fatal):
		return ExitFatal
	}
	return ExitFailure
}

// Run is a server's life: it starts, says so on stdout, calls ready, and serves
// until ctx is done; then it drains and stops. It returns nil after an orderly
// stop, also when it was told to stop while it started.
func Run(ctx context.Context, o Options, ready func(*Server)) error {
	s, err := Open(ctx, o)
	if err != nil {
		if ctx.Err() != nil && ExitCode(err) != ExitFatal {
			logger(o).Info("stopped before it was ready", "cause", context.Cause(ctx))
			return nil
		}
		return err
	}
	s.announce(o)
	ready(s)
	select {
	case <-ctx.Done():
		s.log.Info("stopping", "cause", context.Cause(ctx), "drain", s.c.DrainBudget.String())
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.c.DrainBudget)
		defer cancel()
		return s.Close(drain)
	case <-s.Failed():
		// Whoever waits is told at once: there is nothing to wait for.
		now, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		return s.Close(now)
	}
}

// announce says on stdout what runs and where, a stable line each.
func (s *Server) announce(o Options) {
	file := "new"
	if s.kept {
		file = "kept"
	}
	web := "off"
	if a := s.HTTPAddr(); a != nil {
		web = a.String()
	}
	say := sayer(s.c.LogFormat, o.Stdout)
	say("version", o.Build.Version)
	say("database", s.info.Path)
	say("file", file)
	say("shards", s.info.Shards)
	say("grpc", s.GRPCAddr().String())
	say("http", web)
	say("ready", nil)
}

// sayer writes lines "name: value", or records.
func sayer(format string, w io.Writer) func(name string, value any) {
	if format == "json" {
		log := slog.New(slog.NewJSONHandler(w, nil))
		return func(name string, value any) {
			if value == nil {
				log.Info(name)
				return
			}
			log.Info(name, "value", value)
		}
	}
	return func(name string, value any) {
		if value == nil {
			fmt.Fprintln(w, name)
			return
		}
		fmt.Fprintf(w, "%s: %v\n", name, value)
	}
}

func logger(o Options) *slog.Logger {
	opts := &slog.HandlerOptions{Level: o.Config.LogLevel}
	if o.Config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(o.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(o.Stderr, opts))
}
