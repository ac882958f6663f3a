package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	"github.com/engined/engined/internal/dial"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
	"github.com/engined/engined/sdk/client"
)

// session is one command on one engine.
type session struct {
	*globals
	cmd   *cobra.Command
	cl    *client.Client
	admin enginerpc.AdminClient
	// interrupted tells somebody who ends the command what becomes of the rest.
	interrupted string
	saying      sync.Mutex
}

// run makes a command's function: with a session, and errors that say what to do.
func (g *globals) run(f func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := g.check(); err != nil {
			return err
		}
		s := &session{globals: g, cmd: cmd}
		conn, err := dial.New(g.address, dial.Options{})
		if err != nil {
			return s.told(cmd.Context(), err)
		}
		g.address = full(g.address)
		defer func() { _ = conn.Close() }() // it was only asked
		s.admin = enginerpc.NewAdminClient(conn)
		s.cl, err = client.Dial(g.address, client.Options{
			Namespace: g.namespace, Codec: rawCodec{}, Logger: slog.New(patience{s}),
		})
		if err != nil {
			return s.told(cmd.Context(), err)
		}
		defer func() { _ = s.cl.Close() }()
		if err := s.hello(cmd.Context()); err != nil {
			return err
		}
		return s.told(cmd.Context(), f(cmd.Context(), s, args))
	}
}

// full is an address that is right by its form, with the ports that it leaves out.
func full(address string) string {
	var parts []string
	for part := range strings.SplitSeq(address, ",") {
		part = strings.TrimSpace(part)
		if _, _, err := net.SplitHostPort(part); err != nil {
			part = net.JoinHostPort(strings.Trim(part, "[]"), dial.DefaultPort)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// helloFor is how long an engine may be away, as while it is started again,
// before a command says that there is none.
const helloFor = 2 * time.Second

// hello makes sure that an engine answers, so that a wrong address is told soon:
// the client would ask again until its time is over.
func (s *session) hello(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, min(helloFor, s.timeout))
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	var last error
	for {
		_, err := s.admin.GetServerInfo(within, &pb.ServerInfoRequest{})
		err = rpcerr.FromStatus(within, "connect", err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, within.Err() == nil && !client.IsUnavailable(err):
			return s.told(ctx, err)
		case within.Err() == nil || last == nil:
			last = err
		}
		select {
		case <-again.C:
		case <-within.Done():
			return &exitError{exitUnreachable, fmt.Sprintf("no engine answers at %s (%s): `engined dev` starts one, --address names another", s.address, reason(last)), last}
		}
	}
}

// short bounds a call that is answered at once.
func (g *globals) short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.timeout)
}

// say tells a person something beside the output that was asked for.
func (s *session) say(format string, args ...any) {
	s.saying.Lock()
	defer s.saying.Unlock()
	fmt.Fprintf(s.cmd.ErrOrStderr(), format+"\n", args...)
}

// tables says whether a person reads the output.
func (g *globals) tables() bool { return g.output == "table" }

// try is a command line to be typed next, with the flags that lead to the same
// engine. Words that are no flags are quoted for a shell.
func (s *session) try(command string, words ...string) string {
	line := []string{"engined", command}
	for _, w := range words {
		line = append(line, view.Arg(w))
	}
	for _, flag := range []string{"address", "namespace"} {
		if f := s.cmd.Flags().Lookup(flag); f != nil && f.Changed {
			line = append(line, "--"+flag, view.Arg(f.Value.String()))
		}
	}
	return "`" + strings.Join(line, " ") + "`"
}

// names asks who the workers are, so that attempts can be told with names. They
// are shown without if the engine does not say.
func (s *session) names(ctx context.Context) view.Names {
	names := view.Names{}
	if !s.tables() {
		return names
	}
	ctx, cancel := s.short(ctx)
	defer cancel()
	res, err := s.admin.ListWorkers(ctx, &pb.ListWorkersRequest{Namespace: s.namespace})
	if err != nil {
		return names
	}
	for _, w := range res.Workers {
		names[w.Worker] = w.Identity
	}
	return names
}

// queues asks how the task queues stand; what matters first.
func (s *session) queues(ctx context.Context) ([]*pb.QueueInfo, error) {
	ctx, cancel := s.short(ctx)
	defer cancel()
	res, err := s.admin.ListQueues(ctx, &pb.ListQueuesRequest{Namespace: s.namespace}, grpc.WaitForReady(true))
	if err != nil {
		return nil, rpcerr.FromStatus(ctx, "list queues", err)
	}
	view.SortQueues(res.Queues)
	return res.Queues, nil
}

// patience tells a person what the client logs: that an engine has not answered
// for some seconds and is asked again.
type patience struct{ s *session }

// Enabled is true for what is worth a person's while.
func (p patience) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle writes one line.
func (p patience) Handle(_ context.Context, r slog.Record) error {
	why := ""
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			why = ": " + reason(err)
		}
		return true
	})
	p.s.say("no answer from %s yet%s; it is asked again, Ctrl-C ends that", p.s.address, why)
	return nil
}

// WithAttrs changes nothing in a line.
func (p patience) WithAttrs([]slog.Attr) slog.Handler { return p }

// WithGroup changes nothing in a line.
func (p patience) WithGroup(string) slog.Handler { return p }
