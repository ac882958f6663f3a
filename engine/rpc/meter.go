package rpc

import (
	"net"
	"sync"
	"sync/atomic"
)

// meter counts the bytes that come over each connection. A message may be large
// and the link slow: bytes of it are a sign of life long before it is whole.
type meter struct {
	mu    sync.Mutex
	reads map[string]*atomic.Int64 // by the peer's address
}

// metered is a listener whose connections are counted.
type metered struct {
	net.Listener
	m *meter
}

// Accept implements net.Listener.
func (l metered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &counted{Conn: c, m: l.m, reads: l.m.open(c.RemoteAddr().String())}, nil
}

type counted struct {
	net.Conn
	m     *meter
	reads *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.reads.Add(int64(n))
	}
	return n, err
}

func (c *counted) Close() error {
	c.m.close(c.RemoteAddr().String(), c.reads)
	return c.Conn.Close()
}

func (m *meter) open(peer string) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads == nil {
		m.reads = map[string]*atomic.Int64{}
	}
	n := new(atomic.Int64)
	m.reads[peer] = n
	return n
}

func (m *meter) close(peer string, n *atomic.Int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads[peer] == n {
		delete(m.reads, peer)
	}
}

// of returns the counter of a peer's connection; one that is not known does not
// move.
func (m *meter) of(peer string) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.reads[peer]; n != nil {
		return n
	}
	return new(atomic.Int64)
}
