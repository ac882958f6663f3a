package sim

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine"
	pb "github.com/engined/engined/proto/enginepb"
)

// conn is one worker's stream. Messages keep their order, take their time, and
// are lost when it breaks; each end notices that some time later.
type conn struct {
	n    *node
	x    *worker
	ws   *engine.WorkerStream // nil before the engine has the hello
	up   link
	down link
}

// link is one direction of a stream.
type link struct {
	w    *World
	to   *process
	wait []func() // on their way
	last int64
	dead bool
}

// pass delivers behind all that was passed before.
func (l *link) pass(do func()) {
	if l.dead {
		return
	}
	l.wait = append(l.wait, do)
	l.last = max(l.last, l.w.now+l.w.delay())
	l.w.after(l.to, l.last-l.w.now, func() {
		if l.dead {
			return
		}
		first := l.wait[0]
		l.wait = l.wait[1:]
		first()
	})
}

// die loses what is on its way.
func (l *link) die() { l.dead, l.wait = true, nil }

// connect opens a stream to the engine that serves, or tries again later.
func (x *worker) connect() {
	w, n := x.w, x.w.node
	if x.conn != nil {
		return
	}
	if n.e == nil || n.dead || n.frozen {
		w.after(&x.process, 50e6+w.rnd.Int64N(1e9), x.connect)
		return
	}
	c := &conn{n: n, x: x, up: link{w: w, to: &n.process}, down: link{w: w, to: &x.process}}
	hello := x.hello()
	x.opened(c)
	c.up.pass(func() { c.connected(hello) })
}

// connected is when the hello arrives.
func (c *conn) connected(hello *pb.Hello) {
	w := c.x.w
	ws, err := c.n.e.Connect(hello)
	if err != nil {
		w.say("%s does not take %s: %v", c.n.name, c.x.name, err)
		c.down.pass(c.lost)
		return
	}
	c.ws = ws
	if err := ws.Receive(&pb.WorkerUp{Seq: 1}); err != nil {
		c.down.pass(c.lost)
		return
	}
	w.spawn(&c.n.process, c.n.name+" sends to "+c.x.name, func() {
		for {
			next, err := ws.Next(w.ctx)
			if err != nil {
				w.say("%s ends the stream of %s: %v", c.n.name, c.x.name, err)
				c.down.pass(c.lost)
				return
			}
			next = proto.CloneOf(next)
			c.down.pass(func() {
				if c.x.conn == c {
					c.x.heard = w.now
					c.x.take(next)
				}
			})
		}
	})
}

// send sends a worker's message.
func (c *conn) send(up *pb.WorkerUp) {
	c.up.pass(func() {
		if c.ws == nil {
			return
		}
		if err := c.ws.Receive(up); err != nil {
			c.down.pass(c.lost)
		}
	})
}

// leave ends the stream in order.
func (c *conn) leave() {
	c.up.pass(func() {
		if c.ws != nil {
			c.ws.Leave()
		}
	})
}

// lost is when the worker learns that the stream is over, or gives it up. The
// engine's end will notice.
func (c *conn) lost() {
	if c.x.conn == c {
		c.up.die()
		c.down.die()
		c.x.w.after(&c.n.process, c.x.w.rnd.Int64N(4e9), func() { c.given("the worker has closed it") })
		c.x.lost()
	}
}

// broken loses what is on its way, in one direction or both. Each end notices
// later, if it is still there.
func (c *conn) broken(why string, up, down bool) {
	w := c.x.w
	if up {
		c.up.die()
	}
	if down {
		c.down.die()
	}
	w.after(&c.n.process, w.rnd.Int64N(4e9), func() { c.given(why) })
	w.after(&c.x.process, w.rnd.Int64N(3e9), c.lost)
}

// given is when the engine gives the stream up.
func (c *conn) given(why string) {
	c.up.die()
	if c.ws != nil {
		c.ws.Break(errors.New(why))
	}
}

// silence is what the watches on both ends make of a process that has stopped:
// after three seconds the other end gives it up.
func (w *World) silence(c *conn, frozen *process) {
	after := int64(3e9) + w.rnd.Int64N(1e9)
	still := w.froze
	is := func() bool { return frozen.frozen && w.froze == still }
	if frozen == &c.x.process {
		w.after(&c.n.process, after, func() {
			if is() {
				c.given("the worker is silent")
			}
		})
		return
	}
	w.after(&c.x.process, after, func() {
		if is() {
			c.lost()
		}
	})
}

// deaf is when a worker has heard nothing over any stream for long: what must not
// run twice is told to end.
func (x *worker) deaf(since int64) {
	if x.conn != nil || x.heard > since {
		return
	}
	for _, t := range x.tasks {
		if t.t.Once && t.answer == nil && !t.cancelled {
			t.cancelled, t.interrupted = true, true
			x.w.hit("once interrupted")
		}
	}
}
