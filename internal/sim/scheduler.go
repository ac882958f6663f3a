package sim

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"

	"github.com/engined/engined/internal/clock"
)

// process is what lives, stalls and dies as one: an engine, a worker. What is the
// world's own has none.
type process struct {
	name   string
	frozen bool
	dead   bool
}

// fiber is a goroutine of the simulated world.
type fiber struct {
	name  string
	owner *process
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	dead  bool // it is being unwound

	// What it waits for, and what came.
	ctx   context.Context
	at    int64 // in the world's time; 0 is never
	on    [3]<-chan struct{}
	ready bool
	cause clock.Cause
}

// killed unwinds the fibers of a process that has died.
type killed struct{}

// scheduler picks who goes on.
type scheduler struct {
	ctx    context.Context // the simulation's own: it does not end
	rnd    *rand.Rand
	now    int64 // the world's time, in ns since 1970
	steps  int
	fibers []*fiber
	cur    *fiber
	events events
	serial int64
	failed func(format string, args ...any)
	sum    uint64 // of the trace
}

// mix adds to the sum of the trace.
func (s *scheduler) mix(x uint64) { s.sum = (s.sum ^ x) * 0x9E3779B97F4A7C15 }

// spawn begins a fiber of a process.
func (s *scheduler) spawn(p *process, name string, work func()) {
	f := &fiber{name: name, owner: p, ready: true}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			v := recover()
			if _, ok := v.(killed); v != nil && !ok {
				s.failed("%s panicked: %v\n%s", f.name, v, debug.Stack())
			}
		}()
		f.yield = yield
		work()
	})
	s.fibers = append(s.fibers, f)
}

// wait is clock.Clock's, at the world's time. It is called by fibers alone.
func (s *scheduler) wait(ctx context.Context, at int64, a, b, c <-chan struct{}) clock.Cause {
	f := s.cur
	if f == nil {
		panic("sim: a wait outside of every fiber")
	}
	if f.dead {
		panic(killed{})
	}
	f.ctx, f.at, f.on, f.ready = ctx, at, [3]<-chan struct{}{a, b, c}, false
	if !f.yield(struct{}{}) {
		f.dead = true
		panic(killed{})
	}
	s.cur = f
	f.ctx, f.at, f.on = nil, 0, [3]<-chan struct{}{}
	return f.cause
}

// sleep lets a fiber wait for d of the world's time.
func (s *scheduler) sleep(d int64) { s.wait(s.ctx, s.now+max(d, 1), nil, nil, nil) }

// pause lets others go on.
func (s *scheduler) pause() { s.sleep(s.rnd.Int64N(20_000)) }

// can says whether the fiber may go on. What it received is kept for it.
func (f *fiber) can(now int64) bool {
	if f.owner != nil && f.owner.frozen {
		return false
	}
	if f.ready {
		return true
	}
	for i, c := range f.on {
		if c == nil {
			continue
		}
		select {
		case <-c:
			f.ready, f.cause = true, clock.Cause(i)
			return true
		default:
		}
	}
	switch {
	case f.at > 0 && f.at <= now:
		f.ready, f.cause = true, clock.AtTime
	case f.ctx != nil && f.ctx.Err() != nil:
		f.ready, f.cause = true, clock.Ended
	}
	return f.ready
}

// step lets somebody go on, or time pass; false if nothing will ever happen.
func (s *scheduler) step() bool {
	s.steps++
	s.now += 500 + s.rnd.Int64N(2000)
	var can []*fiber
	next := int64(0)
	soon := func(at int64) {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	for _, f := range s.fibers {
		if f.can(s.now) {
			can = append(can, f)
		} else if f.owner == nil || !f.owner.frozen {
			soon(f.at)
		}
	}
	due := false
	if e := s.events.first(); e != nil {
		due = e.at <= s.now
		soon(e.at)
	}
	n := len(can)
	if due {
		n++
	}
	switch {
	case n == 0 && next == 0:
		return false
	case n == 0:
		s.now = max(s.now, next)
	default:
		i := s.rnd.IntN(n)
		s.mix(uint64(s.now) ^ uint64(i)<<56)
		if i < len(can) {
			s.resume(can[i])
		} else {
			s.happen()
		}
	}
	return true
}

func (s *scheduler) resume(f *fiber) {
	s.cur = f
	_, more := f.next()
	s.cur = nil
	if !more {
		s.remove(f)
	}
}

func (s *scheduler) remove(f *fiber) {
	for i := range s.fibers {
		if s.fibers[i] == f {
			s.fibers = append(s.fibers[:i], s.fibers[i+1:]...)
			return
		}
	}
}

// kill ends a process at once: its fibers go no further, and what was going to
// happen in it does not.
func (s *scheduler) kill(p *process) {
	if s.cur != nil && s.cur.owner == p {
		panic("sim: a process that kills itself")
	}
	p.dead, p.frozen = true, false
	for i := 0; i < len(s.fibers); i++ {
		if f := s.fibers[i]; f.owner == p {
			s.remove(f)
			i--
			f.dead = true
			was := s.cur
			s.cur = f
			f.stop()
			s.cur = was
		}
	}
}

// close ends all fibers.
func (s *scheduler) close() {
	for len(s.fibers) > 0 {
		f := s.fibers[0]
		s.remove(f)
		f.dead = true
		s.cur = f
		f.stop()
		s.cur = nil
	}
}

// event is something that happens at a time, in a process or outside of all.
type event struct {
	at     int64
	serial int64
	owner  *process
	do     func()
}

// after lets something happen in d of the world's time. What belongs to a process
// that is dead then does not happen; while it is frozen it is put off.
func (s *scheduler) after(p *process, d int64, do func()) {
	s.serial++
	heap.Push(&s.events, &event{s.now + max(d, 0), s.serial, p, do})
}

func (s *scheduler) happen() {
	e := heap.Pop(&s.events).(*event)
	defer func() {
		if v := recover(); v != nil {
			s.failed("something that happened panicked: %v\n%s", v, debug.Stack())
		}
	}()
	switch {
	case e.owner == nil || !e.owner.dead && !e.owner.frozen:
		e.do()
	case e.owner.frozen:
		e.at = s.now + int64(50e6)
		heap.Push(&s.events, e)
	}
}

type events []*event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].serial < h[j].serial
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *events) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

func (h events) first() *event {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (p *process) String() string { return fmt.Sprint(p.name) }
