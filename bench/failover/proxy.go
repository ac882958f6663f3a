package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// proxy passes connections on to the engine, until it swallows: then everything
// that comes is read and thrown away, both ways, and no connection is closed.
type proxy struct {
	lis     net.Listener
	to      string
	deaf    atomic.Bool
	mu      sync.Mutex
	conns   []net.Conn
	closed  bool
	running sync.WaitGroup
}

func newProxy(ctx context.Context, to string) (*proxy, error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{lis: lis, to: to}
	p.running.Go(func() { p.accept(ctx) })
	return p, nil
}

func (p *proxy) address() string { return p.lis.Addr().String() }

func (p *proxy) swallow() { p.deaf.Store(true) }

func (p *proxy) accept(ctx context.Context) {
	for {
		in, err := p.lis.Accept()
		if err != nil {
			return // closed
		}
		var d net.Dialer
		out, err := d.DialContext(ctx, "tcp", p.to)
		if err != nil {
			_ = in.Close() // as the engine would have refused it
			continue
		}
		if !p.keep(in, out) {
			return
		}
		p.running.Go(func() { p.copy(in, out) })
		p.running.Go(func() { p.copy(out, in) })
	}
}

// keep notes connections for close; false when that was before.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err == nil && !p.deaf.Load() {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			if !p.deaf.Load() {
				_ = to.Close()
			}
			return
		}
	}
}

func (p *proxy) close() error {
	err := p.lis.Close()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		if cerr := c.Close(); !errors.Is(cerr, net.ErrClosed) {
			err = errors.Join(err, cerr)
		}
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}
