package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// listen takes both addresses.
func (s *Server) listen(ctx context.Context) error {
	var err error
	if s.grpcAt, err = s.bind(ctx, "grpc-address", s.c.GRPCAddress); err != nil {
		return err
	}
	if s.c.HTTPAddress == "" {
		return nil
	}
	s.httpAt, err = s.bind(ctx, "http-address", s.c.HTTPAddress)
	return err
}

func (s *Server) bind(ctx context.Context, option, addr string) (net.Listener, error) {
	lc := net.ListenConfig{}
	if !s.c.Insecure {
		// The configuration was checked for this, but a name may lead elsewhere
		// by now.
		lc.Control = func(_, at string, _ syscall.RawConn) error {
			if !loopback(at) {
				return fmt.Errorf("%s is beyond this machine's loopback: allow that with --insecure", at)
			}
			return nil
		}
	}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		why := err.Error()
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			why = fmt.Sprintf("%s is in use by another process: stop that (is it an engined?), or give another address with --%s (port 0 takes a free one)", addr, option)
		case errors.Is(err, syscall.EACCES):
			why = fmt.Sprintf("the system does not allow %s: ports below 1024 need a privilege; give another address with --%s", addr, option)
		}
		return nil, &listenError{fmt.Sprintf("%s (%s): %s", option, s.c.From(option), why), err}
	}
	if at := l.Addr().String(); !loopback(at) {
		s.log.Warn("INSECURE: served beyond this machine, without TLS and without asking who calls: whoever reaches it can read, start and end every workflow",
			"option", option, "address", at)
	}
	return l, nil
}

// listenError says in one line what is wrong with an address and what to do.
type listenError struct {
	text string
	err  error
}

func (e *listenError) Error() string { return e.text }
func (e *listenError) Unwrap() error { return e.err }

// loopback takes an address as a socket has it.
func loopback(at string) bool {
	ap, err := netip.ParseAddrPort(at)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
